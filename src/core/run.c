/* Accepting runs, finding them, and ending those that wait. */
#include "core/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/claim.h"
#include "core/collector.h"
#include "core/identity.h"
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

void run_move(struct run *run, enum phase next)
{
	if (run->phase == next)
		return;
	if (!phase_may_follow(run->phase, next))
		abort(); /* a bug of ours, and every answer after it would be a lie */
	run->phase = next;
	run_set_text(&run->row.phase, phase_name(next));
}

struct run *run_find(struct service *s, const char *id, const struct identity *who)
{
	for (struct run *r = s->runs; r; r = r->next) {
		if (streq(r->row.id, id))
			return !who || who->admin || streq(r->row.user_id, who->user_id) ? r : NULL;
	}
	return NULL;
}

/* --- a run that is being accepted --- */

struct creation {
	struct service *service;
	struct run *run; /* not yet in the service's list */
	struct claim *claim;
	char *key;
	char fingerprint[65];
	bool begins; /* once it is stored */
	run_cb *done;
	run_replayed_cb *replayed;
	void *ctx;
};

static void free_creation(struct creation *c)
{
	free(c->key);
	free(c);
}

static void refuse(struct creation *c, struct problem *problem)
{
	claim_end(TAKE(c->claim), -ECANCELED);
	run_free(c->run);
	c->done(c->ctx, NULL, problem);
	problem_fini(problem);
	free_creation(c);
}

static void refuse_with(struct creation *c, const char *code, const char *text)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, code, "%s", text);
	refuse(c, &problem);
}

/* Fields that were not sent are those of the session. */
static void inherit_field(json_t *body, const char *name, json_t *value)
{
	if (json_object_get(body, name) || !value || json_is_null(value))
		json_decref(value);
	else
		(void)json_object_set_new(body, name, value);
}

static int inherit(const struct session *session, struct request *request, struct problem *problem)
{
	const struct session_row *row = &session->row;
	AUTO_JSON *body = json_copy(request->body);
	AUTO_JSON *resources = json_object();

	if (!row->base_image)
		return problem_set(problem, "session_base_image_required",
			"the session has no base_image, so nothing can run in it");
	(void)json_object_update(resources, json_object_get(body, "resources"));
	inherit_field(resources, "cpu", json_real(row->cpu_limit));
	inherit_field(resources, "memory_mb", json_integer(row->memory_mb));
	(void)json_object_set(body, "resources", resources);
	inherit_field(body, "runtime", json_string(row->runtime));
	inherit_field(body, "network_policy", json_string(row->network_policy));
	inherit_field(body, "trust_level", json_string(row->trust_level));
	inherit_field(body, "timeout_sec", json_integer(row->timeout_sec));
	inherit_field(body, "env", row->env ? json_loads(row->env, 0, NULL) : NULL);
	inherit_field(body, "persona_id", row->persona_id ? json_string(row->persona_id) : NULL);
	inherit_field(
		body, "workspace_id", row->workspace_id ? json_string(row->workspace_id) : NULL);
	inherit_field(body, "workspace_group_id",
		row->workspace_group_id ? json_string(row->workspace_group_id) : NULL);
	inherit_field(body, "scope_snapshot_id",
		row->scope_snapshot_id ? json_string(row->scope_snapshot_id) : NULL);
	struct request whole;
	if (request_parse(body, REQUEST_RUN, &whole, problem) < 0)
		return -1;
	request_fini(request);
	*request = whole;
	return 0;
}

static int find_session(struct run *run, const struct identity *who, struct problem *problem)
{
	const char *id = run->request.session_id;

	if (!id)
		return 0;
	struct session *session = session_find(run->service, id, who);
	if (!session || session->is_ending)
		return problem_set(problem, "session_not_found", "there is no session '%.64s'", id);
	if (session->is_lost)
		return problem_set(problem, "workspace_lost",
			"the files of this session were lost when the keeper ended; make a new one");
	if (inherit(session, &run->request, problem) < 0)
		return -1;
	run->session = session;
	return 0;
}

