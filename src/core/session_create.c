/* Making sessions: policy, idempotency, a workspace, perhaps a repository or the files of another
 * in it, and then its row. Until that is stored it is nobody's, and goes without a trace, also when
 * the server is killed: the next one drops workspaces that no session has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/claim.h"
#include "core/identity.h"
#include "core/metrics.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session_private.h"

#define NS_PER_SEC UINT64_C(1000000000)

struct creation {
	struct service *service;
	struct session *session;
	struct claim *claim;
	char *key;
	char fingerprint[65];
	json_t *git;
	json_t *context; /* for the audit log, or NULL */
	int files_fd;    /* or -1 */
	session_cb *done;
	session_cb *replayed;
	void *ctx;
};

static void free_creation(struct creation *c)
{
	free(c->key);
	json_decref(c->git);
	json_decref(c->context);
	close_fdp(&c->files_fd);
	free(c);
}

static void refuse(struct creation *c, struct problem *problem)
{
	claim_end(TAKE(c->claim), -ECANCELED);
	/* One that is being deleted already goes that way. */
	if (c->session && !c->session->is_ending)
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
	if (s->is_draining)
		return problem_set(problem, "shutting_down", "the server is about to end");
	if (!s->host)
		return problem_set(problem, "store_unavailable", "the server is about to begin");
	return request_decide(r, s->settings, ret, problem);
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

void session_fill_expiry(struct session *session)
{
	struct session_row *row = &session->row;
	uint64_t now = clock_realtime_ns();
	uint64_t ttl = session->service->settings->session_ttl_sec;
	char at[DATE_SIZE + 1];

	row->expires_sec = STORE_NULL;
	session_set_text(&row->expires_at, NULL);
	if (ttl == 0)
		return;
	/* Whole seconds, so that what users are told is when it happens. */
	row->expires_sec = (int64_t)((now + NS_PER_SEC - 1) / NS_PER_SEC + ttl);
	date_format((uint64_t)row->expires_sec * NS_PER_SEC, at);
	session_set_text(&row->expires_at, at);
}

static void fill_times(struct session *session)
{
	char at[DATE_SIZE + 1];

	date_format(clock_realtime_ns(), at);
	session_set_text(&session->row.created_at, at);
	session_fill_expiry(session);
	session->kept_sec = session->row.expires_sec;
}

static void fill_row(
	struct session *session, const struct session_wish *wish, const struct policy *policy)
{
	const struct request *r = wish->request;
	struct session_row *row = &session->row;

	session_set_text(&row->user_id, wish->who->user_id);
	session_set_text(&row->spec_version, r->spec_version ? r->spec_version : "1.0");
	session_set_text(&row->runtime, policy->runtime);
	session_set_text(&row->base_image, r->base_image);
	session_set_text(&row->network_policy, policy->network_policy);
	session_set_text(&row->trust_level, policy->trust_level);
	row->env = r->env ? json_dumps(r->env, JSON_COMPACT) : NULL;
	row->labels = r->labels ? json_dumps(r->labels, JSON_COMPACT) : NULL;
	session_set_text(&row->policy_hash, session->service->policy_hash);
	session_set_text(&row->persona_id, r->persona_id);
	session_set_text(&row->workspace_id, r->workspace_id);
	session_set_text(&row->workspace_group_id, r->workspace_group_id);
	session_set_text(&row->scope_snapshot_id, r->scope_snapshot_id);
	session_set_text(&row->state, "active");
	session_set_text(&row->source, wish->source);
	row->cpu_limit = (double)policy->cpu_milli / 1000;
	row->memory_mb = (int64_t)policy->memory_mb;
	row->timeout_sec = (int64_t)policy->timeout_sec;
	row->uid = STORE_NULL;
	row->workspace_exec = policy->workspace_exec;
	session_set_text(&row->name, wish->name);
	session->workspace_bytes = policy->workspace_mb << 20;
	fill_times(session);
}

static void copy_row(struct session *session, const struct session_wish *wish)
{
	struct session_row *row = &session->row;

	row_copy(&session_table, row, &wish->like->row);
	session_set_text(&row->user_id, wish->who->user_id);
	session_set_text(&row->state, "active");
	session_set_text(&row->name, wish->name);
	session->workspace_bytes = wish->like->workspace_bytes;
	fill_times(session);
}

/* Its workspace is there by now. */
static void refuse_made(struct creation *c, struct problem *problem)
{
	struct service *s = c->service;

	if (!c->session->is_ending)
		s->runtime->drop_workspace(s->host, c->session->workspace);
	refuse(c, problem);
}

static void on_stored(void *ctx, int r)
{
	struct creation *c = ctx;
	struct session *session = c->session;
	struct service *s = c->service;
	struct problem problem = { 0 };

	s->n_pending--;
	if (r < 0) {
		(void)problem_set(&problem, "store_unavailable", "the session could not be stored");
		refuse_made(c, &problem);
	} else {
		session->is_stored = true; /* before those hear of it who sent the same key */
		claim_end(TAKE(c->claim), 0);
		session_past_forget(s, session->row.name, session->row.user_id);
		metrics_add(s->metrics, METRIC_SESSIONS_CREATED,
			METRICS_LABELS(session->row.runtime), 1);
		audit_session(s->audit, "sandbox.session.created", &session->row, TAKE(c->context));
		c->done(c->ctx, session, &problem);
		free_creation(c);
	}
	session->n_work--;
	session_check_ending(session);
}

static void store_new(struct creation *c)
{
	struct store_batch *b = store_batch_new(c->service->store);

	store_batch_insert(b, &session_table, &c->session->row);
	claim_store(c->claim, b);
	c->session->n_work++;
	c->service->n_pending++;
	store_commit(b, on_stored, c);
}

static void on_filled(void *ctx, struct session *session, struct problem *problem)
{
	struct creation *c = ctx;

	(void)session;
	if (problem->status) {
		refuse_made(c, problem);
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
	/* Others of the same user may have come while this one was made. */
	if (check_room(c->service, c->session->row.user_id, &problem) < 0) {
		refuse_made(c, &problem);
		return;
	}
	session_list(c->session);
	if (c->git)
		session_fetch_git(c->session, c->git, on_filled, c);
	else if (c->files_fd >= 0)
		session_restore_from(c->session, take_fd(&c->files_fd), on_filled, c);
	else
		store_new(c);
}

static void conflict(struct creation *c, const struct claim_answer *a)
{
	struct problem problem = { 0 };

	claim_conflict(a, c->key, &problem);
	refuse(c, &problem);
}

static void replay(struct creation *c, const char *id)
{
	struct session *before = session_find(c->service, id, NULL);
	struct problem problem = { 0 };

	if (!before || !session_is_open(before)) {
		(void)problem_set(&problem, "session_not_found", "the session of this key is gone");
		refuse(c, &problem);
		return;
	}
	session_free(TAKE(c->session));
	c->replayed(c->ctx, before, &problem);
	free_creation(c);
}

static void on_claim(void *ctx, const struct claim_answer *a)
{
	struct creation *c = ctx;
	struct problem problem = { 0 };

	if (a->outcome == CLAIM_NEW) {
		c->claim = a->claim;
		session_set_text(&c->session->row.id, a->object_id);
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

	*c = (struct creation){ .service = s, .files_fd = -1, .done = done, .ctx = ctx };
	if (wish->files_fd)
		c->files_fd = take_fd(wish->files_fd);
	c->replayed = wish->replayed ? wish->replayed : done;
	c->session = xnew(struct session);
	c->session->service = s;
	c->key = wish->idempotency_key ? xstrdup(wish->idempotency_key) : NULL;
	if ((!wish->like && decide(s, wish->request, &policy, &problem) < 0) ||
		service_check_space(s, &problem) < 0 ||
		check_room(s, wish->who->user_id, &problem) < 0) {
		refuse(c, &problem);
		return;
	}
	if (wish->like) {
		copy_row(c->session, wish);
	} else {
		fill_row(c->session, wish, &policy);
		if (c->key)
			request_fingerprint(
				wish->request, REQUEST_SESSION, s->settings, c->fingerprint);
		c->git = wish->request->git ? json_incref((json_t *)wish->request->git) : NULL;
		c->context = json_copy((json_t *)wish->request->context);
	}
	struct claim_request claim = {
		.endpoint = "sessions",
		.user = c->session->row.user_id,
		.key = c->key,
		.fingerprint = c->fingerprint,
	};
	claim_begin(s, &claim, on_claim, c);
}
