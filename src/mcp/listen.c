#include "mcp/listen.h"

#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp_peer.h"
#include "mcp/revision.h"

/* NULL, or what is wrong with the list of URIs to subscribe to. */
static const char *wrong_with(const json_t *uris)
{
	size_t i;
	const json_t *item;

	if (uris && !json_is_array(uris))
		return "resourceSubscriptions: an array of texts";
	if (json_array_size(uris) > MCP_PEER_SUBSCRIPTIONS_MAX)
		return "resourceSubscriptions: too many of them";
	json_array_foreach(uris, i, item)
	{
		if (!json_is_string(item) || json_string_length(item) > MCP_PEER_URI_MAX)
			return "resourceSubscriptions: a URI is a text, and not that long";
	}
	return NULL;
}

/* The part of the filter that is honored: tools and prompts never change here. A resource need
 * not be there yet. */
static json_t *agree(struct mcp_peer *p, const json_t *filter)
{
	json_t *uris = json_object_get(filter, "resourceSubscriptions");
	json_t *agreed = json_object();
	size_t i;
	const json_t *item;

	p->hears_lists = json_is_true(json_object_get(filter, "resourcesListChanged"));
	if (p->hears_lists)
		(void)json_object_set_new(agreed, "resourcesListChanged", json_true());
	if (!uris || !p->host->catalog->subscribe)
		return agreed;
	json_array_foreach(uris, i, item) mcp_peer_subscribe(p, json_string_value(item));
	(void)json_object_set(agreed, "resourceSubscriptions", uris);
	return agreed;
}

static void end_listening(struct call *c)
{
	call_finish(c, json_pack("{s:{s:O}}", "_meta", MCP_META_SUBSCRIPTION, c->id));
}

void listen_handle(struct call *c, const json_t *params)
{
	const json_t *filter = json_object_get(params, "notifications");
	const char *wrong = wrong_with(json_object_get(filter, "resourceSubscriptions"));

	if (!json_is_object(filter))
		wrong = "notifications: an object that says what is to be told";
	if (wrong) {
		call_fail(c, RPC_INVALID_PARAMS, "%s", wrong);
		return;
	}
	json_t *agreed = json_pack("{s:o}", "notifications", agree(c->peer, filter));
	c->peer->listener = c;
	c->cancel = c->abandon = end_listening;
	if (!call_tell_listener(c, "notifications/subscriptions/acknowledged", agreed)) {
		c->cancel = c->abandon = NULL;
		call_fail(c, RPC_INVALID_REQUEST, "who listens must take events");
	}
}
