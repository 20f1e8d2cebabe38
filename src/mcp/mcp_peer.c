#include "mcp/mcp_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/call.h"
#include "mcp/method.h"
#include "mcp/revision.h"

struct mcp_peer *mcp_peer_new(struct mcp_host *host, const struct mcp_peer_ops *ops, void *ctx,
	const struct identity *who, const char *base)
{
	struct mcp_peer *p = xnew(struct mcp_peer);

	p->host = host;
	p->ops = ops;
	p->ctx = ctx;
	p->who = *who;
	p->log_level = -1;
	if (base && strlen(base) < sizeof(p->base))
		(void)snprintf(p->base, sizeof(p->base), "%s", base);
	LIST_INSERT_HEAD(&host->peers, p, link);
	return p;
}

/* Those that we may make use of, by name: what else a client says here may be of any size. */
static void keep_capabilities(struct mcp_peer *p, const json_t *can)
{
	static const char *const known[] = { "sampling", "elicitation", "roots" };

	p->capabilities = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (json_object_get(can, known[i]))
			(void)json_object_set_new(p->capabilities, known[i], json_object());
	}
}

void mcp_peer_meet(struct mcp_peer *p, const struct mcp_meta *meta)
{
	p->revision = meta->revision;
	keep_capabilities(p, meta->capabilities);
	p->log_level = meta->log_level;
	p->hears_lists = !meta->revision->is_stateless;
	p->stage = meta->revision->is_stateless ? MCP_PEER_ACTIVE : MCP_PEER_MET;
}

/* --- its end --- */

static void check_host(struct mcp_host *host)
{
	if (host->is_closing && LIST_EMPTY(&host->peers) && host->closed) {
		void (*closed)(void *ctx) = TAKE(host->closed);

		json_decref(TAKE(host->schemas));
		closed(host->closed_ctx);
	}
}

void mcp_peer_check_gone(struct mcp_peer *p)
{
	struct mcp_host *host = p->host;

	if (!p->is_closing || p->n_calls > 0)
		return;
	while (!LIST_EMPTY(&p->subscriptions))
		mcp_peer_unsubscribe(p, LIST_FIRST(&p->subscriptions)->uri);
	LIST_REMOVE(p, link);
	json_decref(p->capabilities);
	p->ops->gone(p->ctx);
	free(p);
	check_host(host);
}

/* Nobody will answer what we asked. */
static void give_up_questions(struct mcp_peer *p)
{
	AUTO_JSON *error =
		json_pack("{s:i,s:s}", "code", CALL_BUSY, "message", "the client is gone");

	while (!LIST_EMPTY(&p->questions)) {
		AUTO_FREE struct question *q = LIST_FIRST(&p->questions);

		LIST_REMOVE(q, link);
		q->answered(q->call, NULL, error);
	}
}

void mcp_peer_close(struct mcp_peer *p)
{
	if (p->is_closing)
		return;
	p->n_calls++; /* so that it is there until we return */
	p->is_closing = true;
	give_up_questions(p);
	if (p->listener && !p->listener->is_canceled) /* it would never end */
		call_be_abandoned(p->listener);
	p->n_calls--;
	mcp_peer_check_gone(p);
}

static void each_call(struct mcp_peer *p, void (*act)(struct call *c))
{
	p->n_calls++;
	for (struct call *c = LIST_FIRST(&p->calls), *next; c; c = next) {
		next = LIST_NEXT(c, link);
		act(c);
	}
	p->n_calls--;
	mcp_peer_check_gone(p);
}

void mcp_peer_cancel(struct mcp_peer *p)
{
	each_call(p, call_be_canceled);
}

void mcp_host_close(struct mcp_host *host, void (*closed)(void *ctx), void *ctx)
{
	host->is_closing = true;
	for (struct mcp_peer *p = LIST_FIRST(&host->peers), *next; p; p = next) {
		next = LIST_NEXT(p, link);
		p->is_closing = true;
		give_up_questions(p);
		each_call(p, call_be_abandoned);
	}
	host->closed = closed;
	host->closed_ctx = ctx;
	check_host(host);
}

/* --- what it wants to hear of --- */

static struct subscription *find_subscription(const struct mcp_peer *p, const char *uri)
{
	struct subscription *s;

	LIST_FOREACH(s, &p->subscriptions, link)
	{
		if (streq(s->uri, uri))
			return s;
	}
	return NULL;
}

bool mcp_peer_is_subscribed(const struct mcp_peer *p, const char *uri)
{
	return find_subscription(p, uri) != NULL;
}

