/* Accepting runs: checked, decided upon, with a key and within quotas. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/str.h"
#include "core/approval.h"
#include "core/claim.h"
#include "core/identity.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/quota.h"
#include "core/repository.h"
#include "core/request_code.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/session.h"

static void refuse(struct creation *c, struct problem *problem)
{
	claim_end(TAKE(c->claim), -ECANCELED);
	if (c->run && c->run->request.git && c->run->row.id)
		repository_remove(c->service, c->run->row.id);
	run_free(c->run);
	c->done(c->ctx, NULL, problem);
	problem_fini(problem);
	creation_free(c);
}

static void refuse_with(struct creation *c, const char *code, const char *text)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, code, "%s", text);
	refuse(c, &problem);
}

/* What was granted to the session, as far as a run of this trust level may have it. */
static json_t *inherited_exec(const struct session *session, const json_t *body)
{
	const char *level = json_string_value(json_object_get(body, "trust_level"));
	int64_t granted = session->row.workspace_exec;

	if (granted == STORE_NULL || !level)
		return NULL;
	return json_boolean(granted && policy_allows_exec(session->service->settings, level));
}

/* Fields that were not sent are those of the session. */
static int inherit(const struct session *session, struct request *request, struct problem *problem)
{
	const struct session_row *row = &session->row;
	AUTO_JSON *body = json_copy(request->body);
	AUTO_JSON *resources = json_object();

	(void)json_object_set_new(body, "session_id", json_string(row->id));
	(void)json_object_update(resources, json_object_get(body, "resources"));
	json_set_missing(resources, "cpu", json_real(row->cpu_limit));
	json_set_missing(resources, "memory_mb", json_integer(row->memory_mb));
	(void)json_object_set(body, "resources", resources);
	json_set_missing(body, "runtime", json_string(row->runtime));
	json_set_missing(body, "network_policy", json_string(row->network_policy));
	json_set_missing(body, "trust_level", json_string(row->trust_level));
	json_set_missing(body, "workspace_exec", inherited_exec(session, body));
	if (!json_object_get(body, "timeout_ms"))
		json_set_missing(body, "timeout_sec", json_integer(row->timeout_sec));
	json_set_missing(body, "env", row->env ? json_loads(row->env, 0, NULL) : NULL);
	json_set_missing(body, "persona_id", row->persona_id ? json_string(row->persona_id) : NULL);
	json_set_missing(
		body, "workspace_id", row->workspace_id ? json_string(row->workspace_id) : NULL);
	json_set_missing(body, "workspace_group_id",
		row->workspace_group_id ? json_string(row->workspace_group_id) : NULL);
	json_set_missing(body, "scope_snapshot_id",
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
		return request_expand_code(&run->request, NULL, run->service->settings, problem);
	struct session *session = session_find_named(run->service, id, who);
	if (!session)
		return problem_set(problem, "session_not_found", "there is no session '%.64s'", id);
	if (session->is_lost)
		return problem_set(problem, "workspace_lost",
			"the files of this session were lost when the keeper ended; restore a "
			"snapshot, or make a new one");
	if (!session->row.base_image)
		return problem_set(problem, "session_base_image_required",
			"the session has no base_image, so nothing can run in it");
	if (request_expand_code(&run->request, session, run->service->settings, problem) < 0)
		return -1;
	if (inherit(session, &run->request, problem) < 0)
		return -1;
	run->session = session;
	return 0;
}

static int decode_files(struct run *run, struct problem *problem)
{
	const struct settings *c = run->service->settings;

	if (request_decode_files(
		    &run->request, c->max_inline_bytes, &run->files, &run->n_files, problem) < 0)
		return -1;
	if (run->n_files > 1 && request_check_paths(run->files, run->n_files, problem) < 0)
		return -1;
	return c->block_binaries ? request_check_binaries(run->files, run->n_files,
					   c->upload_binaries_allow, problem)
				 : 0;
}

/* What the versions of the interface before 1.1 do not have. */
static int check_interactive(const struct request *r, struct problem *problem)
{
	if (!r->interactive || (r->spec_version && !streq(r->spec_version, "1.0")))
		return 0;
	return problem_field(problem, "interactive", "needs \"spec_version\": \"1.1\"");
}

static int check(struct run *run, const struct identity *who, struct problem *problem)
{
	if (run->service->is_draining)
		return problem_set(problem, "shutting_down", "the server is about to end");
	if (!run->service->host)
		return problem_set(problem, "store_unavailable", "the server is about to begin");
	if (service_check_keeper(run->service, problem) < 0 ||
		find_session(run, who, problem) < 0 || run_decide(run, problem) < 0 ||
		check_interactive(&run->request, problem) < 0 ||
		service_check_space(run->service, problem) < 0)
		return -1;
	if (decode_files(run, problem) < 0)
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
	row->workspace_exec = run->policy.workspace_exec;
	if (r->labels)
		row->labels = json_write(r->labels, 0, 0, NULL);
	row->exit_code = row->signal = row->expires_sec = STORE_NULL;
	run->phase = PHASE_QUEUED;
	run_set_text(&row->phase, phase_name(PHASE_QUEUED));
}

/* --- accepting --- */

/* Should we die before it is stored, its successor ends it, and it is as if it had never been:
 * whoever asks again gets another one. That is so for what has a box of its own; in a session
 * it would have left traces, and is stored first. */
static void begin_accepted(struct creation *c)
{
	struct run *run = c->run;

	if (!run_take_slot(run))
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

/* Not even its files could be made: it never was. */
static void give_up(struct creation *c)
{
	struct run *run = TAKE(c->run);

	run_dir_drop(run->service, run->row.id);
	run->n_work--;
	run_abandon(run);
	refuse_with(c, "internal_error", "the files of the run could not be made");
}

static void note_accepted(struct run *run)
{
	struct service *s = run->service;

	metrics_add(s->metrics, METRIC_RUNS_STARTED, METRICS_LABELS(run->row.runtime), 1);
	run_audit(run, "sandbox.run.created", NULL);
}

/* Everything was checked and there is room: from here on it is a run. The keeper is asked
 * first, and at work while the rest is done. */
static void accept_run(struct creation *c)
{
	struct run *run = c->run;

	if (!still_has_session(run)) {
		refuse_with(c, "session_not_found", "the session ended");
		return;
	}
	if (run->policy.approval) {
		run_set_text(&run->row.approval, "required");
		run_set_text(&run->row.reason_code, "approval_required");
		run->brief = approval_brief(run);
	}
	run_list(run);
	run->n_work++; /* it is not over before it is stored and answered */
	note_accepted(run);
	if (run->session)
		session_mend_again(run->session);
	if (run->policy.approval)
		queue_hold(&run->service->queue, &run->waiting, run->row.user_id);
	else
		begin_accepted(c);
	if (run_open_files(run, true) < 0) {
		give_up(c);
		return;
	}
	run_tell_phase(run);
	run_fill_request(run, run->holds_slot);
	run_store_new(c);
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

/* The repository is there. Its password is not kept any longer. */
static void on_repository(void *ctx, struct problem *problem)
{
	struct creation *c = ctx;
	struct request *r = &c->run->request;

	if (!problem->status && c->service->is_draining)
		(void)problem_set(problem, "shutting_down", "the server is about to end");
	if (problem->status) {
		refuse(c, problem);
		return;
	}
	(void)json_object_set_new(r->body, "git", repository_shown(r->git));
	r->git = json_object_get(r->body, "git");
	quota_check(c->run, on_quota, c);
}

static void begin_checks(struct creation *c)
{
	struct problem problem = { 0 };
	struct repository_order order = {
		.user_id = c->run->row.user_id,
		.name = c->run->row.id,
		.git = c->run->request.git,
	};

	if (!order.git)
		quota_check(c->run, on_quota, c);
	else if (repository_check_runs(c->service, order.user_id, &problem) < 0)
		refuse(c, &problem);
	else
		repository_fetch(c->service, &order, on_repository, c);
}

static void on_prior(void *ctx, const struct run_row *row, struct problem *problem)
{
	struct creation *c = ctx;

	if (!row)
		c->done(c->ctx, NULL, problem);
	else
		c->replayed(c->ctx, row);
	creation_free(c);
}

static void conflict(struct creation *c, const struct claim_answer *a)
{
	struct problem problem = { 0 };

	claim_conflict(a, c->key, &problem);
	refuse(c, &problem);
}

static void on_claim(void *ctx, const struct claim_answer *a)
{
	struct creation *c = ctx;

	if (a->outcome == CLAIM_NEW) {
		c->claim = a->claim;
		run_set_text(&c->run->row.id, a->object_id);
		begin_checks(c);
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
	c->run = run_new(s);
	c->run->counts = true;
	c->run->lists = wish->lists;
	c->run->digests = wish->digests;
	c->run->kernel = wish->kernel;
	c->run->lives_ms = wish->lives_ms;
	c->waits = wish->waits;
	c->key = wish->idempotency_key ? xstrdup(wish->idempotency_key) : NULL;
	/* Of what was sent, not of what the session adds. */
	if (c->key)
		request_fingerprint(wish->request, REQUEST_RUN, s->settings, c->fingerprint);
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
