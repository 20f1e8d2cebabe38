/* Finding and ending sessions, and finding them again after a restart. */
#include "core/session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/discard.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/errand.h"
#include "core/identity.h"
#include "core/kernel.h"
#include "core/metrics.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session_private.h"

#define NS_PER_SEC UINT64_C(1000000000)

/* The others have their turn in a second; nobody finds them any more. */
#define EXPIRE_AT_ONCE 64u

struct session *session_find(struct service *s, const char *id, const struct identity *who)
{
	for (struct session *i = s->sessions; i; i = i->next) {
		if (streq(i->row.id, id))
			return !who || streq(i->row.user_id, who->user_id) ? i : NULL;
	}
	return NULL;
}

void session_set_text(char **field, const char *value)
{
	char *copy = value ? xstrdup(value) : NULL;

	free(*field);
	*field = copy;
}

void session_list(struct session *session)
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

/* --- ending one --- */

struct ending {
	struct session *session;
	session_cb *done; /* NULL: nobody waits */
	void *ctx;
	uv_timer_t timer;
	bool keeps_artifacts; /* they have a time of their own */
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

void session_free(struct session *session)
{
	if (!session)
		return;
	unlink_session(session);
	session->is_gone = true;
	if (session->n_work > 0)
		return;
	if (session->ending) {
		(void)problem_set(
			&session->ending->problem, "shutting_down", "the server is about to end");
		tell_ending(session->ending);
	}
	kernel_forget(session);
	row_fini(&session_table, &session->row);
	free(session);
}

static void on_removed(void *ctx, int r)
{
	struct ending *e = ctx;
	struct service *s = e->session->service;

	s->n_pending--;
	if (r < 0) {
		/* It can be deleted again; but its files are gone. */
		e->session->is_ending = false;
		e->session->is_lost = true;
		(void)problem_set(
			&e->problem, "store_unavailable", "the session could not be removed");
	} else {
		session_free(e->session);
	}
	tell_ending(e);
}

/* All snapshots of the session; each has its row. */
/* The large ones first, which takes no time; then what else is there. */
static void remove_files(
	int dir_fd, const char *session_id, const struct snapshot_row *snapshots, size_t n)
{
	AUTO_FD own = openat(dir_fd, session_id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; own >= 0 && i < n; i++)
		(void)discard_file(own, snapshots[i].id);
	(void)fd_remove_tree(dir_fd, session_id);
}

static void on_snapshots(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct ending *e = ctx;
	struct session *session = e->session;
	struct service *s = session->service;
	const struct snapshot_row *snapshots = rows;
	struct store_batch *b = store_batch_new(s->store);
	char path[160];

	(void)total;
	if (r < 0) {
		store_batch_free(b);
		on_removed(e, r);
		return;
	}
	for (size_t i = 0; i < n; i++)
		store_batch_delete(b, &snapshot_table, &snapshots[i]);
	store_batch_delete(b, &session_table, &session->row);
	(void)snprintf(path, sizeof(path), "%s/snapshots", session->row.user_id);
	AUTO_FD dir = openat(s->data_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0)
		remove_files(dir, session->row.id, snapshots, n);
	audit_session(s->audit, "sandbox.session.deleted", &session->row, NULL);
	store_commit(b, on_removed, e);
}

static void on_cleared(void *ctx, int r)
{
	struct ending *e = ctx;
	struct session *session = e->session;
	struct service *s = session->service;
	struct query q = { .table = &snapshot_table, .n_filters = 1 };

	if (r < 0) {
		on_removed(e, r);
		return;
	}
	q.filters[0] = (struct filter){ .column = "session_id", .op = FILTER_EQ };
	q.filters[0].text = session->row.id;
	store_list(s->store, &q, on_snapshots, e);
}

static void remove_all(struct ending *e)
{
	struct session *session = e->session;
	struct service *s = session->service;

	session->ending = NULL;
	(void)uv_timer_stop(&e->timer);
	if (s->host)
		s->runtime->drop_workspace(s->host, session->workspace);
	s->n_pending++;
	if (e->keeps_artifacts)
		on_cleared(e, 0);
	else
		session_clear_artifacts(session, on_cleared, e);
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
	if (session->n_work > 0)
		return;
	if (session->is_gone)
		session_free(session);
	else if (session->ending && session->n_runs == 0 && !session->errand &&
		 !session->service->is_closing)
		remove_all(session->ending);
}

/* The store hears of it when it would be too early by a sixtieth. */
void session_touch(struct session *session)
{
	struct service *s = session->service;
	uint64_t ttl = s->settings->session_ttl_sec;

	if (ttl == 0 || session->is_ending || session->is_gone || !session->is_stored ||
		s->is_closing)
		return;
	session_fill_expiry(session);
	if ((uint64_t)(session->row.expires_sec - session->kept_sec) <= ttl / 60)
		return;
	struct store_batch *b = store_batch_new(s->store);
	store_batch_put(b, &session_table, &session->row);
	session->kept_sec = session->row.expires_sec;
	store_commit_patiently(b, NULL, NULL);
}

void session_leave(struct session *session)
{
	session->n_runs--;
	session_touch(session);
	session_check_ending(session);
}

static void refuse_deletion(session_cb *done, void *ctx)
{
	struct problem problem = { 0 };

	(void)problem_set(&problem, "session_not_found", "the session is being deleted");
	if (done)
		done(ctx, NULL, &problem);
	problem_fini(&problem);
}

/* What it does and what is done to it ends; that is heard of later, or it is over right away. */
static void hurry(struct session *session)
{
	session->n_work++;
	errand_cancel_all(session);
	for (struct run *r = session->service->runs, *next; r; r = next) {
		next = r->next;
		if (r->session == session)
			(void)run_cancel(r);
	}
	session->n_work--;
	session_check_ending(session);
}

static void begin_ending(struct session *session, const struct ending *how)
{
	struct service *s = session->service;
	struct ending *e = xnew(struct ending);

	*e = *how;
	e->session = session;
	(void)uv_timer_init(s->loop, &e->timer);
	e->timer.data = e;
	session->is_ending = true;
	session->ending = e;
	(void)uv_timer_start(&e->timer, on_drain_timeout, s->settings->session_drain_sec * 1000, 0);
	hurry(session);
}

void session_delete(struct session *session, session_cb *done, void *ctx)
{
	if (session->is_ending)
		refuse_deletion(done, ctx);
	else
		begin_ending(session, &(struct ending){ .done = done, .ctx = ctx });
}

/* What is under way keeps it, and makes its time begin anew. */
static bool is_expired(const struct session *session, uint64_t now_sec)
{
	return session->row.expires_sec != STORE_NULL &&
	       (uint64_t)session->row.expires_sec <= now_sec &&
	       session->n_runs <= kernel_is_idle(session) && !session->errand;
}

bool session_is_open(const struct session *session)
{
	return session->is_stored && !session->is_ending &&
	       !is_expired(session, clock_realtime_ns() / NS_PER_SEC);
}

void session_expire(struct service *s, uint64_t now_sec)
{
	size_t n = 0;

	for (struct session *i = s->sessions, *next; i && n < EXPIRE_AT_ONCE; i = next) {
		next = i->next;
		if (i->is_ending || !is_expired(i, now_sec))
			continue;
		log_info("session %s expired", i->row.id);
		session_past_add(i);
		begin_ending(i, &(struct ending){ .keeps_artifacts = true });
		n++;
	}
}

/* --- after a restart --- */

void session_recover(struct service *s, const struct session_row *row)
{
	struct session *session = xnew(struct session);

	session->service = s;
	row_copy(&session_table, &session->row, row);
	session->is_stored = true;
	session->is_inherited = true;
	session->kept_sec = row->expires_sec;
	uuid_to_hex(row->id, session->workspace);
	session_read_mark(session);
	struct policy policy = { 0 };
	struct policy_refusal refusal = { 0 };
	struct policy_request asked = { .trust_level = row->trust_level };
	if (policy_decide(s->settings, &asked, &policy, &refusal) < 0)
		policy_refusal_fini(&refusal);
	session->workspace_bytes =
		(policy.workspace_mb ? policy.workspace_mb : s->settings->workspace_cap_mb) << 20;
	session_list(session);
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
		if (i->mark)
			session_mend(i);
		if (i->is_lost)
			log_warn("session %s lost its files with the keeper", i->row.id);
		session_set_text(&i->row.state, i->is_lost ? "lost" : "active");
	}
}

