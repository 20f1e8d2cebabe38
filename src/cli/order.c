#include "cli/order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "ipc/spec.h"
#include "lang/lang.h"

#define SOURCE_MAX (16u << 20)

#define NOT_GIVEN UINT64_MAX
#define AT(field) offsetof(struct order_values, field)

const struct option_row order_options[] = {
	{ "--image", 'i', OPTION_STRING, AT(image), "NAME",
		"what to run on (default: host, the machine's own /usr)" },
	{ "--lang", 'l', OPTION_STRING, AT(lang), "LANGUAGE",
		"run source in that language, from FILE or stdin" },
	{ "--timeout", 't', OPTION_DURATION, AT(timeout_ms), "TIME",
		"kill it after this long (default: 60s)" },
	{ "--grace", 0, OPTION_DURATION, AT(grace_ms), "TIME",
		"between TERM and KILL when interrupted (default: 5s)" },
	{ "--memory", 'm', OPTION_BYTES, AT(memory), "SIZE",
		"memory, swap included (default: 1G)" },
	{ "--cpu", 'c', OPTION_MILLI, AT(cpu_milli), "CORES", "processor time (default: 1)" },
	{ "--pids", 0, OPTION_NUMBER, AT(pids), "N", "processes and threads (default: 256)" },
	{ "--workspace-cap", 0, OPTION_BYTES, AT(workspace), "SIZE",
		"size of /workspace (default: 256M)" },
	{ "--env", 'e', OPTION_LIST, AT(env), "NAME=VALUE", "set a variable; may be repeated" },
	{ "--copy-in", 0, OPTION_LIST, AT(copy_in), "SRC[:DST]",
		"copy a file or directory into /workspace; may be repeated" },
	{ "--capture", 0, OPTION_LIST, AT(captures), "GLOB",
		"take matching files out of /workspace; may be repeated" },
	{ "--capture-cap", 0, OPTION_BYTES, AT(capture_max), "SIZE",
		"all captured files together (default: 32M)" },
	{ "--out", 'o', OPTION_STRING, AT(out), "DIR", "where captured files go" },
	{ "--cwd", 0, OPTION_STRING, AT(cwd), "DIR", "working directory (default: /workspace)" },
	{ "--require", 0, OPTION_STRING, AT(require), "LIST",
		"refuse to run unless these limits hold: memory,cpu,... or all" },
	{ "--exec", 0, OPTION_FLAG, AT(exec), NULL,
		"files in /workspace and /tmp can be executed (the default)" },
	{ "--no-exec", 0, OPTION_FLAG, AT(no_exec), NULL, "they cannot: both are noexec" },
	{ "--json", 0, OPTION_FLAG, AT(json), NULL,
		"print one JSON object with output and result instead" },
	{ "--no-tty", 0, OPTION_FLAG, AT(no_tty), NULL, "pipes, even on a terminal" },
	{ "--quiet", 'q', OPTION_FLAG, AT(quiet), NULL, "do not tell what is not enforced" },
	{ "--root", 0, OPTION_STRING, AT(root), "DIR", "state directory" },
	{ 0 },
};

static bool is_amount(const struct option_row *row)
{
	return row->kind == OPTION_BYTES || row->kind == OPTION_DURATION ||
	       row->kind == OPTION_MILLI || row->kind == OPTION_NUMBER;
}

static uint64_t *amount_at(struct order_values *v, const struct option_row *row)
{
	return (uint64_t *)((char *)v + row->offset);
}

static void forget_amounts(struct order_values *v)
{
	for (const struct option_row *row = order_options; row->name; row++) {
		if (is_amount(row))
			*amount_at(v, row) = NOT_GIVEN;
	}
}

/* To the library zero means the default; to a person it means zero. */
static int check_amounts(struct order_values *v, struct err *err)
{
	v->no_grace = v->grace_ms == 0;
	for (const struct option_row *row = order_options; row->name; row++) {
		if (!is_amount(row))
			continue;
		uint64_t *value = amount_at(v, row);
		if (*value == 0 && value != &v->grace_ms)
			return err_set(err, -EINVAL, "option %s: 0 is too little", row->name);
		if (*value == NOT_GIVEN)
			*value = 0;
	}
	return 0;
}

