/* belljar run: one command or one piece of source in a box, through the same
 * library that others link against. */
#include <errno.h>
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
#include "base/str.h"
#include "belljar.h"
#include "cli/command.h"
#include "cli/order.h"
#include "cli/result_json.h"
#include "cli/terminal.h"

#define JSON_OUTPUT_MAX (16u << 20) /* of each stream in --json; the rest is dropped, and said */

/* One invocation: what is asked for, and the run. */
struct invocation {
	struct belljar_listener listener; /* first: the listener is this */
	struct order request;
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
	if (in->request.v.json) {
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
	/* Asked again: whoever reads our output may never do so. The run ends with us. */
	if (in->stop_signal) {
		terminal_restore();
		_exit(128 + sig);
	}
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

/* What a plain exit does not tell, and the status where it is ours to choose. */
static const struct {
	const char *headline; /* NULL: it speaks for itself */
	int status;           /* 0: the guest's own */
} ends[] = {
	[BELLJAR_SUCCESS] = { NULL, 0 },
	[BELLJAR_NONZERO_EXIT] = { NULL, 0 },
	[BELLJAR_SIGNALED] = { "killed", 0 },
	[BELLJAR_OUT_OF_MEMORY] = { "out of memory", EXIT_OOM },
	[BELLJAR_PIDS_LIMIT] = { "too many processes", 0 },
	[BELLJAR_TIMEOUT] = { "timed out", EXIT_TIMEOUT },
	[BELLJAR_STARTUP_TIMEOUT] = { "timed out", EXIT_TIMEOUT },
	[BELLJAR_CANCELED] = { "stopped", 128 + SIGTERM },
	[BELLJAR_IMAGE_MISSING] = { "no such image", EXIT_OURS },
	[BELLJAR_PROVISION_FAILED] = { "could not make the box", EXIT_OURS },
	[BELLJAR_EXEC_FAILED] = { "could not start", EXIT_NOT_EXECUTABLE },
	[BELLJAR_POLICY_DENIED] = { "refused", EXIT_OURS },
};

static int status_of(const struct invocation *in, const struct belljar_result *r)
{
	if (r->outcome == BELLJAR_CANCELED && in->stop_signal)
		return 128 + in->stop_signal;
	if (r->outcome == BELLJAR_EXEC_FAILED && r->error == ENOENT)
		return EXIT_NOT_FOUND;
	/* All went well but for the files that were wanted of it. */
	if (r->outcome == BELLJAR_SUCCESS && (r->capture_incomplete || r->skipped_files > 0))
		return EXIT_OURS;
	if (ends[r->outcome].status)
		return ends[r->outcome].status;
	return r->signal ? 128 + r->signal : r->exit_code;
}

static void tell_unenforced(const struct invocation *in, uint64_t enforced)
{
	char names[256] = "";

	if (in->request.v.json || in->request.v.quiet)
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
	if (ends[r->outcome].headline)
		complain("%s: %s", ends[r->outcome].headline, r->message);
	if (r->capture_incomplete && r->started_ns)
		complain("not all files could be captured%s%s",
			str_after(r->message, "capture: ") ? ": " : "",
			str_after(r->message, "capture: ") ? str_after(r->message, "capture: ")
							   : "");
	/* The shell of the guest said so already, but not why. */
	if (r->outcome == BELLJAR_NONZERO_EXIT && r->exit_code == EXIT_NOT_EXECUTABLE &&
		!r->workspace_exec)
		complain("%s", r->message);
}

/* " and 2 more" of three files, of which one is named. */
static const char *and_more(uint64_t n, char text[64])
{
	text[0] = '\0';
	if (n > 1)
		(void)snprintf(text, 64, " and %llu more", (unsigned long long)n - 1);
	return text;
}

/* What was asked for in vain. */
static void tell_captures(const struct invocation *in, const struct belljar_result *r)
{
	const struct order_values *v = &in->request.v;
	char more[64];

	if (r->skipped_files > 0)
		complain("captured files left out: '%s'%s: all together may have %llu bytes, "
			 "--capture-cap allows more",
			r->skipped_file, and_more(r->skipped_files, more),
			(unsigned long long)r->limits.capture_bytes);
	if (r->unreadable_files > 0)
		complain("captured files left out: '%s'%s: the guest made them unreadable",
			r->unreadable_file, and_more(r->unreadable_files, more));
	if (r->unmatched_capture[0])
		complain("no file matched --capture '%s'", r->unmatched_capture);
	if (v->out && v->captures.n == 0)
		complain("--out has no effect without --capture GLOB");
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
	if (!in->request.v.json) {
		tell(r);
		tell_captures(in, r);
		return status_of(in, r);
	}
	result_json_print(r, NULL, &in->out, &in->err);
	if (fflush(stdout) != 0 || ferror(stdout))
		return tell_lost_output(errno);
	return status_of(in, r);
}

static int fail(struct invocation *in, const struct belljar_error *error)
{
	if (in->request.v.json)
		result_json_print(NULL, error, &in->out, &in->err);
	complain("%s", error->text);
	return EXIT_OURS;
}

static int execute(struct invocation *in, struct belljar_sandbox *sandbox)
{
	struct belljar_result result;
	struct belljar_error error = { 0 };
	sigset_t set;

	if (belljar_task_new(sandbox, &in->request.task, &in->running, &error) < 0)
		return fail(in, &error);
	tell_unenforced(in, belljar_enforced(sandbox));
	fill_signals(&set);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&in->signal_thread, NULL, signal_main, in) != 0)
		abort();
	if (in->request.task.tty)
		terminal_make_raw();
	int r = belljar_task_execute(in->running, &in->listener, &result, &error);
	terminal_restore();
	in->done = true;
	(void)pthread_kill(in->signal_thread, SIGUSR1);
	(void)pthread_join(in->signal_thread, NULL);
	belljar_task_free(in->running);
	return r < 0 ? fail(in, &error) : report(in, &result);
}

static int open_and_execute(struct invocation *in)
{
	struct belljar_options where = { .root = in->request.v.root, .program = "/proc/self/exe" };
	struct belljar_sandbox *sandbox = NULL;
	struct belljar_error error = { 0 };

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
	struct belljar_error error = { 0 };
	struct err err = { 0 };
	int status = EXIT_SUCCESS;
	int r = order_parse(self, argc, argv, &in.request, &err);

	if (r < 0) {
		(void)snprintf(error.text, sizeof(error.text), "%s", err.text);
		status = fail(&in, &error);
	} else if (r > 0) {
		status = open_and_execute(&in);
	}
	order_fini(&in.request);
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
		"A language is one of python, javascript, shell, elixir, ruby, perl, lua, c,\n"
		"go and java; see --lang.\n"
		"The exit status is the command's own, or\n"
		"  124  it ran into its timeout\n"
		"  125  belljar itself could not do its work, the request was refused, or not all\n"
		"       files could be captured\n"
		"  126  the command can not be executed\n"
		"  127  the command was not found\n"
		"  137  it ran out of memory\n"
		"  128+N  it was ended by signal N",
	.options = order_options,
	.run = run,
};