/* --- as JSON --- */

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
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
	set(o, "name", json_text_or_null(row->name));
	set(o, "spec_version", json_text_or_null(row->spec_version));
	set(o, "runtime", json_text_or_null(row->runtime));
	set(o, "base_image", json_text_or_null(row->base_image));
	set(o, "cpu_limit", json_real(row->cpu_limit));
	set(o, "memory_mb", json_integer(row->memory_mb));
	set(o, "timeout_sec", json_integer(row->timeout_sec));
	set(o, "network_policy", json_text_or_null(row->network_policy));
	set(o, "env", object_of(row->env));
	set(o, "labels", object_of(row->labels));
	set(o, "trust_level", json_text_or_null(row->trust_level));
	set(o, "workspace_exec",
		row->workspace_exec == STORE_NULL ? json_null()
						  : json_boolean(row->workspace_exec));
	set(o, "created_at", json_text_or_null(row->created_at));
	set(o, "expires_at", json_text_or_null(row->expires_at));
	set(o, "policy_hash", json_text_or_null(row->policy_hash));
	set(o, "state", json_string(session->is_lost ? "lost" : "active"));
	set(o, "workspace_cap_mb", json_integer((json_int_t)(session->workspace_bytes >> 20)));
	set(o, "active_runs", json_integer((json_int_t)session->n_runs));
	set(o, "persona_id", json_text_or_null(row->persona_id));
	set(o, "workspace_id", json_text_or_null(row->workspace_id));
	set(o, "workspace_group_id", json_text_or_null(row->workspace_group_id));
	set(o, "scope_snapshot_id", json_text_or_null(row->scope_snapshot_id));
	return o;
}