/* What is in an image shows when it is executed; of the host it can be said before. */
static int check_lang(const struct order *req, struct err *err)
{
	bool on_host = !req->v.image || streq(req->v.image, "host");

	return on_host ? lang_check(req->lang, err) : 0;
}

static int find_lang(struct order *req, struct err *err)
{
	char known[160];

	if (!req->v.lang)
		return 0;
	req->lang = lang_find(req->v.lang);
	if (req->lang)
		return check_lang(req, err);
	const char *near = lang_nearest(req->v.lang);
	if (near)
		return err_set(err, -EINVAL, "unknown language '%s', did you mean '%s'?",
			req->v.lang, near);
	lang_list(known, sizeof(known));
	return err_set(err, -EINVAL, "unknown language '%.60s', known are %s", req->v.lang, known);
}

static int read_source(struct order *req, const char *path, struct err *err)
{
	bool from_stdin = !path || streq(path, "-");
	AUTO_FD fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				: open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "open %s", from_stdin ? "stdin" : path);
	int r = fd_read_all(fd, SOURCE_MAX, &req->source, &req->source_size);
	if (r == -EFBIG)
		return err_set(err, r, "the source is larger than %u MiB", SOURCE_MAX >> 20);
	return r < 0 ? err_set(err, r, "read %s: %s", from_stdin ? "stdin" : path, strerror(-r))
		     : 0;
}

/* `words` of the language, then what stands on the command line. */
static const char **join(const char *const *words, int argc, char **argv)
{
	size_t n = 0;

	while (words && words[n])
		n++;
	const char **all = xcalloc(n + (size_t)argc + 1, sizeof(*all));
	for (size_t i = 0; i < n; i++)
		all[i] = words[i];
	for (int i = 0; i < argc; i++)
		all[n + (size_t)i] = argv[i];
	return all;
}

/* A PATH is for the program, not for who runs it. */
static void find_program(struct order *req)
{
	for (size_t i = 0; i < req->v.env.n; i++) {
		if (str_after(req->v.env.values[i], "PATH="))
			req->argv[0] = lang_program(
				req->lang, req->v.image, req->program, sizeof(req->program));
	}
}

static int make_command(struct order *req, int argc, char **argv, struct err *err)
{
	if (!req->lang) {
		if (argc == 0)
			return err_set(
				err, -EINVAL, "no command: belljar run [OPTION]... -- COMMAND");
		req->argv = join(NULL, argc, argv);
		return 0;
	}
	int r = read_source(req, argc > 0 ? argv[0] : NULL, err);
	if (r < 0)
		return r;
	req->argv = join(req->lang->argv, argc > 0 ? argc - 1 : 0, argv + 1);
	find_program(req);
	req->files[req->n_files++] = (struct belljar_file){
		.name = req->lang->source,
		.bytes = req->source,
		.size = req->source_size,
	};
	return 0;
}

/* "SRC" or "SRC:DST"; without DST it keeps its own name. */
static int add_copy_in(struct order *req, const char *text, struct err *err)
{
	char *source = xstrdup(text);
	char *colon = strrchr(source, ':');

	/* Kept to the end of the program, like the arguments it came from. */
	if (colon)
		*colon = '\0';
	size_t n = strlen(source);
	while (n > 1 && source[n - 1] == '/')
		source[--n] = '\0';
	const char *slash = strrchr(source, '/');
	const char *name = colon ? colon + 1 : slash ? slash + 1 : source;
	name = str_after(name, "/workspace/") ? str_after(name, "/workspace/") : name;
	req->files[req->n_files++] = (struct belljar_file){ .name = name, .host_path = source };
	if (!*name || streq(name, ".") || streq(name, ".."))
		return err_set(err, -EINVAL, "--copy-in %s: say what to call it, as SRC:DST", text);
	return 0;
}

