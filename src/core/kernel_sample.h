/* For tests of kernels: the keeper is played, but the interpreter is Python's, with the driver that
 * boxes get: a process of ours behind the channels of a job. */
#pragma once
#include <sys/wait.h>

#include "core/kernel.h"
#include "core/service_sample.h"

struct heard {
	unsigned n;
	char code[64]; /* of a problem */
	enum kernel_outcome outcome;
	char out[64], err[64], result[64], error[64], traceback[512], reason[64], fresh_reason[64];
	uint64_t n_out, wall_ns;
	int64_t exit_code;
	char warning[512];
	uint64_t n_images, n_images_cut;
	enum kernel_fresh fresh;
	uint32_t count;
	bool was_late, has_other_limits;
	struct kernel_limits limits;
	char changed[32]; /* the first file that was */
};

static inline void note(char *to, size_t room, const char *data, size_t size)
{
	(void)snprintf(to, room, "%.*s", (int)(size < room ? size : room - 1), data ? data : "");
}

#define NOTE(to, text) note(to, sizeof(to), (text).data, (text).size)

static inline void on_executed(void *ctx, struct kernel_result *r, struct problem *problem)
{
	struct heard *h = ctx;

	h->n++;
	(void)snprintf(h->code, sizeof(h->code), "%s", problem->code ? problem->code : "");
	CHECK((r == NULL) == (problem->status != 0));
	if (!r)
		return;
	h->outcome = r->outcome;
	note(h->out, sizeof(h->out), r->out.head, r->out.n_head);
	note(h->err, sizeof(h->err), r->err.head, r->err.n_head);
	h->n_out = r->out.total;
	NOTE(h->result, r->reply.result);
	NOTE(h->error, r->reply.error);
	NOTE(h->traceback, r->reply.traceback);
	NOTE(h->warning, r->reply.warning);
	h->n_images = r->reply.n_images;
	h->n_images_cut = r->reply.n_images_cut;
	h->exit_code = r->exit_code;
	(void)snprintf(h->reason, sizeof(h->reason), "%s", r->reason_code ? r->reason_code : "");
	(void)snprintf(h->fresh_reason, sizeof(h->fresh_reason), "%s", r->fresh_reason);
	h->fresh = r->fresh;
	h->wall_ns = r->wall_ns;
	h->count = r->execution_count;
	h->was_late = r->was_late;
	h->has_other_limits = r->has_other_limits;
	h->limits = r->limits;
	for (size_t i = 0; i < r->reply.listing.n && !h->changed[0]; i++) {
		if (r->reply.listing.at[i].is_changed)
			(void)snprintf(
				h->changed, sizeof(h->changed), "%s", r->reply.listing.at[i].path);
	}
}

static inline void ask_ms(struct session *session, const char *code, uint64_t ms, struct heard *h)
{
	struct kernel_wish wish = { .code = code, .size = strlen(code), .timeout_ms = ms };

	*h = (struct heard){ 0 };
	kernel_execute(session, &wish, on_executed, h);
}

static inline void ask(struct session *session, const char *code, struct heard *h)
{
	ask_ms(session, code, 0, h);
}

extern const char kernel_driver[];
extern const size_t kernel_driver_size;

/* The nth job starts: as a process in a directory of its own. */
static inline void start_python(struct sample *m, size_t n, const char *driver)
{
	SAMPLE_UNTIL(m, sample_host.n_jobs == n + 1);
	struct job *j = sample_job(n);
	char work[96];

	CHECK(j->talks);
	job_started(j);
	(void)snprintf(work, sizeof(work), "%s/work", m->dir.path);
	(void)mkdir(work, 0755);
	j->pid = fork();
	if (j->pid == 0) {
		(void)dup2(j->ends[CHANNEL_STDIN], 0);
		(void)dup2(j->ends[CHANNEL_STDOUT], 1);
		(void)dup2(j->ends[CHANNEL_STDERR], 2);
		if (j->ends[CHANNEL_REPLY] == SPEC_REPLY_FD)
			(void)fcntl(SPEC_REPLY_FD, F_SETFD, 0);
		else
			(void)dup2(j->ends[CHANNEL_REPLY], SPEC_REPLY_FD);
		(void)signal(SIGPIPE, SIG_DFL);
		if (chdir(work) == 0)
			(void)execlp("python3", "python3", "-c", driver, NULL);
		_exit(127);
	}
	job_closes(j);
	job_running(j);
}

static inline void start(struct sample *m, size_t n)
{
	AUTO_FREE char *driver = xcalloc(1, kernel_driver_size + 1);

	memcpy(driver, kernel_driver, kernel_driver_size);
	start_python(m, n, driver);
}

static inline void stop(size_t n, enum reason reason)
{
	struct job *j = sample_job(n);

	(void)kill(j->pid, SIGKILL);
	(void)waitpid(j->pid, NULL, 0);
	j->pid = 0;
	job_ends(j, reason, -1);
}

static inline void run(struct sample *m, struct session *session, const char *code, struct heard *h)
{
	ask(session, code, h);
	SAMPLE_UNTIL(m, h->n);
}

/* The same with the nth interpreter, which is started for it. */
static inline void run_fresh(
	struct sample *m, struct session *session, size_t n, const char *code, struct heard *h)
{
	ask(session, code, h);
	start(m, n);
	SAMPLE_UNTIL(m, h->n);
}

/* The nth is given up by us, and whoever waits for it hears so. */
static inline void await_end(struct sample *m, size_t n, struct heard *h)
{
	SAMPLE_UNTIL(m, sample_job(n)->n_cancels == 1);
	stop(n, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(m, h->n);
	CHECK_EQ(h->outcome, KERNEL_DIED);
}

/* A session with an interpreter that has executed "x = 1". */
static inline struct session *begin(struct sample *m, struct heard *h)
{
	sample_open(m);
	struct session *session = sample_session(m);

	run_fresh(m, session, 0, "x = 1", h);
	CHECK_EQ(h->outcome, KERNEL_OK);
	return session;
}

/* Ask for a session, while the store's nth call fails. */
static inline void begin_with_fault(struct sample *m, int n, struct sample_answer *a)
{
	(void)snprintf(m->store, sizeof(m->store), "fault:%d:memory:", n);
	sample_open(m);
	sample_ask_session(m, a, "alice", NULL, "{\"base_image\":\"host\"}");
	SAMPLE_UNTIL(m, a->n);
}

static inline void finish(struct sample *m, size_t n)
{
	stop(n, REASON_EXIT_CODE_0);
	sample_settle(m);
	sample_remove(m);
}
