/* belljar run: one command or one piece of source in a box, through the same
 * library that others link against. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "belljar.h"
#include "cli/command.h"
#include "cli/option.h"
#include "cli/result_json.h"
#include "cli/terminal.h"
#include "ipc/spec.h"
#include "lang/lang.h"

#define SOURCE_MAX      (16u << 20)
#define JSON_OUTPUT_MAX (16u << 20) /* of each stream in --json; the rest is dropped, and said */

struct run_values {
	const char *root;
	const char *image;
	const char *lang;
	const char *out;
	const char *require;
	const char *cwd;
	uint64_t timeout_ms;
	uint64_t grace_ms;
	uint64_t memory;
	uint64_t cpu_milli;
	uint64_t pids;
	uint64_t workspace;
	uint64_t capture_max;
	struct option_list env;
	struct option_list copy_in;
	struct option_list captures;
	bool json;
	bool quiet;
	bool no_tty;
	bool no_grace;
};

#define NOT_GIVEN UINT64_MAX
#define AT(field) offsetof(struct run_values, field)

static const struct option_row options[] = {
	{ "--image", 'i', OPTION_STRING, AT(image), "NAME",
		"what to run on (default: host, the machine's own /usr)" },
	{ "--lang", 'l', OPTION_STRING, AT(lang), "LANGUAGE",
		"run source in python, javascript or shell, from FILE or stdin" },
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

static uint64_t *amount_at(struct run_values *v, const struct option_row *row)
{
	return (uint64_t *)((char *)v + row->offset);
}

static void forget_amounts(struct run_values *v)
{
	for (const struct option_row *row = options; row->name; row++) {
		if (is_amount(row))
			*amount_at(v, row) = NOT_GIVEN;
	}
}

/* To the library zero means the default; to a person it means zero. */
static int check_amounts(struct run_values *v, struct err *err)
{
	v->no_grace = v->grace_ms == 0;
	for (const struct option_row *row = options; row->name; row++) {
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

/* One invocation: the options, what was made of them, and the run. */
struct invocation {
	struct belljar_listener listener; /* first: the listener is this */
	struct run_values v;
	struct belljar_task_options task;
	const struct lang *lang;
	const char **argv;
	const char **env;
	const char **captures;
	struct belljar_file *files;
	size_t n_files;
	char *source;
	size_t source_size;
	struct capture_text out;
	struct capture_text err;
	struct belljar_task *running;
	int interrupts;
	atomic_int stop_signal; /* that made us stop it; 0 for none */
	int output_error;       /* errno of a write that failed; 0 for none */
	pthread_t signal_thread;
	atomic_bool done;
};

static void append(struct capture_text *text, const char *data, size_t size)
{
	size_t room = JSON_OUTPUT_MAX - text->size;
	size_t n = size < room ? size : room;

	text->truncated = text->truncated || n < size;
	if (n == 0)
		return;
	char *grown = realloc(text->data, text->size + n);
	if (!grown)
		abort();
	text->data = grown;
	memcpy(text->data + text->size, data, n);
	text->size += n;
}

/* Write all, also to a descriptor that somebody else made non-blocking. */
static int write_output(int fd, const char *data, size_t size)
{
	struct pollfd writable = { .fd = fd, .events = POLLOUT };

	while (size > 0) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EAGAIN)
			(void)poll(&writable, 1, -1);
		else if (n < 0 && errno != EINTR)
			return -errno;
		data += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void on_event(struct belljar_listener *self, const struct belljar_event *event)
{
	struct invocation *in = (struct invocation *)self;
	bool is_err = event->kind == BELLJAR_EVENT_STDERR;

	if ((event->kind != BELLJAR_EVENT_STDOUT && !is_err) || in->output_error)
		return;
	if (in->v.json) {
		append(is_err ? &in->err : &in->out, event->data, event->size);
		return;
	}
	int r = write_output(is_err ? STDERR_FILENO : STDOUT_FILENO, event->data, event->size);
	/* Nobody reads any more: as for any program in a pipe, that is the end. */
	if (r < 0) {
		in->output_error = -r;
		belljar_task_stop(in->running);
	}
}

static const int handled_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGUSR1,
	SIGUSR2 };

/* Signals that mean the guest and not us. */
static bool is_for_guest(struct invocation *in, int sig)
{
	if (sig == SIGINT)
		return in->interrupts++ == 0; /* the second Ctrl-C means us */
	return sig == SIGQUIT || sig == SIGUSR1 || sig == SIGUSR2;
}

static void fill_signals(sigset_t *set)
{
	(void)sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(handled_signals); i++)
		(void)sigaddset(set, handled_signals[i]);
}

static void on_signal(struct invocation *in, int sig)
{
	unsigned rows, columns;

	if (sig == SIGWINCH) {
		terminal_size(&rows, &columns);
		(void)belljar_task_resize(in->running, rows, columns);
		return;
	}
	if (is_for_guest(in, sig) && belljar_task_signal(in->running, sig) == 0)
		return;
	if (sig == SIGUSR1 || sig == SIGUSR2)
		return;
	in->stop_signal = sig;
	belljar_task_stop(in->running);
}

static void *signal_main(void *arg)
{
	struct invocation *in = arg;
	sigset_t set;
	int sig;

	fill_signals(&set);
	while (sigwait(&set, &sig) == 0 && !in->done)
		on_signal(in, sig);
	return NULL;
}

static int find_lang(struct invocation *in, struct err *err)
{
	if (!in->v.lang)
		return 0;
	in->lang = lang_find(in->v.lang);
	if (in->lang)
		return 0;
	const char *near = lang_nearest(in->v.lang);
	return err_set(err, -EINVAL, "unknown language '%s'%s%s%s", in->v.lang,
		near ? ", did you mean '" : ", known are python, javascript and shell",
		near ? near : "", near ? "'?" : "");
}

static int read_source(struct invocation *in, const char *path, struct err *err)
{
	bool from_stdin = !path || streq(path, "-");
	AUTO_FD fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				: open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "open %s", from_stdin ? "stdin" : path);
	int r = fd_read_all(fd, SOURCE_MAX, &in->source, &in->source_size);
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

static int make_command(struct invocation *in, int argc, char **argv, struct err *err)
{
	if (!in->lang) {
		if (argc == 0)
			return err_set(
				err, -EINVAL, "no command: belljar run [OPTION]... -- COMMAND");
		in->argv = join(NULL, argc, argv);
		return 0;
	}
	int r = read_source(in, argc > 0 ? argv[0] : NULL, err);
	if (r < 0)
		return r;
	in->argv = join(in->lang->argv, argc > 0 ? argc - 1 : 0, argv + 1);
	in->files[in->n_files++] = (struct belljar_file){
		.name = in->lang->source,
		.bytes = in->source,
		.size = in->source_size,
	};
	return 0;
}

/* "SRC" or "SRC:DST"; without DST it keeps its own name. */
static int add_copy_in(struct invocation *in, const char *text, struct err *err)
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
	in->files[in->n_files++] = (struct belljar_file){ .name = name, .host_path = source };
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

static int prepare(struct invocation *in, int argc, char **argv, struct err *err)
{
	const struct run_values *v = &in->v;
	int r = find_lang(in, err);

	in->files = xcalloc(v->copy_in.n + 1, sizeof(*in->files));
	for (size_t i = 0; i < v->copy_in.n && r == 0; i++)
		r = add_copy_in(in, v->copy_in.values[i], err);
	if (r == 0)
		r = make_command(in, argc, argv, err);
	if (r == 0)
		r = check_env(&v->env, err);
	if (r == 0 && v->captures.n > 0 && !v->out)
		r = err_set(err, -EINVAL, "--capture needs --out DIR");
	if (r == 0 && v->require)
		r = facet_parse_list(v->require, &in->task.require, err);
	if (r < 0)
		return r;
	/* What the user says comes first, so that it wins. */
	in->env = xcalloc(v->env.n + 16, sizeof(*in->env));
	for (size_t i = 0; i < v->env.n; i++)
		in->env[i] = v->env.values[i];
	for (size_t i = 0; in->lang && in->lang->env[i]; i++)
		in->env[v->env.n + i] = in->lang->env[i];
	in->captures = xcalloc(v->captures.n + 1, sizeof(*in->captures));
	for (size_t i = 0; i < v->captures.n; i++)
		in->captures[i] = v->captures.values[i];
	return 0;
}

static void fill_task(struct invocation *in, bool source_was_stdin)
{
	const struct run_values *v = &in->v;
	struct belljar_task_options *t = &in->task;

	t->image = v->image;
	t->argv = in->argv;
	t->env = in->env;
	t->cwd = v->cwd;
	t->files = in->files;
	t->n_files = in->n_files;
	t->captures = in->captures;
	t->capture_dir = v->out;
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

static int status_of(const struct invocation *in, const struct belljar_result *r)
{
	switch (r->outcome) {
	case BELLJAR_TIMEOUT:
	case BELLJAR_STARTUP_TIMEOUT:
		return EXIT_TIMEOUT;
	case BELLJAR_OUT_OF_MEMORY:
		return EXIT_OOM;
	case BELLJAR_EXEC_FAILED:
		return r->error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	case BELLJAR_CANCELED:
		return 128 + (in->stop_signal ? in->stop_signal : SIGTERM);
	case BELLJAR_SUCCESS:
	case BELLJAR_NONZERO_EXIT:
	case BELLJAR_SIGNALED:
	case BELLJAR_PIDS_LIMIT:
		return r->signal ? 128 + r->signal : r->exit_code;
	case BELLJAR_IMAGE_MISSING:
	case BELLJAR_PROVISION_FAILED:
	case BELLJAR_POLICY_DENIED:
	default:
		return EXIT_OURS;
	}
}

/* What a plain exit does not tell; NULL for those that need no word. */
static const char *const headlines[] = {
	[BELLJAR_SIGNALED] = "killed",
	[BELLJAR_OUT_OF_MEMORY] = "out of memory",
	[BELLJAR_PIDS_LIMIT] = "too many processes",
	[BELLJAR_TIMEOUT] = "timed out",
	[BELLJAR_STARTUP_TIMEOUT] = "timed out",
	[BELLJAR_CANCELED] = "stopped",
	[BELLJAR_IMAGE_MISSING] = "no such image",
	[BELLJAR_PROVISION_FAILED] = "could not make the box",
	[BELLJAR_EXEC_FAILED] = "could not start",
	[BELLJAR_POLICY_DENIED] = "refused",
};

static void tell_unenforced(const struct invocation *in, uint64_t enforced)
{
	char names[256] = "";

	if (in->v.json || in->v.quiet)
		return;
	for (unsigned f = 0; f < BELLJAR_FACET_COUNT; f++) {
		size_t used = strlen(names);

		if (!(enforced & (UINT64_C(1) << f)))
			(void)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
				belljar_facet_name((enum belljar_facet)f));
	}
	if (names[0])
		complain("not enforced on this host: %s (belljar doctor explains)", names);
}

static void tell(const struct belljar_result *r)
{
	const char *headline =
		(size_t)r->outcome < ARRAY_SIZE(headlines) ? headlines[r->outcome] : NULL;

	if (headline)
		complain("%s: %s", headline, r->message);
	if (r->capture_incomplete && r->started_ns)
		complain("not all files could be captured%s%s",
			str_after(r->message, "capture: ") ? ": " : "",
			str_after(r->message, "capture: ") ? str_after(r->message, "capture: ")
							   : "");
	if (r->skipped_files > 0)
		complain("%llu captured files passed the limit and were left out",
			(unsigned long long)r->skipped_files);
}

/* Output that is lost makes any end a failure. */
static int tell_lost_output(int error)
{
	if (error == EPIPE) {
		complain("stopped: nobody reads its output");
		return 128 + SIGPIPE;
	}
	complain("cannot write the output: %s", strerror(error));
	return EXIT_OURS;
}

static int report(struct invocation *in, const struct belljar_result *r)
{
	if (in->output_error)
		return tell_lost_output(in->output_error);
	if (!in->v.json) {
		tell(r);
		return status_of(in, r);
	}
	result_json_print(r, NULL, &in->out, &in->err);
	if (fflush(stdout) != 0 || ferror(stdout))
		return tell_lost_output(errno);
	return status_of(in, r);
}

static int fail(struct invocation *in, const struct belljar_error *error)
{
	if (in->v.json)
		result_json_print(NULL, error, &in->out, &in->err);
	complain("%s", error->text);
	return EXIT_OURS;
}

static int execute(struct invocation *in, struct belljar_sandbox *sandbox)
{
	struct belljar_result result;
	struct belljar_error error = { 0 };
	sigset_t set;

	if (belljar_task_new(sandbox, &in->task, &in->running, &error) < 0)
		return fail(in, &error);
	tell_unenforced(in, belljar_enforced(sandbox));
	fill_signals(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&in->signal_thread, NULL, signal_main, in) != 0)
		abort();
	if (in->task.tty)
		terminal_make_raw();
	int r = belljar_task_execute(in->running, &in->listener, &result, &error);
	terminal_restore();
	in->done = true;
	(void)pthread_kill(in->signal_thread, SIGUSR1);
	(void)pthread_join(in->signal_thread, NULL);
	belljar_task_free(in->running);
	return r < 0 ? fail(in, &error) : report(in, &result);
}

