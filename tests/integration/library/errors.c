/* Errors are for when the sandbox could not do its work. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void open_fails(const struct belljar_options *options, int code, const char *words)
{
	struct belljar_sandbox *sandbox = (void *)1;
	struct belljar_error error = { 0 };
	int r = belljar_open(options, &sandbox, &error);

	if (r != code || !strstr(error.text, words))
		fprintf(stderr, "%d %s\n", r, error.text);
	CHECK(r == code && error.code == code && strstr(error.text, words));
	CHECK(sandbox == (void *)1); /* untouched */
	CHECK(belljar_open(options, &sandbox, NULL) == code);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void opening(void)
{
	open_fails(&(struct belljar_options){ .program = "/no/belljar" }, -ENOENT, "/no/belljar");
	open_fails(&(struct belljar_options){ .program = "/etc/passwd" }, -EACCES, "/etc/passwd");
	open_fails(&(struct belljar_options){ .program = "/bin/false" }, -ECONNRESET, "keeper");
	open_fails(&(struct belljar_options){ .keeper = BELLJAR_KEEPER_RUNNING }, -ENOENT,
		"No such file");
	open_fails(&(struct belljar_options){ .root = "/up/../down" }, -EINVAL, "/up/../down");
	open_fails(&(struct belljar_options){ .root = "/proc/x", .keeper = BELLJAR_KEEPER_OWN },
		-ECONNRESET, "keeper");
}

static void making(struct belljar_sandbox *sandbox)
{
	static const char *const none[] = { NULL };
	static const char *const bad_env[] = { "NAME", NULL };
	const struct {
		struct belljar_task_options options;
		const char *words;
	} bad[] = {
		{ { .argv = none }, "no command" },
		{ { .argv = NULL }, "no command" },
		{ { .argv = ARGV("true"), .env = bad_env }, "NAME=VALUE" },
		{ { .argv = ARGV("true"), .cwd = "x" }, "working directory" },
		{ { .argv = ARGV("true"), .captures = ARGV("*") }, "directory" },
		{ { .argv = ARGV("true"), .limits = { .pids = 1 } }, "pids" },
		{ { .argv = ARGV("true"), .require = UINT64_C(1) << 60 }, "required" },
		{ { .argv = ARGV("true"), .tty = true, .rows = 1 << 20 }, "terminal" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct belljar_task *task = (void *)1;
		struct belljar_error error = { 0 };
		int r = belljar_task_new(sandbox, &bad[i].options, &task, &error);

		CHECK(r == -EINVAL && error.code == r && task == (void *)1);
		CHECK(strstr(error.text, bad[i].words) && !strchr(error.text, '\n'));
	}
}

/* Kills our keeper, the only child we have, when the guest has said something. */
struct killer {
	struct belljar_listener listener;
	bool done;
};

static pid_t find_child(void)
{
	char path[64];
	long pid = 0;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *f = fopen(path, "r");
	CHECK(f && fscanf(f, "%ld", &pid) == 1);
	(void)fclose(f);
	return (pid_t)pid;
}

static void on_event(struct belljar_listener *self, const struct belljar_event *event)
{
	struct killer *k = (struct killer *)self;

	if (event->kind != BELLJAR_EVENT_STDOUT || k->done)
		return;
	k->done = true;
	CHECK(kill(find_child(), SIGKILL) == 0);
}

static void losing_the_keeper(void)
{
	struct belljar_sandbox *sandbox = open_sandbox();
	struct belljar_error error = { 0 };
	struct belljar_task *task = NULL;
	struct belljar_result result;
	struct killer killer = { .listener = { .on_event = on_event } };
	struct belljar_task_options options = { .argv = SHELL("echo ready; sleep 60") };

	DO(belljar_task_new(sandbox, &options, &task, &error));
	int r = belljar_task_execute(task, &killer.listener, &result, &error);
	CHECK(killer.done && r == -ECONNRESET && error.code == r);
	CHECK(strcmp(error.text, "the keeper is gone") == 0);
	belljar_task_free(task);

	/* And it stays gone: the next one is told so, and nothing hangs. */
	DO(belljar_task_new(sandbox, &options, &task, &error));
	r = belljar_task_execute(task, NULL, &result, &error);
	CHECK(r < 0 && error.code == r && error.text[0]);
	belljar_task_stop(task);
	belljar_task_free(task);
	belljar_close(sandbox);
}

int main(void)
{
	opening();
	struct belljar_sandbox *sandbox = open_sandbox();
	making(sandbox);
	struct belljar_task_options options = { .argv = ARGV("true") };
	CHECK(run(sandbox, &options, NULL).outcome == BELLJAR_SUCCESS);
	belljar_close(sandbox);
	losing_the_keeper();
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	return 0;
}
