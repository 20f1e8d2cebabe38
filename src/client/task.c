/* A task before and around its execution: checking what is asked, and what other
 * threads may do to it. The execution itself is in execute.c. */
#include "client/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "image/image.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/pack.h"

/* What a guest finds in its environment unless the caller says otherwise. */
static const char *const default_env[] = {
	"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
	"HOME=/workspace",
	"USER=box",
	"LOGNAME=box",
	"SHELL=/bin/sh",
	"LANG=C.UTF-8",
	"TMPDIR=/tmp",
};

static size_t count(const char *const *strings)
{
	size_t n = 0;

	while (strings && strings[n])
		n++;
	return n;
}

static char **copy_strings(const char *const *strings, size_t room)
{
	size_t n = count(strings);
	char **copy = xcalloc(n + room + 1, sizeof(*copy));

	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(strings[i]);
	return copy;
}

static bool has_variable(char *const *env, const char *entry)
{
	size_t n = strcspn(entry, "=") + 1;

	for (size_t i = 0; env[i]; i++) {
		if (strncmp(env[i], entry, n) == 0)
			return true;
	}
	return false;
}

static char **make_env(const char *const *given, bool tty)
{
	char **env = copy_strings(given, ARRAY_SIZE(default_env) + 1);
	size_t n = count(given);

	for (size_t i = 0; i < ARRAY_SIZE(default_env); i++) {
		if (!has_variable(env, default_env[i]))
			env[n++] = xstrdup(default_env[i]);
	}
	if (tty && !has_variable(env, "TERM="))
		env[n++] = xstrdup("TERM=xterm-256color");
	return env;
}

/* Zero means that the default, which is there already, stays. */
static void apply_limits(struct limits *to, const struct belljar_limits *from)
{
	const struct {
		uint64_t *to;
		uint64_t from;
	} rows[] = {
		{ &to->timeout_ms, from->timeout_ms },
		{ &to->startup_ms, from->startup_ms },
		{ &to->grace_ms, from->grace_ms },
		{ &to->memory_bytes, from->memory_bytes },
		{ &to->cpu_milli, from->cpu_milli },
		{ &to->pids, from->pids },
		{ &to->workspace_bytes, from->workspace_bytes },
		{ &to->tmp_bytes, from->tmp_bytes },
		{ &to->files, from->open_files },
		{ &to->capture_bytes, from->capture_bytes },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].from)
			*rows[i].to = rows[i].from;
	}
	if (from->no_grace)
		to->grace_ms = 0;
	/* The second limit on processes must not undercut the one that was asked for. */
	if (to->processes < to->pids + 1)
		to->processes = to->pids + 1;
}

static void make_spec(struct belljar_task *t, const struct belljar_task_options *o)
{
	struct spec *s = &t->spec;

	spec_init(s);
	spec_make_id(s->id);
	s->argv = copy_strings(o->argv, 0);
	s->env = make_env(o->env, o->tty);
	s->globs = copy_strings(o->captures, 0);
	s->cwd = xstrdup(o->cwd ? o->cwd : "/workspace");
	apply_limits(&s->limits, &o->limits);
	s->require = o->require;
	s->tty = o->tty;
	s->rows = (uint16_t)(o->rows ? o->rows : 24);
	s->columns = (uint16_t)(o->columns ? o->columns : 80);
	s->takes_files = o->n_files > 0;
	s->exec = o->workspace_exec;
}

static int copy_file(struct task_file *to, const struct belljar_file *from, struct err *err)
{
	if (!from->name || (!from->bytes && !from->host_path))
		return err_set(err, -EINVAL, "a file has no name or no source");
	if (!pack_name_is_clean(from->name))
		return err_set(err, -EINVAL, "'%.100s' is not a name a file can have in the box",
			from->name);
	to->name = xstrdup(from->name);
	to->mode = from->mode ? from->mode : 0644;
	to->host_path = from->host_path ? xstrdup(from->host_path) : NULL;
	if (!from->bytes)
		return 0;
	to->bytes = malloc(from->size + 1);
	if (!to->bytes)
		return err_set(err, -ENOMEM, "no memory for '%.100s'", from->name);
	memcpy(to->bytes, from->bytes, from->size);
	to->size = from->size;
	return 0;
}

