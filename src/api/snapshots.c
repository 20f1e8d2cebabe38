/* Snapshots of a session's files, and sessions made from others. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/fields.h"
#include "api/reply.h"
#include "api/sessions.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"

#define SNAPSHOTS_MAX 1000u /* in one answer; there are never as many */
#define BODY_MAX      4096u

/* --- POST /sessions/{id}/snapshot --- */

static void on_snapshot(void *ctx, const struct snapshot_row *row, struct problem *problem)
{
	if (problem->status) {
		reply_problem(ctx, problem);
		return;
	}
	reply_json(ctx, 200,
		json_pack("{s:s,s:s,s:s,s:I}", "snapshot_id", row->id, "session_id",
			row->session_id, "created_at", row->created_at, "size_bytes",
			(json_int_t)row->size_bytes));
}

static void handle_snapshot(struct exchange *x)
{
	struct session *session = sessions_find(x);

	if (session)
		session_snapshot(session, on_snapshot, x);
}

/* --- GET /sessions/{id}/snapshots --- */

static void on_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	const struct snapshot_row *row = rows;

	(void)total;
	if (r < 0) {
		reply_refusal(ctx, "store_unavailable", "the snapshots could not be listed");
		return;
	}
	json_t *items = json_array();
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(items,
			json_pack("{s:s,s:s,s:s,s:I}", "snapshot_id", row[i].id, "session_id",
				row[i].session_id, "created_at", row[i].created_at, "size_bytes",
				(json_int_t)row[i].size_bytes));
	reply_json(ctx, 200, json_pack("{s:o}", "items", items));
}

static void handle_list(struct exchange *x)
{
	const struct session *session = sessions_find(x);

	if (!session)
		return;
	struct query q = {
		.table = &snapshot_table,
		.filters = { { "session_id", FILTER_EQ, session->row.id, 0 } },
		.n_filters = 1,
		.sort = "created_ns",
		.descending = true,
		.limit = SNAPSHOTS_MAX,
	};
	store_list(api_of(x)->service->store, &q, on_rows, x);
}

/* --- POST /sessions/{id}/restore --- */

struct restoring {
	struct exchange *x;
	char snapshot_id[REQUEST_TEXT_MAX + 1];
};

static void on_restored(void *ctx, struct session *session, struct problem *problem)
{
	AUTO_FREE struct restoring *r = ctx;

	(void)session;
	if (problem->status)
		reply_problem(r->x, problem);
	else
		reply_json(r->x, 200,
			json_pack("{s:b,s:s}", "restored", true, "snapshot_id", r->snapshot_id));
}

static void handle_restore(struct exchange *x)
{
	static const char *const names[] = { "snapshot_id", NULL };
	AUTO_JSON *body = NULL;

	if (reply_read_json(x, &body) < 0 || fields_check_body(x, body, names) < 0)
		return;
	const json_t *id = json_object_get(body, "snapshot_id");
	if (!json_is_string(id) || json_string_length(id) == 0 ||
		json_string_length(id) > REQUEST_TEXT_MAX) {
		reply_field(x, PROBLEM_IN_BODY, "snapshot_id", "must be a text of 1 to %u bytes",
			REQUEST_TEXT_MAX);
		return;
	}
	struct session *session = sessions_find(x);
	if (!session)
		return;
	struct restoring *r = xnew(struct restoring);
	r->x = x;
	memcpy(r->snapshot_id, json_string_value(id), json_string_length(id));
	session_restore(session, r->snapshot_id, on_restored, r);
}

/* --- DELETE /sessions/{id}/snapshots/{snapshot} --- */

static void on_removed(void *ctx, bool removed, struct problem *problem)
{
	struct exchange *x = ctx;

	if (problem->status)
		reply_problem(x, problem);
	else
		reply_json(x, 200,
			json_pack("{s:b,s:s}", "ok", removed, "snapshot_id",
				exchange_param(x, "snapshot")));
}

static bool is_snapshot_id(const char *id)
{
	return strlen(id) <= REQUEST_TEXT_MAX &&
	       strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(id);
}

static void handle_remove(struct exchange *x)
{
	const char *id = exchange_param(x, "snapshot");
	struct session *session = sessions_find(x);

	if (!session)
		return;
	if (is_snapshot_id(id))
		session_remove_snapshot(session, id, on_removed, x);
	else /* no name of ours, and perhaps not even text */
		reply_json(x, 200, json_pack("{s:b,s:n}", "ok", false, "snapshot_id"));
}

/* --- POST /sessions/{id}/clone --- */

struct cloning {
	struct exchange *x;
	char from[UUID_SIZE + 1];
};

static void on_cloned(void *ctx, struct session *session, struct problem *problem)
{
	AUTO_FREE struct cloning *c = ctx;

	if (problem->status) {
		reply_problem(c->x, problem);
		return;
	}
	json_t *o = session_json(session);
	(void)json_object_set_new(o, "session_id", json_string(session->row.id));
	(void)json_object_set_new(o, "cloned_from", json_string(c->from));
	reply_json(c->x, 200, o);
}

/* -1 when it was answered; the name is NULL when none is asked for. */
static int read_clone_name(struct exchange *x, const json_t *body, const char **ret)
{
	const json_t *name = json_object_get(body, "new_session_name");

	if (body &&
		(!json_is_object(body) || (name && !json_is_string(name) && !json_is_null(name)))) {
		reply_field(x, PROBLEM_IN_BODY, "new_session_name", "must be a text");
		return -1;
	}
	*ret = json_string_value(name);
	if (!*ret || session_name_is_valid(*ret))
		return 0;
	reply_field(x, PROBLEM_IN_BODY, "new_session_name",
		"must be up to %u letters, digits, '_', '-' or '.', not begin with a dot, and be "
		"no id",
		SESSION_NAME_MAX);
	return -1;
}

static void handle_clone(struct exchange *x)
{
	static const char *const names[] = { "new_session_name", NULL };
	AUTO_JSON *body = NULL;
	const char *name = NULL;

	if (reply_read_optional_json(x, &body) < 0 || fields_check_body(x, body, names) < 0 ||
		read_clone_name(x, body, &name) < 0)
		return;
	struct session *session = sessions_find(x);
	if (!session)
		return;
	struct cloning *c = xnew(struct cloning);
	c->x = x;
	memcpy(c->from, session->row.id, sizeof(c->from));
	session_clone(session, api_who(x), name, on_cloned, c);
}

const struct route routes_snapshots[] = {
	{ "POST", API_BASE "/sessions/{id}/snapshot", ACCESS_USER, BODY_NONE, 0, handle_snapshot,
		"" },
	{ "GET", API_BASE "/sessions/{id}/snapshots", ACCESS_USER, BODY_NONE, 0, handle_list, "" },
	{ "POST", API_BASE "/sessions/{id}/restore", ACCESS_USER, BODY_MEMORY, BODY_MAX,
		handle_restore, "" },
	{ "POST", API_BASE "/sessions/{id}/clone", ACCESS_USER, BODY_MEMORY, BODY_MAX, handle_clone,
		"" },
	{ "DELETE", API_BASE "/sessions/{id}/snapshots/{snapshot}", ACCESS_USER, BODY_NONE, 0,
		handle_remove, "" },
	{ 0 },
};
