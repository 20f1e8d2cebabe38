/* For tests of the service: a runtime that the test plays by hand. Its jobs do what the test
 * says: they start with real pipes, print, run, end, are refused or lost. One per process. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/test.h"
#include "runtime/runtime.h"

#define SAMPLE_INSTANCE "aaaaaaaaaaaaaaaa"
#define SAMPLE_NAMES    16

struct job {
	struct job *next; /* in the order they came */
	char id[RUN_ID_SIZE + 1];
	const struct job_events *events;
	void *ctx;
	bool is_adopted, is_over, is_released, stdin_is_closed;
	unsigned n_cancels, n_usages;
	bool is_frozen;
	int last_signal;
	pid_t pid; /* of a real process that a test has put behind its channels; 0 for none */
	/* of its specification */
	enum deed deed;
	bool takes_files, captures, clears, lists, talks, deaf;
	char change[SPEC_CHANGE_SIZE + 1];
	uint64_t timeout_ms;
	char workspace[WORKSPACE_ID_SIZE + 1];
	char *argv;              /* joined by blanks */
	int ends[CHANNEL_COUNT]; /* the box's */
};

struct sample_wish {
	char id[WORKSPACE_ID_SIZE + 1];
	workspace_cb *done;
	void *ctx;
};

struct runtime_host {
	struct runtime_listener listener;
	bool is_open, is_up;
	int refusal; /* what start() returns instead */
	char instance[KEEPER_ID_SIZE + 1];
	struct job *jobs;
	struct job **jobs_end;
	size_t n_jobs;
	char discarded[SAMPLE_NAMES][RUN_ID_SIZE + 1];
	size_t n_discarded;
	char dropped[SAMPLE_NAMES][WORKSPACE_ID_SIZE + 1];
	size_t n_dropped;
	struct sample_wish wishes[SAMPLE_NAMES];
	size_t n_wishes;
	bool holds_wishes; /* the test grants them itself */
};

/* One per process: what opens a runtime can not say which test it is of. */
static struct runtime_host sample_host;

static inline int sample_rt_open(uv_loop_t *loop, const struct runtime_options *options,
	const struct runtime_listener *listener, struct runtime_host **ret, struct err *err)
{
	(void)loop;
	(void)options;
	(void)err;
	sample_host.listener = *listener;
	sample_host.is_open = true;
	*ret = &sample_host;
	return 0;
}

static inline void sample_rt_close(struct runtime_host *h)
{
	h->is_open = h->is_up = false;
}

static inline bool sample_rt_is_up(const struct runtime_host *h)
{
	return h->is_up;
}

static inline uint64_t sample_rt_facets(const struct runtime_host *h)
{
	(void)h;
	return FACET_ALL;
}

static inline const char *sample_rt_instance(const struct runtime_host *h)
{
	return h->instance;
}

static inline struct job *sample_new_job(
	struct runtime_host *h, const char *id, const struct job_events *events, void *ctx)
{
	struct job *j = xnew(struct job);

	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->events = events;
	j->ctx = ctx;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		j->ends[i] = -1;
	*h->jobs_end = j;
	h->jobs_end = &j->next;
	h->n_jobs++;
	return j;
}

static inline char *sample_join(char *const *texts)
{
	size_t size = 1;

	for (size_t i = 0; texts[i]; i++)
		size += strlen(texts[i]) + 1;
	char *all = xcalloc(1, size);
	char *at = all;
	for (size_t i = 0; texts[i]; i++)
		at = stpcpy(stpcpy(at, i ? " " : ""), texts[i]);
	return all;
}

static inline int sample_rt_start(struct runtime_host *h, const struct spec *spec,
	const struct job_events *events, void *ctx, struct job **ret)
{
	struct err err = { 0 };

	if (!h->is_up)
		return -EAGAIN;
	if (h->refusal)
		return h->refusal;
	CHECK_EQ(spec_check(spec, &err), 0); /* the real keeper checks the same */
	struct job *j = sample_new_job(h, spec->id, events, ctx);
	j->deed = spec->deed;
	j->takes_files = spec->takes_files;
	j->captures = spec->globs[0] != NULL;
	j->clears = spec->clears;
	memcpy(j->change, spec->change, sizeof(j->change));
	j->lists = spec->lists;
	j->talks = spec->talks;
	j->deaf = spec->deaf;
	j->timeout_ms = spec->limits.timeout_ms;
	memcpy(j->workspace, spec->workspace, sizeof(j->workspace));
	j->argv = sample_join(spec->argv);
	*ret = j;
	return 0;
}

