/* For tests of the service: everything is real but the keeper, which the test plays by hand.
 * Answers of the service are collected and looked at afterwards. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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
#include "core/runtime_sample.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store/record.h"

#define SAMPLE_PATIENCE_NS (UINT64_C(20) * 1000000000u)

/* --- the service --- */

struct sample {
	struct scratch dir;
	uv_loop_t loop;
	struct settings settings;
	struct service *service;
	char store[128]; /* its URL */
	size_t n_fds;
};

static inline void free_row(struct run_row *row)
{
	row_fini(&run_table, row);
}

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

static inline void sample_open_service(struct sample *m)
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
}

static inline void sample_open_down(struct sample *m)
{
	sample_open_service(m);
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

/* In a file, since a memory does not survive. */
static inline void sample_use_sqlite(struct sample *m)
{
	(void)snprintf(m->store, sizeof(m->store), "sqlite:%s/store.db", m->dir.path);
}

/* The server ends, and another begins; the keeper stays as it was, and is not there yet. */
static inline void sample_restart(struct sample *m)
{
	sample_shut(m);
	sample_reset_host();
	sample_open_down(m);
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
static inline void sample_wish(struct sample *m, struct sample_answer *a, const char *user,
	const char *body, struct run_wish *wish)
{
	struct identity who = sample_who(user);
	struct request request;

	*a = (struct sample_answer){ 0 };
	sample_parse(body, REQUEST_RUN, &request);
	wish->request = &request;
	wish->who = &who;
	wish->source = "rest";
	run_create(m->service, wish, sample_on_created, sample_on_replayed, a);
	request_fini(&request);
}

static inline void sample_ask(struct sample *m, struct sample_answer *a, const char *user,
	const char *key, const char *body)
{
	sample_wish(m, a, user, body, &(struct run_wish){ .idempotency_key = key });
}

#define SAMPLE_BODY "{\"base_image\":\"host\",\"command\":[\"true\"]}"
#define SAMPLE_RICH_BODY                                                                           \
	"{\"base_image\":\"host\",\"command\":[\"true\"],\"capture_patterns\":[\"*\"],"            \
	"\"files\":[{\"path\":\"a\",\"content_b64\":\"aGVsbG8=\"}]}"

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

/* Runs whose commands are "1", "2", ... up to `n`, at most 9, asked for in this order. */
static inline void sample_numbered_runs(struct sample *m, size_t n)
{
	for (size_t i = 1; i <= n; i++) {
		char body[64];

		(void)snprintf(
			body, sizeof(body), "{\"base_image\":\"host\",\"command\":[\"%zu\"]}", i);
		(void)sample_run(m, body);
	}
}

static inline void sample_numbered_job_ends(struct sample *m, size_t i)
{
	const char name[] = { (char)('1' + i), '\0' };

	SAMPLE_UNTIL(m, sample_host.n_jobs == i + 1);
	CHECK_STR(sample_job(i)->argv, name);
	job_started(sample_job(i));
	job_ends(sample_job(i), REASON_EXIT_CODE_0, 0);
}

/* Each of them begins when the one before it ended, and nothing is left then. */
static inline void sample_numbered_jobs_end_in_order(struct sample *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sample_numbered_job_ends(m, i);
	SAMPLE_UNTIL(m, m->service->n_runs == 0);
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
	CLEANUP(stream_unrefp) struct stream *stream = NULL;
	struct run_row row = { 0 };
	char *text = xcalloc(1, 1 << 20);
	size_t at = 0;

	CHECK_EQ(sample_stored(m, id, &row), 0);
	CHECK_STR(row.user_id, user);
	CHECK_EQ(run_open_output(m->service, &row, &stream), 0);
	row_fini(&run_table, &row);
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

/* The directory of a run that is not over; the caller closes it. */
static inline int sample_fresh_dir(struct sample *m, const char *id)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "meta/fresh/%s", id);
	int fd = openat(m->service->data_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
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
	if (!a.session)
		abort(); /* not reached, but for the analyzer */
	return a.session;
}