static int run_with(struct invocation *in, int argc, char **argv)
{
	struct belljar_options where = { .root = in->v.root, .program = "/proc/self/exe" };
	struct belljar_sandbox *sandbox = NULL;
	struct belljar_error error = { 0 };
	struct err err = { 0 };

	if (prepare(in, argc, argv, &err) < 0) {
		(void)snprintf(error.text, sizeof(error.text), "%s", err.text);
		return fail(in, &error);
	}
	fill_task(in, in->lang && (argc == 0 || streq(argv[0], "-")));
	(void)signal(SIGPIPE, SIG_IGN);
	if (belljar_open(&where, &sandbox, &error) < 0)
		return fail(in, &error);
	int status = execute(in, sandbox);
	belljar_close(sandbox);
	return status;
}

static int run(const struct command *self, int argc, char **argv)
{
	struct invocation in = { .listener = { .on_event = on_event } };
	struct err err = { 0 };

	forget_amounts(&in.v);
	int first = option_parse(self, argc, argv, &in.v, &err);
	if (first == 0)
		return EXIT_SUCCESS;
	if (first > 0 && check_amounts(&in.v, &err) < 0)
		first = err.code;
	if (first < 0) {
		complain("%s", err.text);
		return EXIT_OURS;
	}
	int status = run_with(&in, argc - first, argv + first);
	option_list_fini(&in.v.env);
	option_list_fini(&in.v.copy_in);
	option_list_fini(&in.v.captures);
	for (size_t i = 0; i < in.n_files; i++)
		free((char *)in.files[i].host_path);
	free(in.files);
	free(in.argv);
	free(in.env);
	free(in.captures);
	free(in.source);
	free(in.out.data);
	free(in.err.data);
	return status;
}

const struct command command_run = {
	.name = "run",
	.arguments = "-- COMMAND [ARGUMENT]... | --lang LANGUAGE [FILE] [ARGUMENT]...",
	.summary = "Run a command or source code in a box",
	.description =
		"Output streams as it is made, stdin is passed on, a terminal gets a terminal.\n"
		"The exit status is the command's own, or\n"
		"  124  it ran into its timeout\n"
		"  125  belljar itself could not do its work, or the request was refused\n"
		"  126  the command can not be executed\n"
		"  127  the command was not found\n"
		"  137  it ran out of memory\n"
		"  128+N  it was ended by signal N",
	.options = options,
	.run = run,
};
