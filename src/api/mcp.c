/* POST, GET and DELETE /mcp: the Streamable HTTP transport of MCP. Who may come in is the gate's
 * business, as everywhere. */
#include "api/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/links.h"
#include "api/reply.h"
#include "base/json.h"
#include "base/str.h"
#include "core/service.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/revision.h"
#include "rpc/rpc.h"

#define BODY_MAX HTTP_BODY_MAX

void mcp_refuse(struct exchange *x, int status, const json_t *id, int code, const char *text)
{
	exchange_reply_json(x, status, rpc_error(id, code, text, NULL));
}

void mcp_refuse_version(struct exchange *x, const json_t *id, const char *version)
{
	json_t *data =
		json_pack("{s:o,s:s}", "supported", mcp_revision_names(), "requested", version);

	exchange_reply_json(x, 400,
		rpc_error(id, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version", data));
}

void mcp_refuse_size(struct exchange *x)
{
	static const char words[] =
		"payload_too_large: a message has at most %u bytes, of which base64 needs four for "
		"three of a file; upload a larger file in parts and have code join them, or send "
		"it by POST " API_BASE "/sessions/{id}/files";
	char text[sizeof(words) + 20];

	(void)snprintf(text, sizeof(text), words, BODY_MAX);
	mcp_refuse(x, 413, NULL, RPC_INVALID_REQUEST, text);
}

/* --- headers --- */

/* Does an Accept header take this type? Without one, everything. Weights are not looked at. */
static bool accepts(const char *accept, const char *type)
{
	const char *slash = strchr(type, '/');
	size_t n_major = (size_t)(slash - type) + 1;

	for (const char *at = accept; at && *at;) {
		at += strspn(at, ", \t");
		size_t size = strcspn(at, ",; \t");
		bool is_any = size == 3 && memcmp(at, "*/*", 3) == 0;
		bool is_major = size == n_major + 1 && strncasecmp(at, type, n_major) == 0 &&
				at[n_major] == '*';

		if (is_any || is_major ||
			(size == strlen(type) && strncasecmp(at, type, size) == 0))
			return true;
		at += strcspn(at, ",");
	}
	return !accept;
}

static bool has_good_version(struct exchange *x)
{
	const char *version = exchange_header(x, "mcp-protocol-version");
	const struct mcp_revision *revision = mcp_revision_find(version);

	if (version && !revision) {
		mcp_refuse_version(x, NULL, version);
		return false;
	}
	if (version && revision->is_stateless) { /* all that comes by POST was sorted out */
		exchange_set_header(x, "Allow", "POST");
		mcp_refuse(x, 405, NULL, RPC_INVALID_REQUEST,
			"MCP-Protocol-Version: there is nothing but POST in this one");
		return false;
	}
	return true;
}

/* The session of this request, or NULL when it was answered that there is none. */
static struct mcp_session *find_session(struct exchange *x)
{
	const char *id = exchange_header(x, "mcp-session-id");

	if (!has_good_version(x))
		return NULL;
	if (!id) {
		mcp_refuse(x, 400, NULL, RPC_INVALID_REQUEST,
			"Mcp-Session-Id is missing: begin with initialize, whose answer has it");
		return NULL;
	}
	struct mcp_session *s = mcp_session_find(api_of(x)->mcp, id, api_who(x)->user_id);
	if (!s)
		mcp_refuse(
			x, 404, NULL, CALL_BUSY, "Session not found: begin with initialize again");
	return s;
}

/* --- POST --- */

static bool is_hello(const json_t *json)
{
	const char *method = json_string_value(json_object_get(json, "method"));

	return method && streq(method, "initialize") && json_object_get(json, "id");
}

/* A message that is none has a status that says so; a batch is answered one by one. */
static bool is_message(struct exchange *x, const json_t *json)
{
	struct rpc_message m;
	struct rpc_fault fault;

	if (json_is_array(json) || rpc_parse(json, &m, &fault) == 0)
		return true;
	mcp_refuse(x, 400, m.id, fault.code, fault.text);
	return false;
}

static void hear(struct exchange *x, const json_t *json)
{
	bool is_new = is_hello(json) && !exchange_header(x, "mcp-session-id");
	bool accepts_events = accepts(exchange_header(x, "accept"), "text/event-stream");
	struct mcp_session *s;

	if (mcp_is_stateless(x, json)) {
		mcp_stateless_hear(x, json, accepts_events);
		return;
	}
	if (is_new)
		s = has_good_version(x) ? mcp_session_new(api_of(x)->mcp, x) : NULL;
	else
		s = find_session(x);
	if (!s)
		return;
	if (json_is_array(json) && !(s->peer->revision && s->peer->revision->has_batches)) {
		mcp_refuse(x, 400, NULL, RPC_INVALID_REQUEST,
			"batches are only known to version 2025-03-26");
		return;
	}
	mcp_session_hear(s, x, json, accepts_events);
	if (is_new && s->peer->stage == MCP_PEER_NEW)
		mcp_session_end(s);
}

static void handle_post(struct exchange *x)
{
	const char *accept = exchange_header(x, "accept");
	const char *type = exchange_header(x, "content-type");
	AUTO_JSON *json = NULL;
	struct rpc_fault fault;
	size_t size;
	const char *text = exchange_body(x, &size);

	if (type && !reply_is_json(type))
		mcp_refuse(x, 415, NULL, RPC_INVALID_REQUEST,
			"Content-Type: a message is application/json");
	else if (!accepts(accept, "application/json") && !accepts(accept, "text/event-stream"))
		mcp_refuse(x, 406, NULL, RPC_INVALID_REQUEST,
			"Accept: an answer is application/json or text/event-stream");
	else if (rpc_read(text, size, &json, &fault) < 0)
		mcp_refuse(x, 400, NULL, fault.code, fault.text);
	else if (is_message(x, json))
		hear(x, json);
}

/* --- GET --- */

static size_t count_listening(const struct mcp_session *s)
{
	const struct mcp_stream *t;
	size_t n = 0;

	TAILQ_FOREACH(t, &s->streams, link)
	n += t->is_general && t->pipe;
	return n;
}

static void resume(struct mcp_session *s, struct exchange *x, const char *last)
{
	unsigned number;
	uint64_t seq;
	struct mcp_stream *t = NULL;

	if (mcp_stream_parse_id(last, &number, &seq))
		t = mcp_stream_find(s, number);
	if (!t)
		mcp_refuse(x, 400, NULL, RPC_INVALID_REQUEST,
			"Last-Event-ID: there is no such event any more");
	else
		mcp_stream_connect(t, x, seq);
}

static void handle_get(struct exchange *x)
{
	const char *last = exchange_header(x, "last-event-id");

	if (!accepts(exchange_header(x, "accept"), "text/event-stream")) {
		mcp_refuse(x, 406, NULL, RPC_INVALID_REQUEST,
			"Accept: what is served here is text/event-stream");
		return;
	}
	struct mcp_session *s = find_session(x);
	if (!s)
		return;
	s->used_ms = uv_now(s->door->timer.loop);
	if (last) {
		resume(s, x, last);
	} else if (count_listening(s) >= MCP_LISTENING_MAX) {
		exchange_set_header(x, "Retry-After", "1");
		mcp_refuse(x, 429, NULL, CALL_BUSY, "this session has too many streams");
	} else {
		struct mcp_stream *t = mcp_stream_new(s, true);

		mcp_stream_connect(t, x, UINT64_MAX);
		mcp_session_trim(s);
	}
}

/* --- DELETE --- */

static void handle_delete(struct exchange *x)
{
	struct mcp_session *s = find_session(x);

	if (!s)
		return;
	mcp_session_end(s);
	exchange_reply_bytes(x, 204, NULL, NULL, 0);
}

const struct route routes_mcp[] = {
	{ "POST", "/mcp", ACCESS_USER, BODY_MEMORY, BODY_MAX, handle_post },
	{ "GET", "/mcp", ACCESS_USER, BODY_NONE, 0, handle_get },
	{ "DELETE", "/mcp", ACCESS_USER, BODY_NONE, 0, handle_delete },
	{ 0 },
};

/* --- the door --- */

static char *stream_url(void *ctx, const struct run_row *row)
{
	return links_stream(ctx, row, 0);
}

struct mcp_door *mcp_door_open(struct api *api)
{
	struct mcp_door *d = xnew(struct mcp_door);

	d->api = api;
	d->host.service = api->service;
	d->host.catalog = &mcp_catalog;
	d->host.secret = api->signing_secret;
	d->host.stream_url = stream_url;
	d->host.ctx = api;
	(void)uv_timer_init(api->service->loop, &d->timer);
	d->timer.data = d;
	return d;
}

void mcp_door_end(struct mcp_door *d)
{
	d->is_closing = true;
	while (!LIST_EMPTY(&d->sessions))
		mcp_session_end(LIST_FIRST(&d->sessions));
	while (!LIST_EMPTY(&d->singles))
		mcp_session_end(LIST_FIRST(&d->singles));
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct mcp_door *d = handle->data;
	void (*done)(void *ctx) = d->done;
	void *ctx = d->ctx;

	free(d);
	done(ctx);
}

static void on_host_closed(void *ctx)
{
	struct mcp_door *d = ctx;

	uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

void mcp_door_close(struct mcp_door *d, void (*done)(void *ctx), void *ctx)
{
	mcp_door_end(d);
	d->done = done;
	d->ctx = ctx;
	mcp_host_close(&d->host, on_host_closed, d);
}
