/* Requests of stateless revisions: each is whole by itself. What its headers say for those who
 * pass it on must be what its body says. */
#include <string.h>

#include "api/api.h"
#include "api/mcp.h"
#include "base/str.h"
#include "http/mirror.h"
#include "mcp/method.h"
#include "mcp/revision.h"
#include "rpc/rpc.h"

bool mcp_is_stateless(struct exchange *x, const json_t *json)
{
	const struct mcp_revision *header =
		mcp_revision_find(exchange_header(x, "mcp-protocol-version"));
	const char *version = mcp_meta_version(json_object_get(json, "params"));
	const struct mcp_revision *body = mcp_revision_find(version);

	/* A version that nobody knows can not be one with sessions, which is not said so. */
	return (header && header->is_stateless) || (version && (!body || body->is_stateless));
}

/* --- headers --- */

static void refuse_header(struct exchange *x, const json_t *id, const char *text)
{
	mcp_refuse(x, 400, id, MCP_HEADER_MISMATCH, text);
}

static bool has_version(struct exchange *x, const struct rpc_message *m)
{
	const char *header = exchange_header(x, "mcp-protocol-version");
	const char *version = mcp_meta_version(m->params);

	if (!version || (header && streq(header, version)))
		return true; /* without one in the body that is what is wrong */
	refuse_header(x, m->id, "Header mismatch: MCP-Protocol-Version is not what the body says");
	return false;
}

static bool has_method(struct exchange *x, const struct rpc_message *m)
{
	const char *header = exchange_header(x, "mcp-method");

	if (header && streq(header, m->method))
		return true;
	refuse_header(x, m->id, "Header mismatch: Mcp-Method is not what the body says");
	return false;
}

static bool has_name(struct exchange *x, const struct rpc_message *m, const struct method *method)
{
	const char *header = exchange_header(x, "mcp-name");
	const char *name = method->subject
				   ? json_string_value(json_object_get(m->params, method->subject))
				   : NULL;

	if (!method->subject || (header && name && mirror_equals(header, name)))
		return true;
	refuse_header(x, m->id, "Header mismatch: Mcp-Name is not what the body says");
	return false;
}

/* --- answers --- */

static bool has_room(struct mcp_door *d, struct exchange *x, const json_t *id)
{
	const struct mcp_session *s;
	size_t n = 0;

	LIST_FOREACH(s, &d->singles, link)
	n += streq(s->peer->who.user_id, api_who(x)->user_id);
	if (n < MCP_SINGLES_MAX && !d->is_closing)
		return true;
	exchange_set_header(x, "Retry-After", "1");
	mcp_refuse(x, d->is_closing ? 503 : 429, id, RPC_INTERNAL_ERROR,
		"too many requests are under way; wait for their answers");
	return false;
}

static void refuse_meta(
	struct exchange *x, const struct rpc_message *m, const struct rpc_fault *fault)
{
	if (fault->code == MCP_UNSUPPORTED_VERSION)
		mcp_refuse_version(x, m->id, mcp_meta_version(m->params));
	else
		mcp_refuse(x, 400, m->id, fault->code, fault->text);
}

/* Is it one that can be answered? If not, that was said. */
static bool check(struct exchange *x, const struct rpc_message *m, struct mcp_meta *ret)
{
	struct rpc_fault fault;

	if (!has_version(x, m))
		return false;
	if (mcp_meta_read(m->params, ret, &fault) < 0) {
		refuse_meta(x, m, &fault);
		return false;
	}
	if (!has_method(x, m))
		return false;
	const struct method *method = method_find(m->method, ret->revision);
	if (!method || !method->handle) {
		mcp_refuse(x, 404, m->id, RPC_METHOD_NOT_FOUND, "Method not found");
		return false;
	}
	return has_name(x, m, method) && has_room(api_of(x)->mcp, x, m->id);
}

void mcp_stateless_hear(struct exchange *x, const json_t *json, bool accepts_events)
{
	struct rpc_message m;
	struct rpc_fault fault;
	struct mcp_meta meta;

	if (rpc_parse(json, &m, &fault) < 0 || m.kind == RPC_RESPONSE) {
		mcp_refuse(x, 400, NULL, RPC_INVALID_REQUEST,
			"a message is one request or one notification");
		return;
	}
	if (m.kind == RPC_NOTIFICATION) {
		exchange_reply_bytes(x, 202, NULL, NULL, 0); /* of none is there anything to do */
		return;
	}
	if (check(x, &m, &meta))
		mcp_session_hear(
			mcp_session_new_single(api_of(x)->mcp, x, &meta), x, json, accepts_events);
}
