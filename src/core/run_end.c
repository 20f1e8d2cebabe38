/* The end of a run: its output is drained, its files are unpacked, the last frame says how
 * it ended, and then that is stored. Only after that is the result acknowledged, so that a
 * server which dies on the way finds it again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/artifact.h"
#include "core/artifact_private.h"
#include "core/collector.h"
#include "core/feeder.h"
#include "core/lister.h"
#include "core/metrics.h"
#include "core/quota.h"
#include "core/repository.h"
#include "core/run_dir.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"

/* Every process of the guest is dead when its end is known. So its output, its files and their
 * list come to their end at once. A pipe of output that does not is held by another run: what is
 * in it is taken after PIPES_MS. The rest is given up LINGER_MS later. */
#define PIPES_MS  20
#define LINGER_MS 3000

/* The reason of one that is ended by its max_output_bytes. */
#define OUTPUT_LIMIT "output_limit_exceeded"

/* How often its end is tried to be stored again, each time after twice the pause. */
#define TRIES_MAX   5u
#define TRY_WAIT_MS 100u

/* What is left of the output after a result is read by now, or never. */
void run_stop_linger(struct run *run)
{
	if (!run->linger)
		return;
	(void)uv_timer_stop(run->linger);
	uv_close((uv_handle_t *)run->linger, (uv_close_cb)free);
	run->linger = NULL;
}

static void on_linger(uv_timer_t *timer)
{
	struct run *run = timer->data;

	log_warn("run %s is over, and its output does not end", run->row.id);
	run_stop_linger(run);
	if (run->stream)
		stream_finish(run->stream);
	collector_free(TAKE(run->capture));
	lister_free(TAKE(run->lister));
	run->is_captured = run->is_listed = true;
	run_check_over(run);
}

static void on_pipes_late(uv_timer_t *timer)
{
	struct run *run = timer->data;

	(void)uv_timer_start(timer, on_linger, LINGER_MS, 0);
	if (run->stream)
		stream_finish_pipes(run->stream);
}

static void start_timer(struct run *run, uv_timer_cb on, uint64_t ms)
{
	run->linger = xnew(uv_timer_t);
	(void)uv_timer_init(run->service->loop, run->linger);
	run->linger->data = run;
	(void)uv_timer_start(run->linger, on, ms, 0);
}

void run_on_drained(void *ctx)
{
	struct run *run = ctx;

	run->is_drained = true;
	run_check_over(run);
}

void run_on_stream_failed(void *ctx, int r)
{
	struct run *run = ctx;

	(void)log_error(r, "output of run %s can not be kept: %s", run->row.id, strerror(-r));
}

void run_on_capped(void *ctx)
{
	struct run *run = ctx;

	if (run->request.max_output_bytes && run_cancel(run))
		run->is_over_output = true;
}

static void give_back_slot(struct run *run)
{
	if (!run->holds_slot)
		return;
	run->holds_slot = false;
	queue_end(&run->service->queue, run->row.user_id);
}

void run_rest(struct run *run)
{
	give_back_slot(run);
	service_dispatch(run->service);
}

void run_wake(struct run *run)
{
	if (run->holds_slot || run->has_result)
		return;
	run->holds_slot = true;
	queue_begin(&run->service->queue, run->row.user_id);
}

void run_end(struct run *run, const struct result *result)
{
	if (run->has_result)
		return;
	run->has_result = true;
	run->result = *result;
	if (run->was_late && result->reason == REASON_CANCELED_BY_USER)
		run->result.reason = REASON_EXECUTION_TIMEOUT;
	give_back_slot(run);
	run_input_fini(run);
	if (run->stream) {
		run_attach_output(run);
		run->is_drained = stream_is_drained(run->stream);
	} else {
		run->is_drained = true;
	}
	if (!run->capture)
		run->is_captured = true;
	if (!run->lister)
		run->is_listed = true;
	if (!run->is_drained || !run->is_captured || !run->is_listed)
		start_timer(run, on_pipes_late, PIPES_MS);
	service_dispatch(run->service);
	run_check_over(run);
}

static const struct usage usage_unknown = { USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
	USAGE_UNKNOWN, USAGE_UNKNOWN, 0 };

void run_end_without(struct run *run, enum reason reason, const char *code, const char *message)
{
	struct result result = { .reason = reason, .exit_code = -1, .usage = usage_unknown };

	result.ended_ns = clock_realtime_ns();
	(void)snprintf(result.message, sizeof(result.message), "%s", message);
	run_set_text(&run->row.reason_code, code);
	run_end(run, &result);
}

