/* For tests of the service: everything is real but the keeper, which the test plays by hand.
 * It is a runtime whose jobs do what the test says: they start with real pipes, print, run,
 * end, are refused or lost. Answers of the service are collected and looked at afterwards. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/identity.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "runtime/runtime.h"
#include "store/record.h"

#define SAMPLE_PATIENCE_NS (UINT64_C(20) * 1000000000u)
#define SAMPLE_INSTANCE    "aaaaaaaaaaaaaaaa"
#define SAMPLE_NAMES       16

/* --- the keeper --- */

struct job {
	struct job *next; /* in the order they came */
	char id[RUN_ID_SIZE + 1];
	const struct job_events *events;
	void *ctx;
	bool is_adopted, is_over, is_released, stdin_is_closed;
	unsigned n_cancels;
	/* of its specification */
	enum deed deed;
	bool takes_files, captures, clears;
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
	for (size_t i = 0; texts[i]; i++)
		(void)strcat(strcat(all, i ? " " : ""), texts[i]);
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
		sample_open_channel(j, fds, CHANNEL_STDIN);
		sample_open_channel(j, fds, CHANNEL_STDOUT);
		sample_open_channel(j, fds, CHANNEL_STDERR);
	}
	if (j->takes_files)
		sample_open_channel(j, fds, CHANNEL_FILES);
	if (j->captures)
		sample_open_channel(j, fds, CHANNEL_CAPTURE);
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

/* --- the service --- */

struct sample {
	struct scratch dir;
	uv_loop_t loop;
	struct settings settings;
	struct service *service;
	char store[128]; /* its URL */
	size_t n_fds;
};

/* Turn the loop until `cond` holds, which must not take for ever. */
#define SAMPLE_UNTIL(m, cond)                                                                      \
	do {                                                                                       \
		uint64_t until_ = clock_monotonic_ns() + SAMPLE_PATIENCE_NS;                       \
		while (!(cond)) {                                                                  \
			CHECK(clock_monotonic_ns() < until_);                                      \
			sample_turn(m);                                                            \
		}                                                                                  \
	} while (0)

static inline void sample_turn(struct sample *m)
{
	(void)uv_run(&m->loop, UV_RUN_NOWAIT);
	(void)usleep(200);
}

/* Let everything happen that happens by itself. */
static inline void sample_settle(struct sample *m)
{
	for (int i = 0; i < 40; i++)
		sample_turn(m);
}

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

/* Before it is opened, so that a test can change settings. */
static inline void sample_make(struct sample *m)
{
	struct err err = { 0 };

	*m = (struct sample){ .store = "memory:" };
	(void)signal(SIGPIPE, SIG_IGN);
	log_set_level(LOG_LEVEL_ERROR);
	scratch_make(&m->dir);
	m->n_fds = scratch_count_fds();
	struct setting_option root = { "SANDBOX_ROOT_DIR", m->dir.path };
	CHECK_EQ(settings_load(&m->settings, NULL, &root, 1, &err), 0);
	m->settings.ws_heartbeat_ms = 0;
	m->settings.gc_interval_sec = 3600;
	CHECK_EQ(uv_loop_init(&m->loop), 0);
	sample_reset_host();
}

static inline void sample_open_down(struct sample *m)
{
	struct err err = { 0 };
	char data[128];
	struct service_options options = {
		.loop = &m->loop,
		.settings = &m->settings,
		.root = m->dir.path,
		.data_dir = data,
		.runtime = &sample_runtime,
		.store = m->store,
	};

	(void)snprintf(data, sizeof(data), "%s/data", m->dir.path);
	CHECK_EQ(service_open(&options, &m->service, &err), 0);
	m->service->next_sweep_ns = UINT64_MAX; /* tests sweep when they want to */
	SAMPLE_UNTIL(m, sample_host.is_open);
}

/* ... and the keeper is there, with nothing from before. */
static inline void sample_open(struct sample *m)
{
	sample_open_down(m);
	sample_up(NULL, 0, NULL, 0);
}

/* What is open goes; nothing may be left of it on the loop. */
static inline void sample_shut(struct sample *m)
{
	service_close(TAKE(m->service));
	SAMPLE_UNTIL(m, !uv_loop_alive(&m->loop));
}

static inline void sample_remove(struct sample *m)
{
	sample_shut(m);
	CHECK_EQ(uv_loop_close(&m->loop), 0);
	sample_reset_host();
	settings_fini(&m->settings);
	scratch_remove(&m->dir);
}

#define SAMPLE(name)                                                                               \
	struct sample name;                                                                        \
	sample_make(&name)

/* --- asking it --- */

struct sample_answer {
	unsigned n; /* how often it came: must be once */
	struct run *run;
	char id[UUID_SIZE + 1];
	bool is_replayed;
	char phase[16]; /* of the row that is replayed */
	int status;
	char code[64];
	char message[256];
	json_t *details;
	struct session *session;
};

static inline void sample_note(struct sample_answer *a, const struct problem *problem)
{
	a->n++;
	a->status = problem->status;
	(void)snprintf(a->code, sizeof(a->code), "%s", problem->code ? problem->code : "");
	(void)snprintf(a->message, sizeof(a->message), "%s", problem->message);
	a->details = json_incref(problem->details);
}

static inline void sample_on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct sample_answer *a = ctx;

	sample_note(a, problem);
	a->run = run;
	if (run)
		(void)snprintf(a->id, sizeof(a->id), "%s", run->row.id);
}

