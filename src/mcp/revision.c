#include "mcp/revision.h"

#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/call.h"
#include "rpc/rpc.h"

static const struct mcp_revision revisions[] = {
	{ .name = "2026-07-28",
		.is_stateless = true,
		.has_links = true,
		.not_found = RPC_INVALID_PARAMS },
	{ .name = "2025-11-25",
		.has_links = true,
		.has_first_event = true,
		.not_found = CALL_RESOURCE_NOT_FOUND },
	{ .name = "2025-06-18", .has_links = true, .not_found = CALL_RESOURCE_NOT_FOUND },
	{ .name = "2025-03-26", .has_batches = true, .not_found = CALL_RESOURCE_NOT_FOUND },
};

const struct mcp_revision *mcp_revision_find(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(revisions); i++) {
		if (streq(revisions[i].name, name))
			return &revisions[i];
	}
	return NULL;
}

const struct mcp_revision *mcp_revision_with_sessions(void)
{
	size_t i = 0;

	while (revisions[i].is_stateless)
		i++;
	return &revisions[i];
}

json_t *mcp_revision_names(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(revisions); i++)
		(void)json_array_append_new(list, json_string(revisions[i].name));
	return list;
}

/* --- of a request --- */

const char *mcp_meta_version(const json_t *params)
{
	const json_t *meta = json_object_get(params, "_meta");

	return json_string_value(json_object_get(meta, MCP_META_VERSION));
}

static int fail(struct rpc_fault *fault, int code, const char *text)
{
	fault->code = code;
	(void)snprintf(fault->text, sizeof(fault->text), "%s", text);
	return -EBADMSG;
}

int mcp_meta_read(const json_t *params, struct mcp_meta *ret, struct rpc_fault *fault)
{
	const json_t *meta = json_object_get(params, "_meta");
	const json_t *level = json_object_get(meta, MCP_META_LOG_LEVEL);
	const char *version = mcp_meta_version(params);

	*ret = (struct mcp_meta){ .log_level = -1 };
	if (!version)
		return fail(fault, RPC_INVALID_PARAMS,
			"params._meta needs " MCP_META_VERSION ", a text");
	ret->revision = mcp_revision_find(version);
	if (!ret->revision || !ret->revision->is_stateless)
		return fail(fault, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version");
	ret->capabilities = json_object_get(meta, MCP_META_CAPABILITIES);
	if (!json_is_object(ret->capabilities))
		return fail(fault, RPC_INVALID_PARAMS,
			"params._meta needs " MCP_META_CAPABILITIES ", an object");
	if (!level)
		return 0;
	ret->log_level = json_is_string(level) ? call_level_find(json_string_value(level)) : -1;
	if (ret->log_level < 0)
		return fail(fault, RPC_INVALID_PARAMS, "params._meta: there is no such log level");
	return 0;
}