static enum reason reason_called(const char *name)
{
	if (streq(name, OUTPUT_LIMIT))
		return REASON_CANCELED_BY_USER; /* by us, which is why it has that name */
	for (int i = 0; i < REASON_COUNT; i++) {
		if (streq(reason_name((enum reason)i), name))
			return (enum reason)i;
	}
	return REASON_INFRASTRUCTURE_ERROR; /* it has a name of its own, as in the queue */
}

bool run_end_as_told(struct run *run)
{
	struct result result = { .ended_ns = clock_realtime_ns() };

	if (!run->stream || !stream_has_ended(run->stream))
		return false;
	CLEANUP(cursor_closep)
	struct cursor *c = cursor_open(run->stream, stream_last_seq(run->stream), NULL, NULL);
	CLEANUP(shared_unrefp) struct shared *m = cursor_next(c);
	AUTO_JSON *frame = m ? json_loadb(shared_data(m), m->size, 0, NULL) : NULL;
	const json_t *data = json_object_get(frame, "data");
	const char *name = json_string_value(json_object_get(data, "reason"));
	const json_t *code = json_object_get(data, "exit_code");

	if (!name)
		return false;
	result.reason = reason_called(name);
	result.exit_code = json_is_integer(code) ? (int32_t)json_integer_value(code) : -1;
	result.usage = usage_unknown;
	run_set_text(&run->row.reason_code, name);
	if (run->phase == PHASE_QUEUED)
		run_move(run, PHASE_STARTING);
	run_end(run, &result);
	return true;
}

/* --- artifacts, in a thread --- */

struct harvest {
	struct run *run;
	int dir_fd;
	struct artifact_limits limits;
	struct artifact_summary summary;
};

static int unpack(void *ctx, int fd, struct err *err)
{
	struct harvest *h = ctx;

	(void)fd;
	return artifact_unpack(h->dir_fd, &h->limits, &h->summary, err);
}

static void settle(struct run *run, const struct artifact_summary *artifacts);

static void on_unpacked(void *ctx, int r, const struct err *err)
{
	AUTO_FREE struct harvest *h = ctx;
	struct run *run = h->run;

	run->n_work--;
	if (r < 0)
		(void)log_error(
			r, "cannot keep the artifacts of run %s: %s", run->row.id, err->text);
	quota_settle_artifacts(run, h->summary.n_bytes);
	settle(run, &h->summary);
}

static void on_room(void *ctx, uint64_t reserved)
{
	struct run *run = ctx;
	const struct settings *c = run->service->settings;
	struct harvest *h = xnew(struct harvest);

	run->n_work--;
	if (run->service->is_closing) {
		free(h);
		return;
	}
	h->run = run;
	h->dir_fd = run->dir_fd;
	h->limits = (struct artifact_limits){
		.max_run_bytes = c->max_artifact_run_mb << 20,
		.max_user_bytes_left = reserved,
		.max_file_bytes = c->max_artifact_file_bytes,
	};
	run->n_work++;
	feeder_start(run->service->loop, -1, unpack, on_unpacked, h);
}

/* The files of a run are never larger than the stream that they come in. */
static uint64_t captured_bytes(const struct run *run)
{
	uint64_t most = run->service->settings->max_artifact_run_mb << 20;
	struct stat st;

	if (fstatat(run->dir_fd, ARTIFACT_CAPTURE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)st.st_size < most ? (uint64_t)st.st_size : most;
}

static void release(struct run *run);

void run_check_over(struct run *run)
{
	if (run->n_work > 0 || run->service->is_closing)
		return;
	if (run->is_abandoned) {
		release(run);
		return;
	}
	if (run->is_settling || !run->has_result || !run->is_drained || !run->is_captured ||
		!run->is_listed)
		return;
	run->is_settling = true;
	run_stop_linger(run);
	if (run->dir_fd < 0 || json_array_size(run->request.capture_patterns) == 0) {
		settle(run, &(struct artifact_summary){ 0 });
		return;
	}
	run->n_work++;
	quota_reserve_artifacts(run, captured_bytes(run), on_room, run);
}

/* --- how it ended --- */

/* It was ended because it printed too much, and did not end by itself before that. */
static bool is_over_output(const struct run *run)
{
	return run->is_over_output && run->result.reason == REASON_CANCELED_BY_USER;
}

/* Words that are part of the interface come first; else what the keeper says. */
static const char *message_of(const struct run *run)
{
	const struct result *r = &run->result;
	static const enum reason words[] = { REASON_EXECUTION_TIMEOUT, REASON_STARTUP_TIMEOUT,
		REASON_CANCELED_BY_USER };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (r->reason == words[i])
			return is_over_output(run) ? OUTPUT_LIMIT : reason_name(r->reason);
	}
	return r->message[0] ? r->message : NULL;
}

