/* Tools for sessions as a whole: session_info and close_session. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session.h"
#include "lang/lang.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"
#include "mcp/tool.h"

/* --- close_session --- */

static void on_closed(void *ctx, struct session *session, struct problem *problem)
{
	struct call *c = ctx;

	(void)session;
	if (problem->status) {
		call_refuse_tool(c, problem);
		return;
	}
	mcp_peer_tell_listed(c->peer->host, c->peer->who.user_id);
	call_finish_tool(c, NULL, json_pack("{s:s}", "status", "closed"), false);
}

static void close_session(struct call *c, const json_t *arguments)
{
	struct session *session = tool_find_session(c, arguments);

	if (session)
		session_delete(session, on_closed, c);
}

/* --- session_info --- */

static json_t *info_of(const struct session *session)
{
	static const char *const same[] = { "base_image", "cpu_limit", "memory_mb", "timeout_sec",
		"network_policy", "created_at", "expires_at", "state", "workspace_cap_mb",
		"active_runs" };
	AUTO_JSON *all = session_json(session);
	json_t *o = json_pack("{s:s,s:s,s:s}", "session_id", session_shown_id(session), "id",
		session->row.id, "path", TOOL_DATA);

	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		(void)json_object_set(o, same[i], json_object_get(all, same[i]));
	return o;
}

static json_t *languages(void)
{
	json_t *list = json_array();

	for (const struct lang *l = langs; l->name; l++) {
		if (lang_check(l, NULL) == 0)
			(void)json_array_append_new(list, json_string(l->name));
	}
	return list;
}

static void session_info(struct call *c, const json_t *arguments)
{
	json_t *list;

	if (json_object_get(arguments, "session_id")) {
		const struct session *session = tool_find_session(c, arguments);

		if (!session)
			return;
		list = json_pack("[o]", info_of(session));
	} else {
		list = json_array();
		for (const struct session *s = call_service(c)->sessions; s; s = s->next) {
			if (session_is_open(s) && streq(s->row.user_id, c->peer->who.user_id))
				(void)json_array_append_new(list, info_of(s));
		}
	}
	call_finish_tool(
		c, NULL, json_pack("{s:o,s:o}", "sessions", list, "languages", languages()), false);
}

/* --- the rows --- */

const struct mcp_tool tool_session_info = {
	.name = "session_info",
	.title = "About sessions",
	.description = "What a session has: its limits, when it expires, whether something runs in "
		       "it; or, without session_id, all sessions of yours. Also which languages "
		       "run_code knows here.",
	.input_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"additionalProperties\":false,"
			"\"properties\":{\"session_id\":{\"type\":\"string\",\"minLength\":1,"
			"\"maxLength\":64}}}",
	.output_schema =
		"{" SCHEMA_DIALECT ",\"type\":\"object\",\"required\":[\"sessions\",\"languages\"],"
		"\"properties\":{\"sessions\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
		"\"required\":[\"session_id\",\"id\",\"path\",\"state\"],\"properties\":{"
		"\"session_id\":{\"type\":\"string\"},\"id\":{\"type\":\"string\"},"
		"\"path\":{\"type\":\"string\"},\"state\":{\"type\":\"string\"},"
		"\"expires_at\":{\"type\":[\"string\",\"null\"]}}}},"
		"\"languages\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}}",
	.annotations = TOOL_READS,
	.run = session_info,
};

const struct mcp_tool tool_close_session = {
	.name = "close_session",
	.title = "Close a session",
	.description = "End a session: what runs in it is stopped, and its files are gone. Fetch "
		       "what is to be kept before.",
	.input_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"additionalProperties\":false,"
			"\"required\":[\"session_id\"],\"properties\":{" SCHEMA_SESSION_ID "}}",
	.output_schema = "{" SCHEMA_DIALECT ",\"type\":\"object\",\"required\":[\"status\"],"
			 "\"properties\":{\"status\":{\"type\":\"string\",\"enum\":[\"closed\"]}}}",
	.annotations = TOOL_CHANGES,
	.run = close_session,
};