void mcp_peer_subscribe(struct mcp_peer *p, const char *uri)
{
	size_t size = strlen(uri) + 1;

	if (find_subscription(p, uri))
		return;
	struct subscription *s = xcalloc(1, sizeof(*s) + size);
	memcpy(s->uri, uri, size);
	LIST_INSERT_HEAD(&p->subscriptions, s, link);
	p->n_subscriptions++;
}

void mcp_peer_unsubscribe(struct mcp_peer *p, const char *uri)
{
	struct subscription *s = find_subscription(p, uri);

	if (!s)
		return;
	LIST_REMOVE(s, link);
	p->n_subscriptions--;
	free(s);
}

/* What belongs to no request; takes `params`, an object or NULL. */
static void tell(struct mcp_peer *p, const char *method, json_t *params)
{
	bool needs_listener = p->revision && p->revision->is_stateless;

	if (p->is_closing || p->stage == MCP_PEER_NEW || (needs_listener && !p->listener))
		json_decref(params);
	else if (p->listener)
		(void)call_tell_listener(p->listener, method, params);
	else
		(void)p->ops->send(p->ctx, rpc_notification(method, params), NULL, false);
}

void mcp_peer_tell_updated(struct mcp_host *host, const char *user_id, const char *uri)
{
	struct mcp_peer *p;

	LIST_FOREACH(p, &host->peers, link)
	{
		if (streq(p->who.user_id, user_id) && find_subscription(p, uri))
			tell(p, "notifications/resources/updated", json_pack("{s:s}", "uri", uri));
	}
}

void mcp_peer_tell_listed(struct mcp_host *host, const char *user_id)
{
	struct mcp_peer *p;

	LIST_FOREACH(p, &host->peers, link)
	{
		if (streq(p->who.user_id, user_id) && p->hears_lists)
			tell(p, "notifications/resources/list_changed", NULL);
	}
}

/* --- what it says --- */

static void hear_response(struct mcp_peer *p, const struct rpc_message *m)
{
	struct question *q;

	LIST_FOREACH(q, &p->questions, link)
	{
		if (json_is_integer(m->id) && (uint64_t)json_integer_value(m->id) == q->id)
			break;
	}
	if (!q)
		return; /* to what was given up, or never asked */
	LIST_REMOVE(q, link);
	q->answered(q->call, m->result, m->error);
	free(q);
}

static bool is_under_way(const struct mcp_peer *p, const json_t *id)
{
	const struct call *c;

	LIST_FOREACH(c, &p->calls, link)
	{
		if (!c->is_canceled && json_equal(c->id, id))
			return true;
	}
	return false;
}

/* Why it is not answered, or 0. */
static int refusal_of(const struct mcp_peer *p, const struct method *method,
	const struct rpc_message *m, const char **ret_text)
{
	if (is_under_way(p, m->id)) {
		*ret_text = "a request with this id is under way";
		return RPC_INVALID_REQUEST;
	}
	if (p->n_calls >= MCP_PEER_CALLS_MAX) {
		*ret_text = "too many requests are under way; wait for their answers";
		return CALL_BUSY;
	}
	if (!method || !method->handle) {
		*ret_text = "there is no such method";
		return RPC_METHOD_NOT_FOUND;
	}
	if (p->stage == MCP_PEER_NEW && !(method->flags & METHOD_EARLY)) {
		*ret_text = "the first request must be initialize";
		return RPC_INVALID_REQUEST;
	}
	if (json_is_array(m->params)) {
		*ret_text = "params must be an object";
		return RPC_INVALID_PARAMS;
	}
	return 0;
}

static void hear_request(
	struct mcp_peer *p, const struct rpc_message *m, void *origin, const char *trace_id)
{
	const struct method *method = method_find(m->method, p->revision);
	const char *text = NULL;
	int code = refusal_of(p, method, m, &text);

	if (code) {
		(void)p->ops->send(p->ctx, rpc_error(m->id, code, text, NULL), origin, true);
		return;
	}
	struct call *c = call_begin(p, method, m, origin);
	AUTO_JSON *none = json_object();
	if (trace_id)
		(void)snprintf(c->trace_id, sizeof(c->trace_id), "%s", trace_id);
	method->handle(c, m->params ? m->params : none);
}

void mcp_peer_hear(
	struct mcp_peer *p, const struct rpc_message *m, void *origin, const char *trace_id)
{
	const struct method *method = m->method ? method_find(m->method, p->revision) : NULL;
	AUTO_JSON *none = json_object();

	if (p->is_closing)
		return;
	if (m->kind == RPC_RESPONSE)
		hear_response(p, m);
	else if (m->kind == RPC_REQUEST)
		hear_request(p, m, origin, trace_id);
	else if (method && method->hear && !json_is_array(m->params))
		method->hear(p, m->params ? m->params : none);
}