static int check_env(const struct option_list *env, struct err *err)
{
	for (size_t i = 0; i < env->n; i++) {
		const char *equals = strchr(env->values[i], '=');

		if (!equals || equals == env->values[i])
			return err_set(err, -EINVAL, "--env wants NAME=VALUE");
	}
	return 0;
}

static int prepare(struct order *req, int argc, char **argv, struct err *err)
{
	const struct order_values *v = &req->v;
	int r = find_lang(req, err);

	req->files = xcalloc(v->copy_in.n + 1, sizeof(*req->files));
	for (size_t i = 0; i < v->copy_in.n && r == 0; i++)
		r = add_copy_in(req, v->copy_in.values[i], err);
	if (r == 0)
		r = make_command(req, argc, argv, err);
	if (r == 0)
		r = check_env(&v->env, err);
	if (r == 0 && v->exec && v->no_exec)
		r = err_set(err, -EINVAL, "--exec and --no-exec exclude one another");
	if (r == 0 && v->captures.n > 0 && !v->out)
		r = err_set(err, -EINVAL, "--capture needs --out DIR");
	if (r == 0 && v->require)
		r = facet_parse_list(v->require, &req->task.require, err);
	if (r < 0)
		return r;
	/* What the user says comes first, so that it wins. */
	req->env = xcalloc(v->env.n + 16, sizeof(*req->env));
	for (size_t i = 0; i < v->env.n; i++)
		req->env[i] = v->env.values[i];
	for (size_t i = 0; req->lang && req->lang->env[i]; i++)
		req->env[v->env.n + i] = req->lang->env[i];
	req->captures = xcalloc(v->captures.n + 1, sizeof(*req->captures));
	for (size_t i = 0; i < v->captures.n; i++)
		req->captures[i] = v->captures.values[i];
	return 0;
}

static void fill_task(struct order *req, bool source_was_stdin)
{
	const struct order_values *v = &req->v;
	struct belljar_task_options *t = &req->task;

	t->image = v->image;
	t->argv = req->argv;
	t->env = req->env;
	t->cwd = v->cwd;
	t->files = req->files;
	t->n_files = req->n_files;
	t->captures = req->captures;
	t->capture_dir = v->out;
	t->workspace_exec = !v->no_exec;
	t->limits = (struct belljar_limits){
		.timeout_ms = v->timeout_ms,
		.grace_ms = v->grace_ms,
		.no_grace = v->no_grace,
		.memory_bytes = v->memory,
		.cpu_milli = v->cpu_milli,
		.pids = v->pids,
		.workspace_bytes = v->workspace,
		.capture_bytes = v->capture_max,
	};
	t->tty = !v->json && !v->no_tty && !source_was_stdin && terminal_is_there();
	if (t->tty)
		terminal_size(&t->rows, &t->columns);
	t->has_input_fd = !source_was_stdin;
	t->input_fd = STDIN_FILENO;
	t->input = source_was_stdin ? "" : NULL;
}

int order_parse(
	const struct command *cmd, int argc, char **argv, struct order *ret, struct err *err)
{
	forget_amounts(&ret->v);
	int first = option_parse(cmd, argc, argv, &ret->v, err);
	if (first <= 0)
		return first;
	int r = check_amounts(&ret->v, err);
	if (r == 0)
		r = prepare(ret, argc - first, argv + first, err);
	if (r < 0)
		return r;
	fill_task(ret, ret->lang && (first == argc || streq(argv[first], "-")));
	return 1;
}

void order_fini(struct order *req)
{
	option_list_fini(&req->v.env);
	option_list_fini(&req->v.copy_in);
	option_list_fini(&req->v.captures);
	for (size_t i = 0; i < req->n_files; i++)
		free((char *)req->files[i].host_path);
	free(req->files);
	free(req->argv);
	free(req->env);
	free(req->captures);
	free(req->source);
}
