/* A task is stopped by another thread: before, while and after it executes; and it is
 * signalled and resized. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct belljar_sandbox *sandbox;

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One task in a thread of its own. */
struct job {
	struct collector collector;
	struct belljar_task *task;
	struct belljar_result result;
	atomic_bool ready; /* it printed something */
	pthread_t thread;
};

static void on_event(struct belljar_listener *self, const struct belljar_event *event)
{
	struct job *job = (struct job *)self;

	collect(self, event);
	if (event->kind == BELLJAR_EVENT_STDOUT)
		job->ready = true;
}

static void *job_main(void *arg)
{
	struct job *job = arg;
	struct belljar_error error = { 0 };

	DO(belljar_task_execute(job->task, &job->collector.listener, &job->result, &error));
	return NULL;
}

static void job_new(struct job *job, const char *script, uint64_t grace_ms, bool tty)
{
	struct belljar_error error = { 0 };
	struct belljar_task_options options = {
		.argv = SHELL(script),
		.limits = { .grace_ms = grace_ms, .no_grace = grace_ms == 0 },
		.tty = tty,
	};

	memset(job, 0, sizeof(*job));
	job->collector.listener.on_event = on_event;
	DO(belljar_task_new(sandbox, &options, &job->task, &error));
}

static void job_start(struct job *job, bool until_ready)
{
	CHECK(pthread_create(&job->thread, NULL, job_main, job) == 0);
	while (until_ready && !job->ready)
		(void)usleep(1000);
}

static void job_end(struct job *job)
{
	CHECK(pthread_join(job->thread, NULL) == 0);
	belljar_task_free(job->task);
}

static void before(void)
{
	struct job job;
	double at = now();

	job_new(&job, "sleep 60", 5000, false);
	CHECK(belljar_task_signal(job.task, SIGTERM) == -ESRCH);
	CHECK(belljar_task_resize(job.task, 10, 10) == -ENOTTY);
	belljar_task_stop(job.task);
	belljar_task_stop(job.task);
	job_start(&job, false);
	job_end(&job);
	CHECK(job.result.outcome == BELLJAR_CANCELED && job.result.exit_code == -1);
	CHECK(now() - at < 3);
}

static void during(const char *script, uint64_t grace_ms, const char *printed, double longest)
{
	struct job job;

	job_new(&job, script, grace_ms, false);
	job_start(&job, true);
	double at = now();
	belljar_task_stop(job.task);
	belljar_task_stop(job.task);
	job_end(&job);
	CHECK(job.result.outcome == BELLJAR_CANCELED);
	CHECK(strcmp(job.collector.out, printed) == 0);
	CHECK(now() - at < longest && now() - at >= (printed[6] ? 0 : (double)grace_ms / 1e3));
}

static void after(void)
{
	struct job job;

	job_new(&job, "echo ready", 5000, false);
	job_start(&job, true);
	CHECK(pthread_join(job.thread, NULL) == 0);
	CHECK(job.result.outcome == BELLJAR_SUCCESS);
	belljar_task_stop(job.task);
	CHECK(belljar_task_signal(job.task, SIGTERM) == -ESRCH);
	belljar_task_free(job.task);
}

/* At whatever moment: it ends, and as canceled or by itself. */
static void at_any_moment(void)
{
	for (unsigned i = 0; i < 40; i++) {
		struct job job;

		job_new(&job, "echo ready; sleep 0.01", 0, false);
		job_start(&job, false);
		(void)usleep(i * 500);
		belljar_task_stop(job.task);
		job_end(&job);
		CHECK(job.result.outcome == BELLJAR_CANCELED ||
			job.result.outcome == BELLJAR_SUCCESS);
		CHECK(job.result.outcome != BELLJAR_SUCCESS ||
			strcmp(job.collector.out, "ready\n") == 0);
	}
}

static void signal_and_resize(void)
{
	struct job job;

	job_new(&job, "trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.02; done",
		5000, true);
	job_start(&job, true);
	CHECK(belljar_task_resize(job.task, 12, 34) == 0);
	job_end(&job);
	CHECK(strcmp(job.collector.out, "ready\r\n12 34\r\n") == 0);
	CHECK(job.result.outcome == BELLJAR_NONZERO_EXIT && job.result.exit_code == 4);

	job_new(&job, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.02; done", 5000, false);
	job_start(&job, true);
	CHECK(belljar_task_signal(job.task, SIGUSR1) == 0);
	job_end(&job);
	CHECK(job.result.exit_code == 7);
}

int main(void)
{
	sandbox = open_sandbox();
	before();
	during("trap 'echo bye; exit 0' TERM; echo ready; sleep 60 & wait", 5000, "ready\nbye\n",
		3);
	during("trap '' TERM; echo ready; while :; do sleep 0.02; done", 300, "ready\n", 3);
	during("trap '' TERM; echo ready; while :; do sleep 0.02; done", 0, "ready\n", 3);
	after();
	at_any_moment();
	signal_and_resize();
	belljar_close(sandbox);
	return 0;
}