static inline int sample_rt_adopt(struct runtime_host *h, const char *id,
	const struct job_events *events, void *ctx, struct job **ret)
{
	if (!h->is_up)
		return -EPIPE;
	*ret = sample_new_job(h, id, events, ctx);
	(*ret)->is_adopted = true;
	return 0;
}

static inline void sample_rt_cancel(struct job *j)
{
	CHECK(!j->is_released);
	j->n_cancels++;
}

static inline void sample_rt_signal(struct job *j, int sig)
{
	CHECK(!j->is_released);
	j->last_signal = sig;
	if (j->pid > 0)
		(void)kill(j->pid, sig);
}

static inline void sample_rt_freeze(struct job *j)
{
	CHECK(!j->is_released && !j->is_frozen);
	j->is_frozen = true;
}

static inline void sample_rt_thaw(struct job *j)
{
	CHECK(!j->is_released);
	j->is_frozen = false;
}

static inline void sample_rt_ask_usage(struct job *j)
{
	CHECK(!j->is_released);
	j->n_usages++;
}

static inline void sample_rt_close_stdin(struct job *j)
{
	CHECK(!j->is_released);
	j->stdin_is_closed = true;
}

static inline void sample_rt_release(struct job *j)
{
	CHECK(!j->is_released);
	j->is_released = true;
}

static inline void sample_rt_discard(struct runtime_host *h, const char *id)
{
	CHECK(h->n_discarded < SAMPLE_NAMES);
	(void)snprintf(h->discarded[h->n_discarded++], RUN_ID_SIZE + 1, "%s", id);
}

static inline void sample_rt_make_workspace(
	struct runtime_host *h, const char *id, uint64_t bytes, workspace_cb *done, void *ctx)
{
	CHECK(bytes > 0);
	if (!h->is_up) {
		done(ctx, -EAGAIN, "the keeper is not there");
		return;
	}
	if (!h->holds_wishes) {
		done(ctx, 0, "");
		return;
	}
	CHECK(h->n_wishes < SAMPLE_NAMES);
	struct sample_wish *w = &h->wishes[h->n_wishes++];
	*w = (struct sample_wish){ .done = done, .ctx = ctx };
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
}

static inline void sample_rt_drop_workspace(struct runtime_host *h, const char *id)
{
	CHECK(h->is_open && h->n_dropped < SAMPLE_NAMES);
	(void)snprintf(h->dropped[h->n_dropped++], WORKSPACE_ID_SIZE + 1, "%s", id);
}

static const struct runtime sample_runtime = {
	.name = "native",
	.summary = "a keeper that a test plays",
	.open = sample_rt_open,
	.close = sample_rt_close,
	.is_up = sample_rt_is_up,
	.facets = sample_rt_facets,
	.instance = sample_rt_instance,
	.start = sample_rt_start,
	.adopt = sample_rt_adopt,
	.cancel = sample_rt_cancel,
	.signal = sample_rt_signal,
	.freeze = sample_rt_freeze,
	.thaw = sample_rt_thaw,
	.ask_usage = sample_rt_ask_usage,
	.close_stdin = sample_rt_close_stdin,
	.release = sample_rt_release,
	.discard = sample_rt_discard,
	.make_workspace = sample_rt_make_workspace,
	.drop_workspace = sample_rt_drop_workspace,
};

/* It is there, and holds what the lists say; n texts each, NULL for none. */
static inline void sample_up(const char (*runs)[RUN_ID_SIZE + 1], size_t n_runs,
	const char (*workspaces)[WORKSPACE_ID_SIZE + 1], size_t n_workspaces)
{
	struct runtime_host *h = &sample_host;

	CHECK(h->is_open);
	h->is_up = true;
	h->listener.up(h->listener.ctx, runs, n_runs, workspaces, n_workspaces);
}

