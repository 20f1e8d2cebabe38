/* Making, finding and ending sessions. */
#include "core/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/claim.h"
#include "core/errand.h"
#include "core/identity.h"
#include "core/metrics.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session_private.h"

#define NS_PER_SEC UINT64_C(1000000000)

struct session *session_find(struct service *s, const char *id, const struct identity *who)
{
	for (struct session *i = s->sessions; i; i = i->next) {
		if (streq(i->row.id, id))
			return !who || streq(i->row.user_id, who->user_id) ? i : NULL;
	}
	return NULL;
}

static void set_text(char **field, const char *value)
{
	char *copy = value ? xstrdup(value) : NULL;

	free(*field);
	*field = copy;
}

static void list_session(struct session *session)
{
	session->next = session->service->sessions;
	session->service->sessions = session;
	session->service->n_sessions++;
	metrics_set(session->service->metrics, METRIC_SESSIONS, NULL,
		(double)session->service->n_sessions);
}

static void unlink_session(struct session *session)
{
	struct service *s = session->service;

	for (struct session **at = &s->sessions; *at; at = &(*at)->next) {
		if (*at != session)
			continue;
		*at = session->next;
		s->n_sessions--;
		metrics_set(s->metrics, METRIC_SESSIONS, NULL, (double)s->n_sessions);
		return;
	}
}

void session_free(struct session *session)
{
	if (!session)
		return;
	unlink_session(session);
	row_fini(&session_table, &session->row);
	free(session);
}

/* --- making one --- */

struct creation {
	struct service *service;
	struct session *session;
	struct claim *claim;
	char *key;
	char fingerprint[65];
	json_t *git;
	session_cb *done;
	void *ctx;
};

static void free_creation(struct creation *c)
{
	free(c->key);
	json_decref(c->git);
	free(c);
}

static void refuse(struct creation *c, struct problem *problem)
{
	claim_end(TAKE(c->claim), -ECANCELED);
	session_free(c->session);
	c->done(c->ctx, NULL, problem);
	problem_fini(problem);
	free_creation(c);
}

static size_t count_of(const struct service *s, const char *user)
{
	size_t n = 0;

	for (const struct session *i = s->sessions; i; i = i->next)
		n += streq(i->row.user_id, user);
	return n;
}

static int decide(const struct service *s, const struct request *r, struct policy *ret,
	struct problem *problem)
{
	struct policy_refusal refusal = { 0 };
	struct policy_request asked = {
		.spec_version = r->spec_version,
		.trust_level = r->trust_level,
		.runtime = r->runtime,
		.network_policy = r->network_policy,
		.cpu_milli = r->cpu_milli,
		.memory_mb = r->memory_mb,
		.timeout_sec = r->timeout_sec,
	};

	if (s->is_draining)
		return problem_set(problem, "shutting_down", "the server is about to end");
	if (policy_decide(s->settings, &asked, ret, &refusal) == 0)
		return 0;
	int result = problem_from_policy(problem, &refusal);
	policy_refusal_fini(&refusal);
	return result;
}

static int check_room(const struct service *s, const char *user, struct problem *problem)
{
	uint64_t most = s->settings->max_sessions_per_user;

	if (most == 0 || count_of(s, user) < most)
		return 0;
	(void)problem_set(problem, "quota_exceeded", "sessions: all %llu are in use",
		(unsigned long long)most);
	problem_add(problem, "quota", json_string("sessions"));
	problem_add(problem, "used", json_integer((json_int_t)count_of(s, user)));
	problem_add(problem, "limit", json_integer((json_int_t)most));
	return -1;
}

static void fill_times(struct session_row *row, const struct service *s)
{
	uint64_t now = clock_realtime_ns();
	uint64_t ttl = s->settings->session_ttl_sec;
	char at[DATE_SIZE + 1];

	date_format(now, at);
	set_text(&row->created_at, at);
	row->expires_sec = STORE_NULL;
	set_text(&row->expires_at, NULL);
	if (ttl == 0)
		return;
	row->expires_sec = (int64_t)(now / NS_PER_SEC + ttl);
	date_format(now + ttl * NS_PER_SEC, at);
	set_text(&row->expires_at, at);
}

static void fill_row(
	struct session *session, const struct session_wish *wish, const struct policy *policy)
{
	const struct request *r = wish->request;
	struct session_row *row = &session->row;

