#include "mcp/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/mime.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/artifacts.h"
#include "mcp/call.h"
#include "mcp/contents.h"
#include "mcp/mcp_peer.h"
#include "mcp/resource_uri.h"
#include "mcp/tool.h"
#include "mcp/turns.h"

/* --- resources/list: session by session --- */

struct page {
	struct call *call;
	json_t *ids; /* of the user's sessions */
	size_t next; /* of them */
	json_t *list;
	json_t *cut; /* names of sessions that have more files than are listed */
};

static void go_on(struct page *p);

static void finish_page(struct page *p)
{
	struct call *c = p->call;
	json_t *result = json_pack("{s:o}", "resources", p->list);

	if (p->next < json_array_size(p->ids))
		(void)json_object_set(result, "nextCursor", json_array_get(p->ids, p->next));
	if (json_array_size(p->cut) > 0)
		(void)json_object_set_new(
			result, "_meta", json_pack("{s:O}", RESOURCES_META_CUT, p->cut));
	json_decref(p->ids);
	json_decref(p->cut);
	free(p);
	call_finish(c, result);
}

static json_t *resource_json(const struct session *session, const struct inventory_entry *e)
{
	AUTO_FREE char *uri = tool_uri(session, e->path);
	const char *mime = mime_of_name(e->path);
	json_t *o = json_pack(
		"{s:s,s:s,s:I}", "uri", uri, "name", e->path, "size", (json_int_t)e->size);

	if (o && mime)
		(void)json_object_set_new(o, "mimeType", json_string(mime));
	return o;
}

static void on_listed(void *ctx, struct inventory *listing, struct problem *problem)
{
	struct page *p = ctx;
	const char *id = json_string_value(json_array_get(p->ids, p->next - 1));
	const struct session *session = session_find(call_service(p->call), id, NULL);

	/* One whose files can not be looked at has none to show, which is said. */
	for (size_t i = 0; !problem->status && session && i < listing->n; i++) {
		if (artifacts_is_shown(&listing->at[i]))
			(void)json_array_append_new(
				p->list, resource_json(session, &listing->at[i]));
	}
	if (session && (problem->status || listing->is_cut))
		(void)json_array_append_new(p->cut, json_string(session_shown_id(session)));
	go_on(p);
}

static void go_on(struct page *p)
{
	struct service *s = call_service(p->call);
	struct session *session = NULL;

	if (json_array_size(p->list) < RESOURCES_PAGE && !p->call->is_canceled) {
		while (!session && p->next < json_array_size(p->ids)) {
			const char *id = json_string_value(json_array_get(p->ids, p->next++));

			session = session_find(s, id, &p->call->peer->who);
			if (session && !session_is_open(session))
				session = NULL;
		}
	}
	if (session)
		session_list_files(session, false, on_listed, p);
	else
		finish_page(p);
}

void resources_list(struct call *c, const char *cursor)
{
	json_t *ids = json_array();
	bool is_found = !cursor;

	for (const struct session *s = call_service(c)->sessions; s; s = s->next) {
		if (!streq(s->row.user_id, c->peer->who.user_id))
			continue;
		is_found = is_found || streq(s->row.id, cursor);
		if (is_found)
			(void)json_array_append_new(ids, json_string(s->row.id));
	}
	if (!is_found) {
		json_decref(ids);
		call_fail(c, RPC_INVALID_PARAMS, "cursor: there is no such page any more");
		return;
	}
	struct page *p = xnew(struct page);
	*p = (struct page){ .call = c, .ids = ids, .list = json_array(), .cut = json_array() };
	go_on(p);
}

/* --- resources/read --- */

struct reading {
	struct call *call;
	char *uri;
	char *path;
	char session_id[UUID_SIZE + 1];
};

/* The session of a URI, or NULL when it was answered that there is none. */
static struct session *find(struct call *c, const char *uri, struct resource_uri *ret)
{
	struct session *session = NULL;

	if (resource_uri_parse(uri, ret) == 0)
		session = session_find_named(call_service(c), ret->session, &c->peer->who);
	if (!session)
		call_fail(c, CALL_RESOURCE_NOT_FOUND, "Resource not found: %.300s", uri);
	return session;
}

static json_t *contents_json(const struct reading *r, const struct contents *file)
{
	json_t *o = json_pack("{s:s,s:s}", "uri", r->uri, "mimeType", file->mime);

	if (contents_is_text(file))
		(void)json_object_set_new(o, "text", json_stringn_nocheck(file->data, file->size));
	else
		(void)json_object_set_new(o, "blob", contents_base64(file));
	return json_pack("{s:[o]}", "contents", o);
}

static void fail_too_large(const struct reading *r)
{
	struct call *c = r->call;
	const struct session *session = session_find(call_service(c), r->session_id, NULL);
	AUTO_FREE char *url = session ? tool_download_url(c, session, r->path) : xstrdup("");

	call_fail(c, RPC_INVALID_PARAMS, "the file has more than %llu bytes; fetch it from %s",
		(unsigned long long)call_service(c)->settings->mcp_max_read_bytes, url);
}

static void reading_free(struct reading *r)
{
	free(r->uri);
	free(r->path);
	free(r);
}

static void on_turn(void *ctx, const struct session_file *file)
{
	struct reading *r = ctx;
	CLEANUP(contents_fini) struct contents contents = { 0 };

	if (contents_read(file, &contents) < 0)
		call_fail(r->call, RPC_INTERNAL_ERROR, "the file could not be read");
	else
		call_finish(r->call, contents_json(r, &contents));
	reading_free(r);
}

static void on_file(void *ctx, struct session_file *file, struct problem *problem)
{
	struct reading *r = ctx;
	struct call *c = r->call;
	uint64_t limit = call_service(c)->settings->mcp_max_read_bytes;

	if (!problem->status && file->size <= limit) {
		turns_wait(c->peer->host, file, on_turn, r);
		return;
	}
	if (problem->status == 404)
		call_fail(c, CALL_RESOURCE_NOT_FOUND, "Resource not found: %.300s", r->uri);
	else if (problem->status == 413 || !problem->status)
		fail_too_large(r);
	else
		call_fail(c, RPC_INTERNAL_ERROR, "%s: %s", problem->code, problem->message);
	reading_free(r);
}

void resources_read(struct call *c, const char *uri)
{
	struct resource_uri parsed;
	struct session *session = find(c, uri, &parsed);

	if (!session)
		return;
	struct reading *r = xnew(struct reading);
	*r = (struct reading){ .call = c, .uri = xstrdup(uri), .path = xstrdup(parsed.path) };
	memcpy(r->session_id, session->row.id, sizeof(r->session_id));
	session_get_file(session, parsed.path, on_file, r);
}

/* --- who wants to hear of them --- */

void resources_subscribe(struct call *c, const char *uri)
{
	struct resource_uri parsed;

	if (!find(c, uri, &parsed))
		return;
	mcp_peer_subscribe(c->peer, uri);
	call_finish(c, NULL);
}

void resources_tell(
	const struct call *c, const struct session *session, const struct inventory *listing)
{
	struct mcp_host *host = c->peer->host;
	const char *user_id = c->peer->who.user_id;
	bool is_any = false;

	for (size_t i = 0; i < listing->n; i++) {
		const struct inventory_entry *e = &listing->at[i];

		if (!e->is_changed || !artifacts_is_shown(e))
			continue;
		AUTO_FREE char *uri = tool_uri(session, e->path);
		mcp_peer_tell_updated(host, user_id, uri);
		is_any = true;
	}
	if (is_any)
		mcp_peer_tell_listed(host, user_id);
}