/* It is gone, with every job. */
static inline void sample_down(void)
{
	struct runtime_host *h = &sample_host;

	h->is_up = false;
	h->listener.down(h->listener.ctx);
	for (struct job *j = h->jobs; j; j = j->next) {
		for (int i = 0; i < CHANNEL_COUNT; i++)
			close_fdp(&j->ends[i]), j->ends[i] = -1;
		if (j->is_over || j->is_released)
			continue;
		j->is_over = true;
		j->events->lost(j->ctx);
	}
}

static inline struct job *sample_job(size_t n)
{
	struct job *j = sample_host.jobs;

	while (j && n-- > 0)
		j = j->next;
	CHECK(j != NULL);
	if (!j)
		abort(); /* not reached, but for the analyzer */
	return j;
}

/* --- what a job does --- */

static inline void sample_open_channel(struct job *j, int fds[CHANNEL_COUNT], enum channel c)
{
	int pair[2];
	bool box_writes = c != CHANNEL_STDIN;

	if (c == CHANNEL_FILES) {
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			abort();
	} else if (pipe2(pair, O_CLOEXEC) < 0) {
		abort();
	}
	fds[c] = pair[!box_writes];
	j->ends[c] = pair[box_writes];
}

static inline void job_started(struct job *j)
{
	int fds[CHANNEL_COUNT];

	for (int i = 0; i < CHANNEL_COUNT; i++)
		fds[i] = -1;
	if (j->deed == DEED_EXECUTE) {
		if (!j->deaf)
			sample_open_channel(j, fds, CHANNEL_STDIN);
		sample_open_channel(j, fds, CHANNEL_STDOUT);
		sample_open_channel(j, fds, CHANNEL_STDERR);
	}
	if (j->takes_files)
		sample_open_channel(j, fds, CHANNEL_FILES);
	if (j->captures)
		sample_open_channel(j, fds, CHANNEL_CAPTURE);
	if (j->lists)
		sample_open_channel(j, fds, CHANNEL_LISTING);
	if (j->talks)
		sample_open_channel(j, fds, CHANNEL_REPLY);
	CHECK(!j->is_released);
	j->events->started(j->ctx, fds);
	for (int i = 0; i < CHANNEL_COUNT; i++)
		CHECK_EQ(fds[i], -1); /* taken or closed, all of them */
}

static inline void job_running(struct job *j)
{
	CHECK(!j->is_released);
	j->events->running(j->ctx, clock_realtime_ns());
}

static inline void job_writes(struct job *j, enum channel c, const char *text)
{
	CHECK_EQ(fd_write_full(j->ends[c], text, strlen(text)), 0);
}

static inline void job_closes(struct job *j)
{
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		close_fdp(&j->ends[i]);
		j->ends[i] = -1;
	}
}

static inline struct result job_result(const struct job *j, enum reason reason, int exit_code)
{
	struct result r = {
		.reason = reason,
		.exit_code = exit_code,
		.started_ns = clock_realtime_ns() - 1000000,
		.ended_ns = clock_realtime_ns(),
		.enforced = FACET_ALL & ~FACET_BIT(FACET_LANDLOCK),
		.usage = { 1500000, 2500000, 3 << 20, 4, 5, 0 },
	};

	memcpy(r.id, j->id, sizeof(r.id));
	return r;
}

/* Every process of it is dead, and so all of its ends are closed. */
static inline void job_ends_with(struct job *j, const struct result *result)
{
	CHECK(!j->is_released && !j->is_over);
	j->is_over = true;
	job_closes(j);
	j->events->ended(j->ctx, result);
}

static inline void job_ends(struct job *j, enum reason reason, int exit_code)
{
	struct result r = job_result(j, reason, exit_code);

	job_ends_with(j, &r);
}

static inline void job_refused(struct job *j, enum reason reason, int code, const char *text)
{
	j->is_over = true;
	j->events->refused(j->ctx, reason, code, text);
}

/* Another one, which holds nothing. */
static inline void sample_reset_host(void)
{
	while (sample_host.jobs) {
		struct job *j = sample_host.jobs;

		sample_host.jobs = j->next;
		job_closes(j);
		free(j->argv);
		free(j);
	}
	sample_host = (struct runtime_host){ .jobs_end = &sample_host.jobs };
	(void)snprintf(sample_host.instance, sizeof(sample_host.instance), SAMPLE_INSTANCE);
}