	set_text(&row->user_id, wish->who->user_id);
	set_text(&row->spec_version, r->spec_version ? r->spec_version : "1.0");
	set_text(&row->runtime, policy->runtime);
	set_text(&row->base_image, r->base_image);
	set_text(&row->network_policy, policy->network_policy);
	set_text(&row->trust_level, policy->trust_level);
	row->env = r->env ? json_dumps(r->env, JSON_COMPACT) : NULL;
	row->labels = r->labels ? json_dumps(r->labels, JSON_COMPACT) : NULL;
	set_text(&row->policy_hash, session->service->policy_hash);
	set_text(&row->persona_id, r->persona_id);
	set_text(&row->workspace_id, r->workspace_id);
	set_text(&row->workspace_group_id, r->workspace_group_id);
	set_text(&row->scope_snapshot_id, r->scope_snapshot_id);
	set_text(&row->state, "active");
	set_text(&row->source, wish->source);
	row->cpu_limit = (double)policy->cpu_milli / 1000;
	row->memory_mb = (int64_t)policy->memory_mb;
	row->timeout_sec = (int64_t)policy->timeout_sec;
	row->uid = STORE_NULL;
	session->workspace_bytes = policy->workspace_mb << 20;
	fill_times(row, session->service);
}

static void copy_row(struct session *session, const struct session_wish *wish)
{
	struct session_row *row = &session->row;

	row_copy(&session_table, row, &wish->like->row);
	set_text(&row->user_id, wish->who->user_id);
	set_text(&row->state, "active");
	session->workspace_bytes = wish->like->workspace_bytes;
	fill_times(row, session->service);
}

static void on_stored(void *ctx, int r)
{
	struct creation *c = ctx;
	struct session *session = c->session;
	struct service *s = c->service;
	struct problem problem = { 0 };

	s->n_pending--;
	if (r < 0) {
		s->runtime->drop_workspace(s->host, session->workspace);
		(void)problem_set(&problem, "store_unavailable", "the session could not be stored");
		refuse(c, &problem);
		return;
	}
	claim_end(TAKE(c->claim), 0);
	metrics_add(s->metrics, METRIC_SESSIONS_CREATED, METRICS_LABELS(session->row.runtime), 1);
	audit_session(s->audit, "sandbox.session.created", &session->row, NULL);
	c->done(c->ctx, session, &problem);
	free_creation(c);
}

static void store_new(struct creation *c)
{
	struct store_batch *b = store_batch_new(c->service->store);

	store_batch_insert(b, &session_table, &c->session->row);
	claim_store(c->claim, b);
	c->service->n_pending++;
	store_commit(b, on_stored, c);
}

static void on_cloned_repository(void *ctx, struct session *session, struct problem *problem)
{
	struct creation *c = ctx;

	(void)session;
	if (problem->status) {
		c->service->runtime->drop_workspace(c->service->host, c->session->workspace);
		/* The problem is the callee's to release. */
		struct problem copy = *problem;
		*problem = (struct problem){ 0 };
		refuse(c, &copy);
		return;
	}
	store_new(c);
}

static void on_workspace(void *ctx, int code, const char *text)
{
	struct creation *c = ctx;
	struct problem problem = { 0 };

	if (code < 0) {
		(void)problem_set(
			&problem, "runtime_unavailable", "no workspace could be made: %s", text);
		problem_add(&problem, "runtime", json_string("native"));
		problem_add(&problem, "available", json_false());
		problem_add(&problem, "suggested", json_array());
		refuse(c, &problem);
		return;
	}
	list_session(c->session);
	if (c->git)
		session_fetch_git(c->session, c->git, on_cloned_repository, c);
	else
		store_new(c);
}

static void conflict(struct creation *c, const struct claim_answer *a)
{
	struct problem problem = { 0 };
	char created[DATE_SIZE + 1];

	date_format(a->created_sec * NS_PER_SEC, created);
	(void)problem_set(
		&problem, "idempotency_conflict", "Idempotency-Key replay with different body");
	problem_add(&problem, "prior_id", json_string(a->object_id));
	problem_add(&problem, "key", json_string(c->key));
	problem_add(&problem, "prior_created_at", json_string(created));
	refuse(c, &problem);
}

static void replay(struct creation *c, const char *id)
{
	struct session *before = session_find(c->service, id, NULL);
	struct problem problem = { 0 };

	if (!before) {
		(void)problem_set(&problem, "session_not_found", "the session of this key is gone");
		refuse(c, &problem);
		return;
	}
	session_free(TAKE(c->session));
	c->done(c->ctx, before, &problem);
	free_creation(c);
}