/* A guest that was refused a process has a status all the same. */
static bool exited(const struct result *r)
{
	return r->reason == REASON_EXIT_CODE_0 || r->reason == REASON_NONZERO_EXIT ||
	       (r->reason == REASON_PIDS_LIMIT_EXCEEDED && r->exit_code >= 0);
}

static void fill_end(struct run *run, const struct artifact_summary *artifacts)
{
	const struct result *r = &run->result;
	struct run_row *row = &run->row;
	char at[DATE_SIZE + 1];

	if (r->started_ns && !row->started_at) {
		date_format(r->started_ns, at);
		run_set_text(&row->started_at, at);
	}
	date_format(r->ended_ns, at);
	run_set_text(&row->finished_at, at);
	if (!row->reason_code || streq(row->reason_code, "approval_required"))
		run_set_text(&row->reason_code,
			is_over_output(run) ? OUTPUT_LIMIT : reason_name(r->reason));
	run_set_text(&row->message, message_of(run));
	row->exit_code = exited(r) ? r->exit_code : STORE_NULL;
	row->signal = r->signal ? r->signal : STORE_NULL;
	row->log_bytes = run->stream ? (int64_t)stream_log_bytes(run->stream) : 0;
	row->artifact_bytes = (int64_t)artifacts->n_bytes;
	row->cpu_us = r->usage.cpu_us == USAGE_UNKNOWN ? 0 : (int64_t)r->usage.cpu_us;
	if (row->cpu_us < run->known_cpu_us) /* its box could not say, or not so exactly */
		row->cpu_us = run->known_cpu_us;
	row->expires_sec = (int64_t)(r->ended_ns / 1000000000) +
			   (int64_t)run->service->settings->artifact_ttl_hours * 3600;
	json_decref(run->usage);
	run->usage = run_usage(run, artifacts->n_bytes, artifacts->n_skipped);
	free(row->usage);
	row->usage = json_canonical(run->usage);
	/* Code and environment are not kept. */
	if (row->request)
		explicit_bzero(row->request, strlen(row->request));
	run_set_text(&row->request, NULL);
}

/* Why it was not executed is nowhere else to be heard by who only has the stream. */
static json_t *end_json(const struct run *run)
{
	const struct result *r = &run->result;
	json_t *o = json_object();

	(void)json_object_set_new(
		o, "exit_code", exited(r) ? json_integer(r->exit_code) : json_null());
	(void)json_object_set_new(o, "reason", json_string(run->row.reason_code));
	if (r->reason == REASON_CANCELED_BY_USER && !is_over_output(run))
		(void)json_object_set_new(o, "canceled", json_true());
	if (r->reason == REASON_POLICY_DENIED && run->row.message)
		(void)json_object_set_new(o, "message", json_string(run->row.message));
	return o;
}

static void tell_stream(struct run *run)
{
	if (!run->stream || stream_has_ended(run->stream))
		return;
	AUTO_JSON *o = end_json(run);
	AUTO_FREE char *data = json_dumps(o, JSON_COMPACT);
	(void)stream_event(run->stream, "end", data);
	stream_end(run->stream);
}

static void keep_files(struct run *run)
{
	if (!run->is_fresh)
		return;
	run->is_fresh = false;
	int r = run_dir_keep(run->service, run->row.user_id, run->row.id);
	if (r < 0)
		(void)log_error(
			r, "cannot keep the files of run %s: %s", run->row.id, strerror(-r));
}

/* Before its end is stored: what it printed, if that is little, is stored with it. Else its
 * directory gets the place where it is looked for. */
static void keep_output(struct run *run)
{
	bool may_pack =
		run->is_fresh && run->stream && json_array_size(run->request.capture_patterns) == 0;

	if (!may_pack || stream_pack(run->stream, &run->row.frames) < 0)
		keep_files(run);
}

/* Its row has all that its files have: they may serve another, unless somebody reads them. */
static void give_back_files(struct run *run)
{
	struct stream_files files;

	if (stream_take_files(run->stream, &files))
		run_dir_give_back(run->service, run->row.id, &files);
	else
		run_dir_drop(run->service, run->row.id);
}