static int copy_files(struct belljar_task *t, const struct belljar_task_options *o, struct err *err)
{
	t->files = xcalloc(o->n_files, sizeof(*t->files));
	t->n_files = o->n_files;
	for (size_t i = 0; i < o->n_files; i++) {
		int r = copy_file(&t->files[i], &o->files[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int copy_input(struct belljar_task *t, const struct belljar_task_options *o, struct err *err)
{
	t->input_fd = o->has_input_fd ? o->input_fd : -1;
	if (!o->input)
		return 0;
	t->input = malloc(o->input_size + 1);
	if (!t->input)
		return err_set(err, -ENOMEM, "no memory for the input");
	memcpy(t->input, o->input, o->input_size);
	t->input_size = o->input_size;
	return 0;
}

/* An image that is not there is a result, which comes when the task is executed. */
static int resolve_image(struct belljar_task *t, const char *name, struct err *err)
{
	struct err why = { 0 };
	int r = image_resolve(t->sandbox->root, name ? name : "host", t->spec.image, &why);

	if (r == -ENOENT) {
		t->image_error = xnew(struct err);
		*t->image_error = why;
		return 0;
	}
	return r < 0 ? err_set(err, r, "%s", why.text) : 0;
}

static int check_options(const struct belljar_task_options *o, struct err *err)
{
	if (o->n_files > PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	if (o->rows > UINT16_MAX || o->columns > UINT16_MAX)
		return err_set(err, -EINVAL, "no terminal is that large");
	if (count(o->captures) > 0 && !o->capture_dir)
		return err_set(err, -EINVAL, "captures need a directory to go to");
	if (o->require & ~FACET_ALL)
		return err_set(err, -EINVAL, "something unknown is required");
	return 0;
}

int belljar_task_new(struct belljar_sandbox *sandbox, const struct belljar_task_options *options,
	struct belljar_task **ret, struct belljar_error *error)
{
	struct err err = { 0 };
	struct belljar_task *t = xnew(struct belljar_task);

	(void)pthread_mutex_init(&t->lock, NULL);
	t->sandbox = sandbox;
	t->keeper_fd = -1;
	t->tty_fd = -1;
	int r = check_options(options, &err);
	if (r == 0) {
		make_spec(t, options);
		t->capture_dir = options->capture_dir ? xstrdup(options->capture_dir) : NULL;
		r = copy_files(t, options, &err);
	}
	if (r == 0)
		r = copy_input(t, options, &err);
	if (r == 0)
		r = resolve_image(t, options->image, &err);
	if (r == 0)
		r = spec_check(&t->spec, &err);
	if (r < 0) {
		belljar_task_free(t);
		return sandbox_report(error, &err, r);
	}
	*ret = t;
	return 0;
}

void belljar_task_free(struct belljar_task *task)
{
	if (!task)
		return;
	for (size_t i = 0; i < task->n_files; i++) {
		free(task->files[i].name);
		free(task->files[i].bytes);
		free(task->files[i].host_path);
	}
	free(task->files);
	free(task->capture_dir);
	free(task->input);
	free(task->image_error);
	spec_fini(&task->spec);
	(void)pthread_mutex_destroy(&task->lock);
	free(task);
}

const char *belljar_task_id(const struct belljar_task *task)
{
	return task->spec.id;
}

/* Under the lock: send a message about this task, if it is being executed. */
static int send_about(struct belljar_task *t, uint32_t type, int sig)
{
	struct put p;

	if (t->keeper_fd < 0)
		return -ESRCH;
	put_init(&p, 256);
	put_str(&p, t->spec.id);
	if (type == MESSAGE_SIGNAL)
		put_u32(&p, (uint32_t)sig);
	int r = frame_send(t->keeper_fd, type, &p, NULL, 0);
	put_fini(&p);
	return r;
}

void belljar_task_stop(struct belljar_task *task)
{
	(void)pthread_mutex_lock(&task->lock);
	if (!task->stopped)
		(void)send_about(task, MESSAGE_CANCEL, 0);
	task->stopped = true;
	(void)pthread_mutex_unlock(&task->lock);
}

int belljar_task_signal(struct belljar_task *task, int signal)
{
	(void)pthread_mutex_lock(&task->lock);
	int r = send_about(task, MESSAGE_SIGNAL, signal);
	(void)pthread_mutex_unlock(&task->lock);
	return r;
}

int belljar_task_resize(struct belljar_task *task, unsigned rows, unsigned columns)
{
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };

	(void)pthread_mutex_lock(&task->lock);
	int r = task->tty_fd < 0 ? -ENOTTY : 0;
	if (r == 0 && ioctl(task->tty_fd, TIOCSWINSZ, &size) < 0)
		r = -errno;
	(void)pthread_mutex_unlock(&task->lock);
	return r;
}
