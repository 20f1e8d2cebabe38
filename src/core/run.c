/* What runs have in common: finding them, their turn, and ending those that wait. */
#include "core/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/collector.h"
#include "core/identity.h"
#include "core/journal.h"
#include "core/lister.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/quota.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"

void run_set_text(char **field, const char *value)
{
	char *copy = value ? xstrdup(value) : NULL;

	free(*field);
	*field = copy;
}

void run_tell_phase(struct run *run)
{
	char data[64];

	(void)snprintf(data, sizeof(data), "{\"phase\":\"%s\"}", phase_name(run->phase));
	if (run->stream)
		(void)stream_event(run->stream, "phase", data);
}

void run_move_untold(struct run *run, enum phase next)
{
	if (run->phase == next)
		return;
	if (!phase_may_follow(run->phase, next))
		abort(); /* a bug of ours, and every answer after it would be a lie */
	run->phase = next;
	run_set_text(&run->row.phase, phase_name(next));
}

void run_move(struct run *run, enum phase next)
{
	bool is_news = run->phase != next;

	run_move_untold(run, next);
	if (is_news)
		run_tell_phase(run);
}

struct run *run_find(struct service *s, const char *id, const struct identity *who)
{
	for (struct run *r = s->runs; r; r = r->next) {
		if (streq(r->row.id, id))
			return !who || who->admin || streq(r->row.user_id, who->user_id) ? r : NULL;
	}
	return NULL;
}

/* --- what every run has, however it came --- */

struct run *run_new(struct service *s)
{
	struct run *run = xnew(struct run);

	run->service = s;
	run->dir_fd = run->out_fd = run->err_fd = run->input.fd = run->place = -1;
	run->accepted_ns = clock_monotonic_ns();
	return run;
}

int run_decide(struct run *run, struct problem *problem)
{
	int r = request_decide(&run->request, run->service->settings, &run->policy, problem);

	if (r == 0 && run->lives_ms)
		run->policy.limits.timeout_ms = run->lives_ms;
	return r;
}

/* What a successor needs to execute it, and to know whether it could have been. */
void run_fill_request(struct run *run, bool is_started)
{
	AUTO_JSON *whole = json_object();

	(void)json_object_set(whole, "body", run->request.body);
	if (is_started)
		(void)json_object_set_new(whole, "keeper",
			json_string(run->service->runtime->instance(run->service->host)));
	free(run->row.request);
	run->row.request = json_canonical(whole);
}

uint64_t run_log_cap(const struct run *run)
{
	uint64_t most = run->service->settings->max_log_bytes;
	uint64_t asked = run->request.max_output_bytes;

	return asked && asked < most ? asked : most;
}

static int open_new_files(struct run *run, const struct stream_options *options, struct err *err)
{
	struct service *s = run->service;
	struct stream_files files;
	int r = run_dir_make(s, run->row.id, &files);

	if (r < 0)
		return r;
	run->dir_fd = fcntl(files.dir_fd, F_DUPFD_CLOEXEC, 0);
	r = run->dir_fd < 0 ? -errno : 0;
	run->is_fresh = true;
	if (r == 0)
		return stream_open_in(s->loop, &files, options, &run->stream, err);
	stream_files_close(&files);
	return r;
}

static int open_kept_files(struct run *run, const struct stream_options *options, struct err *err)
{
	struct service *s = run->service;
	int r = run_dir_open(s, run->row.user_id, run->row.id, true, &run->dir_fd);

	return r < 0 ? r : stream_open(s->loop, run->dir_fd, options, &run->stream, err);
}

int run_open_files(struct run *run, bool is_new)
{
	struct service *s = run->service;
	struct err err = { 0 };
	struct stream_options options = {
		.id = run->row.id,
		.log_cap = run_log_cap(run),
		.heartbeat_ms = s->settings->ws_heartbeat_ms,
		.drained = run_on_drained,
		.failed = run_on_stream_failed,
		.capped = run_on_capped,
		.ctx = run,
	};
	int r = is_new ? open_new_files(run, &options, &err) : open_kept_files(run, &options, &err);

	if (r < 0)
		(void)log_error(r, "cannot make the files of run %s: %s %s", run->row.id,
			strerror(-r), err.text);
	return r;
}

void run_list(struct run *run)
{
	run->next = run->service->runs;
	run->service->runs = run;
	run->service->n_runs++;
	if (run->session) {
		run->session->n_runs++;
		session_touch(run->session);
	}
}

/* When its files are there, nobody else waits and there is room, it may begin; else it is in the
 * queue. */
bool run_take_slot(struct run *run)
{
	struct service *s = run->service;
	bool is_ready = !run_awaits_files(run);

	if (is_ready && service_starts_runs(s) && queue_has_room(&s->queue, run->row.user_id)) {
		queue_begin(&s->queue, run->row.user_id);
		run->holds_slot = true;
		return true;
	}
	if (is_ready)
		queue_push(&s->queue, &run->waiting, run->row.user_id, clock_monotonic_ns());
	else
		run_park(run);
	run_audit(run, "sandbox.run.queued", NULL);
	return false;
}

void run_enqueue(struct run *run)
{
	if (run_take_slot(run))
		run_launch(run);
}

/* --- looking one up --- */

struct lookup {
	struct service *service;
	struct identity who;
	bool anybody;
	run_row_cb *done;
	void *ctx;
};

static void no_such_run(run_row_cb *done, void *ctx)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, "run_not_found", "there is no such run");
	done(ctx, NULL, &problem);
	problem_fini(&problem);
}