int run_decide(struct run *run, struct problem *problem)
{
	const struct request *r = &run->request;
	struct policy_refusal refusal = { 0 };
	struct policy_request asked = {
		.spec_version = r->spec_version,
		.trust_level = r->trust_level,
		.runtime = r->runtime,
		.network_policy = r->network_policy,
		.cpu_milli = r->cpu_milli,
		.memory_mb = r->memory_mb,
		.timeout_sec = r->timeout_sec,
		.startup_timeout_sec = r->startup_timeout_sec,
	};

	if (policy_decide(run->service->settings, &asked, &run->policy, &refusal) == 0)
		return 0;
	int result = problem_from_policy(problem, &refusal);
	policy_refusal_fini(&refusal);
	return result;
}

static int check(struct run *run, const struct identity *who, struct problem *problem)
{
	if (run->service->is_draining)
		return problem_set(problem, "shutting_down", "the server is about to end");
	if (!run->service->host)
		return problem_set(problem, "store_unavailable", "the server is about to begin");
	if (find_session(run, who, problem) < 0 || run_decide(run, problem) < 0 ||
		service_check_space(run->service, problem) < 0)
		return -1;
	if (request_decode_files(&run->request, run->service->settings->max_inline_bytes,
		    &run->files, &run->n_files, problem) < 0)
		return -1;
	return run_check_spec(run, problem);
}