static void on_claim(void *ctx, const struct claim_answer *a)
{
	struct creation *c = ctx;
	struct problem problem = { 0 };

	if (a->outcome == CLAIM_NEW) {
		c->claim = a->claim;
		set_text(&c->session->row.id, a->object_id);
		uuid_to_hex(a->object_id, c->session->workspace);
		c->service->runtime->make_workspace(c->service->host, c->session->workspace,
			c->session->workspace_bytes, on_workspace, c);
	} else if (a->outcome == CLAIM_REPLAY) {
		replay(c, a->object_id);
	} else if (a->outcome == CLAIM_CONFLICT) {
		conflict(c, a);
	} else {
		(void)problem_set(&problem, "store_unavailable", "the key could not be looked up");
		refuse(c, &problem);
	}
}

void session_create(struct service *s, const struct session_wish *wish, session_cb *done, void *ctx)
{
	struct creation *c = xnew(struct creation);
	struct problem problem = { 0 };
	struct policy policy = { 0 };

	*c = (struct creation){ .service = s, .done = done, .ctx = ctx };
	c->session = xnew(struct session);
	c->session->service = s;
	c->key = wish->idempotency_key ? xstrdup(wish->idempotency_key) : NULL;
	if ((!wish->like && decide(s, wish->request, &policy, &problem) < 0) ||
		check_room(s, wish->who->user_id, &problem) < 0) {
		refuse(c, &problem);
		return;
	}
	if (wish->like) {
		copy_row(c->session, wish);
	} else {
		fill_row(c->session, wish, &policy);
		request_fingerprint(wish->request, REQUEST_SESSION, c->fingerprint);
		c->git = wish->request->git ? json_incref((json_t *)wish->request->git) : NULL;
	}
	struct claim_request claim = {
		.endpoint = "sessions",
		.user = c->session->row.user_id,
		.key = c->key,
		.fingerprint = c->fingerprint,
	};
	claim_begin(s, &claim, on_claim, c);
}

/* --- ending one --- */

struct ending {
	struct session *session;
	session_cb *done; /* NULL: nobody waits */
	void *ctx;
	uv_timer_t timer;
	bool is_over;
	struct problem problem;
};

static void on_timer_closed(uv_handle_t *handle)
{
	struct ending *e = handle->data;

	problem_fini(&e->problem);
	free(e);
}

