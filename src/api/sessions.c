/* Sessions: made, looked at, listed, deleted. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/page.h"
#include "api/reply.h"
#include "api/sessions.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"

struct session *sessions_find(struct exchange *x)
{
	const char *id = exchange_param(x, "id");
	struct session *session = session_find_named(api_of(x)->service, id, api_who(x));

	if (session)
		return session;
	reply_refusal(x, "session_not_found", "there is no such session");
	return NULL;
}

/* --- POST /sessions --- */

static void reply_session(struct exchange *x, const struct session *session, bool is_replay)
{
	json_t *o = session_json(session);

	idempotency_tell(x, o, is_replay);
	reply_json(x, 200, o);
}

static void on_session(void *ctx, struct session *session, struct problem *problem)
{
	if (problem->status)
		reply_problem(ctx, problem);
	else
		reply_session(ctx, session, false);
}

static void on_replayed(void *ctx, struct session *session, struct problem *problem)
{
	(void)problem;
	reply_session(ctx, session, true);
}

static void handle_create(struct exchange *x)
{
	AUTO_JSON *body = NULL;
	struct request request;
	const char *key;

	if (idempotency_read_key(x, &key) < 0 || reply_read_json(x, &body) < 0)
		return;
	if (fields_read_request(x, body, REQUEST_SESSION, &request) < 0)
		return;
	struct session_wish wish = {
		.request = &request,
		.who = api_who(x),
		.idempotency_key = key,
		.source = "rest",
		.replayed = on_replayed,
	};
	session_create(api_of(x)->service, &wish, on_session, x);
	request_fini(&request);
}

/* --- GET /sessions, GET /sessions/{id} --- */

static void handle_list(struct exchange *x)
{
	const char *user = api_who(x)->user_id;
	struct page page;
	uint64_t n = 0;

	if (page_read(x, &page) < 0)
		return;
	json_t *items = json_array();
	for (const struct session *s = api_of(x)->service->sessions; s; s = s->next) {
		if (!session_is_open(s) || !streq(s->row.user_id, user))
			continue;
		if (n >= page.offset && json_array_size(items) < page.limit)
			(void)json_array_append_new(items, session_json(s));
		n++;
	}
	reply_json(x, 200, page_json(&page, n, items));
}

static void handle_get(struct exchange *x)
{
	const struct session *session = sessions_find(x);

	if (session)
		reply_json(x, 200, session_json(session));
}

/* --- DELETE /sessions/{id} --- */

static void on_deleted(void *ctx, struct session *session, struct problem *problem)
{
	(void)session;
	if (problem->status)
		reply_problem(ctx, problem);
	else
		reply_json(ctx, 200, json_pack("{s:b}", "ok", true));
}

static void handle_delete(struct exchange *x)
{
	struct session *session = sessions_find(x);

	if (session)
		session_delete(session, on_deleted, x);
}

/* A patch of a repository may be part of the body. */
#define BODY_MAX (2u << 20)

const struct route routes_sessions[] = {
	{ "POST", API_BASE "/sessions", ACCESS_USER, BODY_MEMORY, BODY_MAX, handle_create, "" },
	{ "GET", API_BASE "/sessions", ACCESS_USER, BODY_NONE, 0, handle_list, "limit offset" },
	{ "GET", API_BASE "/sessions/{id}", ACCESS_USER, BODY_NONE, 0, handle_get, "" },
	{ "DELETE", API_BASE "/sessions/{id}", ACCESS_USER, BODY_NONE, 0, handle_delete, "" },
	{ 0 },
};
