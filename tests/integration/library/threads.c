/* Many threads on one sandbox, and nothing is left afterwards: no descriptor, thread
 * or child. SIGPIPE stays as the program has it, at its default, which is death. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define THREADS 8
#define TASKS   25

static struct belljar_sandbox *sandbox;

static void *thread_main(void *arg)
{
	for (int i = 0; i < TASKS; i++) {
		char script[128];
		char expected[64];
		struct belljar_task_options options = { .argv = SHELL(script) };
		COLLECTOR(c);

		(void)snprintf(expected, sizeof(expected), "%ld.%d\n", (long)(intptr_t)arg, i);
		(void)snprintf(script, sizeof(script), "cat >/dev/null; echo %.60s exit %d",
			expected, i % 3);
		struct belljar_result r = run(sandbox, &options, &c);
		CHECK(strcmp(c.out, expected) == 0 && c.n_err == 0);
		CHECK(r.exit_code == i % 3 &&
			r.outcome == (i % 3 ? BELLJAR_NONZERO_EXIT : BELLJAR_SUCCESS));
	}
	return NULL;
}

static void refuse_input(void)
{
	static char input[1 << 20];
	struct belljar_task_options options = {
		.argv = SHELL("exec 0<&-; sleep 0.1; echo end"),
		.input = input,
		.input_size = sizeof(input),
	};
	sigset_t mask;
	COLLECTOR(c);

	CHECK(run(sandbox, &options, &c).outcome == BELLJAR_SUCCESS);
	CHECK(strcmp(c.out, "end\n") == 0);
	CHECK(sigpending(&mask) == 0 && !sigismember(&mask, SIGPIPE));
	CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && !sigismember(&mask, SIGPIPE));
}

int main(void)
{
	pthread_t threads[THREADS];
	int n_fds = count_entries("/proc/self/fd");
	struct sigaction action;

	CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
	sandbox = open_sandbox();
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, thread_main, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	refuse_input();
	belljar_close(sandbox);
	CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
	CHECK(count_entries("/proc/self/fd") == n_fds);
	CHECK(count_entries("/proc/self/task") == 3); /* itself, "." and ".." */
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	return 0;
}