static void tell_ending(struct ending *e)
{
	if (e->is_over)
		return;
	e->is_over = true;
	if (e->done)
		e->done(e->ctx, NULL, &e->problem);
	(void)uv_timer_stop(&e->timer);
	uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

static void on_removed(void *ctx, int r)
{
	struct ending *e = ctx;
	struct service *s = e->session->service;

	s->n_pending--;
	if (r < 0)
		(void)problem_set(
			&e->problem, "store_unavailable", "the session could not be removed");
	session_free(e->session);
	tell_ending(e);
}

/* All snapshots of the session; each has its row. */
static void on_snapshots(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct ending *e = ctx;
	struct session *session = e->session;
	struct service *s = session->service;
	const struct snapshot_row *snapshots = rows;
	struct store_batch *b = store_batch_new(s->store);
	char path[160];

	(void)total;
	for (size_t i = 0; r == 0 && i < n; i++)
		store_batch_delete(b, &snapshot_table, &snapshots[i]);
	store_batch_delete(b, &session_table, &session->row);
	(void)snprintf(path, sizeof(path), "%s/snapshots", session->row.user_id);
	AUTO_FD dir = openat(s->data_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		(void)fd_remove_tree(dir, session->row.id);
	audit_session(s->audit, "sandbox.session.deleted", &session->row, NULL);
	store_commit(b, on_removed, e);
}

static void remove_all(struct ending *e)
{
	struct session *session = e->session;
	struct service *s = session->service;
	struct query q = { .table = &snapshot_table, .n_filters = 1 };

	session->ending = NULL;
	(void)uv_timer_stop(&e->timer);
	s->runtime->drop_workspace(s->host, session->workspace);
	q.filters[0] = (struct filter){ .column = "session_id", .op = FILTER_EQ };
	q.filters[0].text = session->row.id;
	s->n_pending++;
	store_list(s->store, &q, on_snapshots, e);
}

static void on_drain_timeout(uv_timer_t *timer)
{
	struct ending *e = timer->data;
	struct session *session = e->session;

	session->ending = NULL;
	session->is_ending = false;
	(void)problem_set(&e->problem, "session_cancel_drain_timeout",
		"%zu runs of the session did not end in time", session->n_runs);
	tell_ending(e);
}

void session_check_ending(struct session *session)
{
	if (session->ending && session->n_runs == 0 && !session->errand)
		remove_all(session->ending);
}

void session_leave(struct session *session)
{
	session->n_runs--;
	session_check_ending(session);
}

void session_delete(struct session *session, session_cb *done, void *ctx)
{
	struct service *s = session->service;
	struct ending *e = xnew(struct ending);

	*e = (struct ending){ .session = session, .done = done, .ctx = ctx };
	(void)uv_timer_init(s->loop, &e->timer);
	e->timer.data = e;
	session->is_ending = true;
	if (session->n_runs == 0) {
		remove_all(e);
		return;
	}
	session->ending = e;
	(void)uv_timer_start(&e->timer, on_drain_timeout, s->settings->session_drain_sec * 1000, 0);
	for (struct run *r = s->runs, *next; r; r = next) {
		next = r->next;
		if (r->session == session)
			(void)run_cancel(r);
	}
	session_check_ending(session);
}

void session_expire(struct service *s, uint64_t now_sec)
{
	for (struct session *i = s->sessions, *next; i; i = next) {
		next = i->next;
		if (i->row.expires_sec == STORE_NULL || (uint64_t)i->row.expires_sec > now_sec ||
			i->is_ending)
			continue;
		log_info("session %s expired", i->row.id);
		session_delete(i, NULL, NULL);
		return; /* the others have their turn in a second */
	}
}

/* --- after a restart --- */

void session_recover(struct service *s, const struct session_row *row)
{
	struct session *session = xnew(struct session);

	session->service = s;
	row_copy(&session_table, &session->row, row);
	uuid_to_hex(row->id, session->workspace);
	struct policy policy = { 0 };
	struct policy_refusal refusal = { 0 };
	struct policy_request asked = { .trust_level = row->trust_level };
	if (policy_decide(s->settings, &asked, &policy, &refusal) < 0)
		policy_refusal_fini(&refusal);
	session->workspace_bytes =
		(policy.workspace_mb ? policy.workspace_mb : s->settings->workspace_cap_mb) << 20;
	list_session(session);
}

static struct session *of_workspace(struct service *s, const char *workspace)
{
	for (struct session *i = s->sessions; i; i = i->next) {
		if (streq(i->workspace, workspace))
			return i;
	}
	return NULL;
}

void session_match(struct service *s, const char (*workspaces)[33], size_t n)
{
	for (struct session *i = s->sessions; i; i = i->next)
		i->is_lost = true;
	for (size_t k = 0; k < n; k++) {
		struct session *session = of_workspace(s, workspaces[k]);

		if (session)
			session->is_lost = false;
		else
			s->runtime->drop_workspace(s->host, workspaces[k]);
	}
	for (struct session *i = s->sessions; i; i = i->next) {
		if (i->is_lost)
			log_warn("session %s lost its files with the keeper", i->row.id);
		set_text(&i->row.state, i->is_lost ? "lost" : "active");
	}
}

/* --- as JSON --- */

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *text_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

static json_t *object_of(const char *text)
{
	json_t *o = text ? json_loads(text, 0, NULL) : NULL;

	return o ? o : json_object();
}

json_t *session_json(const struct session *session)
{
	const struct session_row *row = &session->row;
	json_t *o = json_object();

	set(o, "id", json_string(row->id));
	set(o, "session_id", json_string(row->id));
	set(o, "spec_version", text_or_null(row->spec_version));
	set(o, "runtime", text_or_null(row->runtime));
	set(o, "base_image", text_or_null(row->base_image));
	set(o, "cpu_limit", json_real(row->cpu_limit));
	set(o, "memory_mb", json_integer(row->memory_mb));
	set(o, "timeout_sec", json_integer(row->timeout_sec));
	set(o, "network_policy", text_or_null(row->network_policy));
	set(o, "env", object_of(row->env));
	set(o, "labels", object_of(row->labels));
	set(o, "trust_level", text_or_null(row->trust_level));
	set(o, "created_at", text_or_null(row->created_at));
	set(o, "expires_at", text_or_null(row->expires_at));
	set(o, "policy_hash", text_or_null(row->policy_hash));
	set(o, "state", json_string(session->is_lost ? "lost" : "active"));
	set(o, "workspace_cap_mb", json_integer((json_int_t)(session->workspace_bytes >> 20)));
	set(o, "active_runs", json_integer((json_int_t)session->n_runs));
	set(o, "persona_id", text_or_null(row->persona_id));
	set(o, "workspace_id", text_or_null(row->workspace_id));
	set(o, "workspace_group_id", text_or_null(row->workspace_group_id));
	set(o, "scope_snapshot_id", text_or_null(row->scope_snapshot_id));
	return o;
}