static inline void sample_on_replayed(void *ctx, const struct run_row *row)
{
	struct sample_answer *a = ctx;

	a->n++;
	a->is_replayed = true;
	(void)snprintf(a->id, sizeof(a->id), "%s", row->id);
	(void)snprintf(a->phase, sizeof(a->phase), "%s", row->phase);
}

static inline struct identity sample_who(const char *user)
{
	struct identity who;

	CHECK(identity_make(user, false, &who));
	return who;
}

static inline void sample_parse(const char *body, enum request_kind kind, struct request *ret)
{
	struct problem problem = { 0 };
	AUTO_JSON *json = json_loads(body, 0, NULL);

	CHECK(json != NULL);
	CHECK_EQ(request_parse(json, kind, ret, &problem), 0);
}

/* Ask for a run; `body` is JSON. The answer comes with a turn of the loop or two. */
static inline void sample_ask(struct sample *m, struct sample_answer *a, const char *user,
	const char *key, const char *body)
{
	struct identity who = sample_who(user);
	struct request request;

	*a = (struct sample_answer){ 0 };
	sample_parse(body, REQUEST_RUN, &request);
	struct run_wish wish = {
		.request = &request, .who = &who, .idempotency_key = key, .source = "rest"
	};
	run_create(m->service, &wish, sample_on_created, sample_on_replayed, a);
	request_fini(&request);
}

#define SAMPLE_BODY "{\"base_image\":\"host\",\"command\":[\"true\"]}"

/* An accepted run of alice's, whose job is the last that was started if there is room. */
static inline struct run *sample_run_of(struct sample *m, const char *user, const char *body)
{
	struct sample_answer a;

	sample_ask(m, &a, user, NULL, body);
	SAMPLE_UNTIL(m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK(a.run != NULL);
	return a.run;
}

static inline struct run *sample_run(struct sample *m, const char *body)
{
	return sample_run_of(m, "alice", body ? body : SAMPLE_BODY);
}

static inline void sample_answer_fini(struct sample_answer *a)
{
	json_decref(a->details);
	a->details = NULL;
}

/* --- looking at what is stored --- */

struct sample_look {
	int r; /* 1: not yet */
	struct run_row row;
};

static inline void sample_on_row(void *ctx, int r, const void *row)
{
	struct sample_look *l = ctx;

	l->r = r;
	if (r == 0)
		row_copy(&run_table, &l->row, row);
}

/* What the store has of a run; the caller gives `*ret` to row_fini(). */
static inline int sample_stored(struct sample *m, const char *id, struct run_row *ret)
{
	struct sample_look l = { .r = 1 };
	struct run_row key = { .id = (char *)id };

	store_get(m->service->store, &run_table, &key, sample_on_row, &l);
	SAMPLE_UNTIL(m, l.r <= 0);
	*ret = l.row;
	return l.r;
}

/* The run is over and that is stored: its row. */
static inline void sample_await_end(struct sample *m, const char *id, struct run_row *ret)
{
	SAMPLE_UNTIL(m, run_find(m->service, id, NULL) == NULL);
	CHECK_EQ(sample_stored(m, id, ret), 0);
}

/* All frames of a run that is over, one per line; the caller frees it. */
static inline char *sample_frames(struct sample *m, const char *user, const char *id)
{
	AUTO_FD dir = -1;
	struct err err = { 0 };
	CLEANUP(stream_unrefp) struct stream *stream = NULL;
	char *text = xcalloc(1, 1 << 20);
	size_t at = 0;

	CHECK_EQ(service_open_run_dir(m->service, user, id, false, &dir), 0);
	CHECK_EQ(stream_open_ended(&m->loop, dir, &stream, &err), 0);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(stream, 0, NULL, NULL);
	for (struct shared *f; (f = cursor_next(c)); shared_unref(f)) {
		CHECK(at + f->size + 2 < 1 << 20);
		memcpy(text + at, shared_data(f), f->size);
		at += f->size;
		text[at++] = '\n';
	}
	CHECK(cursor_is_done(c));
	return text;
}

/* True when these texts appear in `text`, in this order; ended by NULL. */
static inline bool sample_in_order(const char *text, ...)
{
	va_list args;
	bool found = true;

	va_start(args, text);
	for (const char *word; found && (word = va_arg(args, const char *));) {
		text = strstr(text, word);
		found = text != NULL;
		text = found ? text + strlen(word) : NULL;
	}
	va_end(args);
	return found;
}

/* --- sessions --- */

static inline void sample_on_session(void *ctx, struct session *session, struct problem *problem)
{
	struct sample_answer *a = ctx;

	sample_note(a, problem);
	a->session = session;
	if (session && !a->status)
		(void)snprintf(a->id, sizeof(a->id), "%s", session->row.id);
}

static inline void sample_ask_session(struct sample *m, struct sample_answer *a, const char *user,
	const char *key, const char *body)
{
	struct identity who = sample_who(user);
	struct request request;

	*a = (struct sample_answer){ 0 };
	sample_parse(body, REQUEST_SESSION, &request);
	struct session_wish wish = {
		.request = &request, .who = &who, .idempotency_key = key, .source = "rest"
	};
	session_create(m->service, &wish, sample_on_session, a);
	request_fini(&request);
}

static inline struct session *sample_session(struct sample *m)
{
	struct sample_answer a;

	sample_ask_session(m, &a, "alice", NULL, "{\"base_image\":\"host\"}");
	SAMPLE_UNTIL(m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK(a.session != NULL);
	return a.session;
}