static void fill_row(struct run *run, const struct run_wish *wish)
{
	const struct request *r = &run->request;
	struct run_row *row = &run->row;
	char now[DATE_SIZE + 1];

	row->created_ns = (int64_t)clock_realtime_ns();
	date_format((uint64_t)row->created_ns, now);
	run_set_text(&row->user_id, wish->who->user_id);
	run_set_text(&row->session_id, r->session_id);
	run_set_text(&row->spec_version, r->spec_version ? r->spec_version : "1.0");
	run_set_text(&row->runtime, run->policy.runtime);
	run_set_text(&row->runtime_version, BELLJAR_VERSION);
	run_set_text(&row->base_image, run->session ? run->session->row.base_image : r->base_image);
	run_set_text(&row->policy_hash, run->service->policy_hash);
	run_set_text(&row->created_at, now);
	run_set_text(&row->trust_level, run->policy.trust_level);
	run_set_text(&row->network_policy, run->policy.network_policy);
	run_set_text(&row->persona_id, r->persona_id);
	run_set_text(&row->workspace_id, r->workspace_id);
	run_set_text(&row->workspace_group_id, r->workspace_group_id);
	run_set_text(&row->scope_snapshot_id, r->scope_snapshot_id);
	run_set_text(&row->source, wish->source);
	run_set_text(&row->trace_id, wish->trace_id);
	if (r->labels)
		row->labels = json_dumps(r->labels, JSON_COMPACT);
	row->exit_code = row->signal = row->expires_sec = STORE_NULL;
	run->phase = PHASE_QUEUED;
	run_set_text(&row->phase, phase_name(PHASE_QUEUED));
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

static struct run *new_run(struct service *s)
{
	struct run *run = xnew(struct run);

	run->service = s;
	run->dir_fd = run->out_fd = run->err_fd = run->input.fd = -1;
	run->accepted_ns = clock_monotonic_ns();
	return run;
}

static void on_stored(void *ctx, int r)
{
	struct creation *c = ctx;
	struct problem problem = { 0 };
	struct run *run = c->run;

	run->service->n_pending--;
	run->n_work--;
	claim_end(TAKE(c->claim), r);
	if (r < 0) {
		(void)log_error(r, "cannot store run %s: %s", run->row.id, strerror(-r));
		(void)problem_set(&problem, "store_unavailable", "the run could not be stored");
		c->done(c->ctx, NULL, &problem);
		problem_fini(&problem);
		run_abandon(run);
	} else {
		c->done(c->ctx, run, &problem);
		if (c->begins && !run->has_result && !run->service->is_closing)
			run_begin(run);
		run_check_over(run);
	}
	free_creation(c);
}

static void store_new(struct creation *c)
{
	struct run *run = c->run;
	struct store_batch *b = store_batch_new(run->service->store);

	if (c->begins)
		run_set_text(&run->row.phase, phase_name(PHASE_STARTING));
	store_batch_insert(b, &run_table, &run->row);
	run_set_text(&run->row.phase, phase_name(run->phase));
	quota_count_run(b, run->row.user_id, (uint64_t)run->row.created_ns);
	claim_store(c->claim, b);
	run->service->n_pending++;
	store_commit(b, on_stored, c);
}

int run_open_files(struct run *run)
{
	struct service *s = run->service;
	struct err err = { 0 };
	struct stream_options options = {
		.log_cap = s->settings->max_log_bytes,
		.heartbeat_ms = s->settings->ws_heartbeat_ms,
		.drained = run_on_drained,
		.failed = run_on_stream_failed,
		.ctx = run,
	};
	int r = service_open_run_dir(s, run->row.user_id, run->row.id, true, &run->dir_fd);

	if (r == 0)
		r = stream_open(s->loop, run->dir_fd, &options, &run->stream, &err);
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
	if (run->session)
		run->session->n_runs++;
}

/* When nobody else waits and there is room, it may begin; else it is in the queue. */
static bool take_slot(struct run *run)
{
	struct service *s = run->service;

	if (s->is_up && queue_has_room(&s->queue, run->row.user_id)) {
		queue_begin(&s->queue, run->row.user_id);
		run->holds_slot = true;
		return true;
	}
	queue_push(&s->queue, &run->waiting, run->row.user_id, clock_monotonic_ns());
	audit_run(s->audit, "sandbox.run.queued", &run->row, NULL);
	return false;
}

void run_enqueue(struct run *run)
{
	if (take_slot(run))
		run_launch(run);
}

/* Should we die before it is stored, its successor ends it, and it is as if it had never been:
 * whoever asks again gets another one. That is so for what has a box of its own; in a session
 * it would have left traces, and is stored first. */
static void begin_accepted(struct creation *c)
{
	struct run *run = c->run;

	if (!take_slot(run))
		return;
	if (run->session)
		c->begins = true;
	else
		run_launch(run);
}

/* Its session may have ended while keys and quotas were looked up. */
static bool still_has_session(struct run *run)
{
	const char *id = run->request.session_id;

	if (!id)
		return true;
	run->session = session_find(run->service, id, NULL);
	return run->session && !run->session->is_ending;
}

/* Everything was checked and there is room: from here on it is a run. */
static void accept_run(struct creation *c)
{
	struct run *run = c->run;
	struct service *s = run->service;
	bool held = run->policy.approval != NULL;

	if (!still_has_session(run)) {
		refuse_with(c, "session_not_found", "the session ended");
		return;
	}
	if (run_open_files(run) < 0) {
		refuse_with(c, "internal_error", "the files of the run could not be made");
		return;
	}
	if (held) {
		run_set_text(&run->row.approval, "required");
		run_set_text(&run->row.reason_code, "approval_required");
	}
	run_list(run);
	run->n_work++; /* it is not over before it is stored and answered */
	metrics_add(s->metrics, METRIC_RUNS_STARTED, METRICS_LABELS(run->row.runtime), 1);
	audit_run(s->audit, "sandbox.run.created", &run->row, NULL);
	if (!held)
		begin_accepted(c);
	run_fill_request(run, run->holds_slot);
	store_new(c);
}

static void on_quota(void *ctx, struct problem *problem)
{
	struct creation *c = ctx;

	if (problem->status) {
		refuse(c, problem);
		return;
	}
	accept_run(c);
}

static void on_prior(void *ctx, const struct run_row *row, struct problem *problem)
{
	struct creation *c = ctx;

	if (!row)
		c->done(c->ctx, NULL, problem);
	else
		c->replayed(c->ctx, row);
	free_creation(c);
}

static void conflict(struct creation *c, const struct claim_answer *a)
{
	struct problem problem = { 0 };
	char created[DATE_SIZE + 1];

	date_format(a->created_sec * UINT64_C(1000000000), created);
	(void)problem_set(
		&problem, "idempotency_conflict", "Idempotency-Key replay with different body");
	problem_add(&problem, "prior_id", json_string(a->object_id));
	problem_add(&problem, "key", json_string(c->key));
	problem_add(&problem, "prior_created_at", json_string(created));
	refuse(c, &problem);
}

static void on_claim(void *ctx, const struct claim_answer *a)
{
	struct creation *c = ctx;

	if (a->outcome == CLAIM_NEW) {
		c->claim = a->claim;
		run_set_text(&c->run->row.id, a->object_id);
		quota_check(c->run, on_quota, c);
	} else if (a->outcome == CLAIM_REPLAY) {
		run_free(TAKE(c->run));
		run_get(c->service, a->object_id, NULL, on_prior, c);
	} else if (a->outcome == CLAIM_CONFLICT) {
		conflict(c, a);
	} else {
		refuse_with(c, "store_unavailable", "the idempotency key could not be looked up");
	}
}

void run_create(struct service *s, const struct run_wish *wish, run_cb *done,
	run_replayed_cb *replayed, void *ctx)
{
	struct creation *c = xnew(struct creation);
	struct problem problem = { 0 };

	*c = (struct creation){ .service = s, .done = done, .replayed = replayed, .ctx = ctx };
	c->run = new_run(s);
	c->key = wish->idempotency_key ? xstrdup(wish->idempotency_key) : NULL;
	/* Of what was sent, not of what the session adds. */
	request_fingerprint(wish->request, REQUEST_RUN, c->fingerprint);
	if (request_parse(wish->request->body, REQUEST_RUN, &c->run->request, &problem) < 0 ||
		check(c->run, wish->who, &problem) < 0) {
		refuse(c, &problem);
		return;
	}
	fill_row(c->run, wish);
	struct claim_request claim = {
		.endpoint = "runs",
		.user = c->run->row.user_id,
		.key = c->key,
		.fingerprint = c->fingerprint,
	};
	claim_begin(s, &claim, on_claim, c);
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
	run_end_without(run, REASON_INFRASTRUCTURE_ERROR, "queue_ttl_expired", "queue_ttl_expired");
}

int run_approve(struct run *run, bool approved, const char *by)
{
	if (!run->row.approval || !streq(run->row.approval, "required") || run->has_result)
		return -ENOENT;
	run_set_text(&run->row.approval, approved ? "approved" : "denied");
	audit_run(run->service->audit, approved ? "sandbox.run.approved" : "sandbox.run.denied",
		&run->row, json_pack("{s:s}", "by", by));
	if (!approved) {
		run_end_without(run, REASON_POLICY_DENIED, NULL, "an admin denied this run");
		return 0;
	}
	run_set_text(&run->row.reason_code, NULL);
	run_enqueue(run);
	if (!run->has_result) {
		run_fill_request(run, run->holds_slot);
		run_store(run);
	}
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
	unlink_run(run);
	queue_remove(&run->service->queue, &run->waiting);
	run_stop_linger(run);
	run_input_fini(run);
	collector_free(run->capture);
	if (run->stream)
		stream_unref(run->stream);
	close_fdp(&run->dir_fd);
	close_fdp(&run->out_fd);
	close_fdp(&run->err_fd);
	request_free_files(run->files, run->n_files);
	request_fini(&run->request);
	row_fini(&run_table, &run->row);
	free(run);
}