static void on_row(void *ctx, int r, const void *data)
{
	AUTO_FREE struct lookup *l = ctx;
	const struct run_row *row = data;
	struct problem problem = { 0 };

	l->service->n_pending--;
	if (r < 0 && r != -ENOENT) {
		(void)problem_set(&problem, "store_unavailable", "the run could not be looked up");
		l->done(l->ctx, NULL, &problem);
		problem_fini(&problem);
		return;
	}
	bool ours = r == 0 && (l->anybody || l->who.admin || streq(row->user_id, l->who.user_id));
	if (ours)
		l->done(l->ctx, row, &problem);
	else
		no_such_run(l->done, l->ctx);
}

void run_get(
	struct service *s, const char *id, const struct identity *who, run_row_cb *done, void *ctx)
{
	struct run *live = run_find(s, id, NULL);
	struct problem problem = { 0 };

	if (live) {
		live = run_find(s, id, who);
		if (live)
			done(ctx, &live->row, &problem);
		else
			no_such_run(done, ctx);
		return;
	}
	struct lookup *l = xnew(struct lookup);
	*l = (struct lookup){ .service = s, .anybody = !who, .done = done, .ctx = ctx };
	if (who)
		l->who = *who;
	struct run_row key = { .id = (char *)id };
	s->n_pending++;
	store_get(s->store, &run_table, &key, on_row, l);
}

bool run_is_shown(const struct run *run)
{
	return (!run->held || run->is_noted) && !run->is_stored;
}

int run_open_output(struct service *s, const struct run_row *row, struct stream **ret)
{
	AUTO_FD dir_fd = -1;
	struct err err = { 0 };
	int r;

	if (row->frames) {
		r = stream_open_packed(row->frames, ret, &err);
	} else {
		r = run_dir_open(s, row->user_id, row->id, false, &dir_fd);
		if (r == 0)
			r = stream_open_ended(s->loop, dir_fd, row->id, ret, &err);
	}
	if (r < 0 && r != -ENOENT)
		(void)log_error(r, "cannot open the output of run %s: %s %s", row->id, strerror(-r),
			err.text);
	return r;
}

/* --- ending --- */

bool run_cancel(struct run *run)
{
	if (run->cancels || run->has_result)
		return false;
	run->cancels = true;
	if (run->job) {
		run->service->runtime->cancel(run->job);
		return true;
	}
	queue_remove(&run->service->queue, &run->waiting);
	run_end_without(run, REASON_CANCELED_BY_USER, NULL, "canceled_by_user");
	return true;
}

void run_expire(struct run *run)
{
	struct service *s = run->service;

	metrics_add(s->metrics, METRIC_QUEUE_TTL_EXPIRED,
		METRICS_LABELS("orchestrator", run->row.runtime, "ttl_expired"), 1);
	queue_remove(&s->queue, &run->waiting);
	run_end_without(run, REASON_INFRASTRUCTURE_ERROR, "queue_ttl_expired",
		s->is_up ? "queue_ttl_expired"
			 : "queue_ttl_expired: the keeper could not be reached");
}

static void begin_approved(struct run *run)
{
	run_enqueue(run);
	if (!run->has_result) {
		run_fill_request(run, run->holds_slot);
		run_store(run);
	}
}

bool run_awaits_approval(const struct run *run)
{
	return run->row.approval && streq(run->row.approval, "required") && !run->has_result;
}

/* The user is told who did it, and why if that is said. */
static void deny(struct run *run, const char *reason)
{
	char text[RUN_DENIAL_MAX + 40];

	(void)snprintf(text, sizeof(text), "an admin denied this run%s%s", reason ? ": " : "",
		reason ? reason : "");
	run_end_without(run, REASON_POLICY_DENIED, NULL, text);
}

int run_approve(struct run *run, bool approved, const char *by, const char *reason)
{
	if (!run_awaits_approval(run))
		return -ENOENT;
	queue_remove(&run->service->queue, &run->waiting);
	run_set_text(&run->row.approval, approved ? "approved" : "denied");
	run_audit(run, approved ? "sandbox.run.approved" : "sandbox.run.denied",
		json_pack("{s:s,s:s*}", "by", by, "reason", reason));
	if (!approved) {
		deny(run, reason);
		return 0;
	}
	run_set_text(&run->row.reason_code, NULL);
	if (run->session)
		session_mend_again(run->session); /* as for one that begins when it comes */
	run_fetch(run, begin_approved);
	return 0;
}

void run_wait(struct run *run, struct run_waiter *w)
{
	w->next = run->waiters;
	run->waiters = w;
}

void run_unwait(struct run *run, struct run_waiter *w)
{
	for (struct run_waiter **at = &run->waiters; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			return;
		}
	}
}

static void unlink_run(struct run *run)
{
	for (struct run **at = &run->service->runs; *at; at = &(*at)->next) {
		if (*at != run)
			continue;
		*at = run->next;
		run->service->n_runs--;
		if (run->session)
			session_leave(run->session);
		return;
	}
}

void run_free(struct run *run)
{
	if (!run)
		return;
	if (run->held)
		run_forget_held(run);
	if (run->is_stored && run->place >= 0)
		journal_remove(run->service->journal, run->place);
	unlink_run(run);
	quota_release_artifacts(run);
	quota_release_cpu(run);
	queue_remove(&run->service->queue, &run->waiting);
	run_stop_linger(run);
	run_input_fini(run);
	collector_free(run->capture);
	lister_free(run->lister);
	inventory_fini(&run->listing);
	if (run->stream)
		stream_unref(run->stream);
	close_fdp(&run->dir_fd);
	close_fdp(&run->out_fd);
	close_fdp(&run->err_fd);
	request_free_files(run->files, run->n_files);
	request_fini(&run->request);
	row_fini(&run_table, &run->row);
	json_decref(run->usage);
	json_decref(run->brief);
	free(run);
}