static void count_end(struct run *run)
{
	struct metrics *m = run->service->metrics;
	const struct run_row *row = &run->row;
	const char *const labels[] = { row->runtime, row->phase, row->reason_code };

	metrics_add(m, METRIC_RUNS_COMPLETED, labels, 1);
	if (run->result.usage.wall_us != USAGE_UNKNOWN)
		metrics_observe(
			m, METRIC_RUN_DURATION, labels, (double)run->result.usage.wall_us / 1e6);
	metrics_add(m, METRIC_LOG_BYTES, METRICS_LABELS(row->runtime), (double)row->log_bytes);
	metrics_add(m, METRIC_ARTIFACT_BYTES, METRICS_LABELS(row->runtime),
		(double)row->artifact_bytes);
	if (run->stream && stream_was_truncated(run->stream))
		metrics_add(m, METRIC_LOG_TRUNCATIONS, METRICS_LABELS("ws", "log_cap"), 1);
	run_report_end(run);
}

void run_tell_waiters(struct run *run)
{
	while (run->waiters) {
		struct run_waiter *w = run->waiters;

		run->waiters = w->next;
		w->over(w, run);
	}
}

static void release(struct run *run)
{
	struct service *s = run->service;

	run_tell_waiters(run); /* who may read its output */
	if (run->is_abandoned)
		run_dir_drop(s, run->row.id);
	else if (run->is_fresh && run->is_stored)
		give_back_files(run);
	if (run->request.git)
		repository_remove(s, run->row.id);
	run_free(run);
	service_dispatch(s);
}

/* Is it over only when its end is stored? The keeper has the result until then, and would tell
 * the next server the same: whoever waits for a run need not wait for that. */
static bool is_awaited(const struct run *run)
{
	return !run->job;
}

/* What is still stored of it is no business of its session's. */
static void leave_session(struct run *run)
{
	struct session *session = TAKE(run->session);

	if (session)
		session_leave(session);
}

static void store_end(struct run *run);

static void on_try_again(uv_timer_t *timer)
{
	struct run *run = timer->data;

	run_stop_linger(run);
	store_end(run);
}

static void fail_to_store(struct run *run, int r)
{
	(void)log_error(r, "cannot store the end of run %s: %s", run->row.id, strerror(-r));
	if (run->place < 0)
		keep_files(run);
}

void run_end_stored(struct run *run, int r)
{
	struct service *s = run->service;

	run->is_stored = r == 0;
	/* One that was answered for and only the journal has can not be given up. */
	if (r < 0 && !s->is_closing && (run->n_tries < TRIES_MAX || run->place >= 0)) {
		start_timer(run, on_try_again, TRY_WAIT_MS << run->n_tries);
		if (run->n_tries < TRIES_MAX)
			run->n_tries++;
		return;
	}
	/* One whose end is not stored stays with the keeper, for a server that can. */
	if (r < 0)
		fail_to_store(run, r);
	else if (run->job)
		s->runtime->release(TAKE(run->job));
	release(run);
}

void run_on_end_stored(void *ctx, int r)
{
	struct run *run = ctx;

	run->service->n_pending--;
	run_end_stored(run, r);
}

static void store_end(struct run *run)
{
	struct store_batch *b = store_batch_new(run->service->store);

	store_batch_put(b, &run_table, &run->row);
	run_count(b, run);
	quota_count_end(b, &run->row);
	if (run->counted_cpu_us)
		quota_count_cpu(b, run->row.user_id, -run->counted_cpu_us);
	run->service->n_pending++;
	run->is_stored = true;
	if (is_awaited(run))
		store_commit(b, run_on_end_stored, run);
	else
		store_commit_patiently(b, run_on_end_stored, run);
}

static void settle(struct run *run, const struct artifact_summary *artifacts)
{
	struct service *s = run->service;

	if (s->is_closing)
		return; /* its end is the next server's to tell */
	if (run->held && run->stream && !stream_is_short(run->stream)) {
		/* Only what a row can hold is found by a successor of ours without one. */
		run->is_settling = false;
		run_store_held(run);
		return;
	}
	fill_end(run, artifacts);
	run_move(run, phase_of(run->result.reason));
	tell_stream(run);
	keep_output(run);
	count_end(run);
	if (run->held) {
		run_store_whole(run);
	} else {
		store_end(run);
		if (!is_awaited(run))
			run_tell_waiters(run);
	}
	if (run->job)
		leave_session(run);
	service_dispatch(s); /* the next one need not wait for the store */
}

void run_abandon(struct run *run)
{
	if (run->job)
		run->service->runtime->release(TAKE(run->job));
	give_back_slot(run);
	queue_remove(&run->service->queue, &run->waiting);
	run->cancels = run->is_abandoned = true;
	run_check_over(run);
}
