#include "mcp/method.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/service.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/listen.h"
#include "mcp/mcp_peer.h"
#include "mcp/names.h"
#include "mcp/revision.h"
#include "mcp/shape.h"

#define LOGGED_MAX 64u /* bytes of the name of a session, as tools know them */

static const struct mcp_catalog *catalog_of(const struct call *c)
{
	return c->peer->host->catalog;
}

/* JSON of ours, as text. */
static json_t *load(const char *text)
{
	return json_loads(text, 0, NULL);
}

static const char *text_of(const json_t *params, const char *name)
{
	return json_string_value(json_object_get(params, name));
}

/* A page is all there is: whoever has a cursor did not get it from us. */
static bool has_wrong_cursor(struct call *c, const json_t *params)
{
	if (!json_object_get(params, "cursor"))
		return false;
	call_fail(c, RPC_INVALID_PARAMS, "cursor: there is no such page");
	return true;
}

/* --- from hello on --- */

static json_t *capabilities_of(const struct mcp_catalog *k)
{
	json_t *o = json_pack("{s:{}}", "logging");

	if (k->tools)
		(void)json_object_set_new(o, "tools", json_pack("{s:b}", "listChanged", false));
	if (k->read_resource)
		(void)json_object_set_new(o, "resources",
			json_pack("{s:b,s:b}", "subscribe", k->subscribe != NULL, "listChanged",
				true));
	if (k->prompts)
		(void)json_object_set_new(o, "prompts", json_pack("{s:b}", "listChanged", false));
	if (k->complete)
		(void)json_object_set_new(o, "completions", json_object());
	return o;
}

static void handle_initialize(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	struct mcp_peer *p = c->peer;
	const char *version = text_of(params, "protocolVersion");
	const struct mcp_revision *known = mcp_revision_find(version);
	struct mcp_meta meta = { .log_level = -1 };

	meta.capabilities = json_object_get(params, "capabilities");
	if (p->stage != MCP_PEER_NEW) {
		call_fail(c, RPC_INVALID_REQUEST, "this session is initialized already");
		return;
	}
	if (!version || !json_is_object(meta.capabilities)) {
		call_fail(c, RPC_INVALID_PARAMS,
			"initialize needs protocolVersion, a text, and capabilities, an object");
		return;
	}
	meta.revision = known && !known->is_stateless ? known : mcp_revision_with_sessions();
	mcp_peer_meet(p, &meta);
	json_t *result = json_pack("{s:s,s:o,s:{s:s,s:s,s:s}}", "protocolVersion",
		p->revision->name, "capabilities", capabilities_of(k), "serverInfo", "name",
		k->name, "title", k->title, "version", BELLJAR_VERSION);
	if (k->instructions)
		(void)json_object_set_new(result, "instructions", json_string(k->instructions));
	call_finish(c, result);
}

static void hear_initialized(struct mcp_peer *p, const json_t *params)
{
	(void)params;
	if (p->stage == MCP_PEER_MET)
		p->stage = MCP_PEER_ACTIVE;
}

static void handle_discover(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	json_t *result = json_pack("{s:o,s:o}", "supportedVersions", mcp_revision_names(),
		"capabilities", capabilities_of(k));

	(void)params;
	if (k->instructions)
		(void)json_object_set_new(result, "instructions", json_string(k->instructions));
	call_finish(c, result);
}

static void handle_ping(struct call *c, const json_t *params)
{
	(void)params;
	call_finish(c, NULL);
}

static void handle_level(struct call *c, const json_t *params)
{
	const char *name = text_of(params, "level");
	int level = name ? call_level_find(name) : -1;

	if (level < 0) {
		call_fail(c, RPC_INVALID_PARAMS,
			"level: debug, info, notice, warning, error, critical, alert or emergency");
		return;
	}
	c->peer->log_level = level;
	call_finish(c, NULL);
}

static void hear_cancelled(struct mcp_peer *p, const json_t *params)
{
	const json_t *id = json_object_get(params, "requestId");
	struct call *c;

	LIST_FOREACH(c, &p->calls, link)
	{
		if (!c->is_canceled && json_equal(c->id, id)) {
			call_be_canceled(c);
			return;
		}
	}
}

/* --- tools --- */

static void set_json(json_t *o, const char *name, const char *text)
{
	if (text)
		(void)json_object_set_new(o, name, load(text));
}

static json_t *tool_json(const struct mcp_tool *t)
{
	json_t *o = json_pack(
		"{s:s,s:s,s:s}", "name", t->name, "title", t->title, "description", t->description);

	set_json(o, "inputSchema", t->input_schema);
	set_json(o, "outputSchema", t->output_schema);
	set_json(o, "annotations", t->annotations);
	return o;
}

static void handle_tools(struct call *c, const json_t *params)
{
	const struct mcp_tool *const *tools = catalog_of(c)->tools;

	if (has_wrong_cursor(c, params))
		return;
	json_t *list = json_array();
	for (size_t i = 0; tools && tools[i]; i++)
		(void)json_array_append_new(list, tool_json(tools[i]));
	call_finish(c, json_pack("{s:o}", "tools", list));
}

static const struct mcp_tool *find_tool(const struct mcp_catalog *k, const char *name)
{
	for (size_t i = 0; name && k->tools && k->tools[i]; i++) {
		if (streq(k->tools[i]->name, name))
			return k->tools[i];
	}
	return NULL;
}

/* Read once: that takes longer than all else about a call but the tool itself. */
static const json_t *schema_of(struct mcp_host *host, const struct mcp_tool *t)
{
	if (!host->schemas)
		host->schemas = json_object();
	if (!json_object_get(host->schemas, t->name))
		(void)json_object_set_new(host->schemas, t->name, load(t->input_schema));
	return json_object_get(host->schemas, t->name);
}

/* Names that the tool does not have are refused, or left out with a warning. 0, or -1 when that was
 * answered. */
static int check_names(struct call *c, const json_t *schema, json_t **arguments)
{
	const struct service *s = call_service(c);
	bool warns = s && s->settings->unknown_warns;
	json_t *warnings = json_array();
	struct problem problem = { 0 };
	int r = names_check(schema, *arguments, warns, warnings, &problem);

	if (json_array_size(warnings) > 0) {
		json_t *known = names_known(schema, *arguments);

		json_decref(*arguments);
		*arguments = known;
		c->warnings = json_incref(warnings);
	}
	json_decref(warnings);
	if (r < 0)
		call_fail_tool(c, "%s: %s", c->tool->name, problem.message);
	problem_fini(&problem);
	return r;
}

/* What is wrong with its arguments is for the model to read, which can do better then. */
static void handle_tool(struct call *c, const json_t *params)
{
	const char *name = text_of(params, "name");
	json_t *given = json_object_get(params, "arguments");
	AUTO_JSON *none = json_object();
	struct err err = { 0 };

	c->tool = find_tool(catalog_of(c), name);
	if (!c->tool) {
		call_fail(c, RPC_INVALID_PARAMS, "Unknown tool: %.100s", name ? name : "");
		return;
	}
	const json_t *schema = schema_of(c->peer->host, c->tool);
	AUTO_JSON *arguments =
		shape_without_nulls(schema, given && !json_is_null(given) ? given : none);
	json_t *session_id = json_object_get(arguments, "session_id");
	if (json_is_string(session_id) && json_string_length(session_id) <= LOGGED_MAX)
		c->session_id = json_incref(session_id);
	if (check_names(c, schema, &arguments) < 0)
		return;
	if (shape_check(schema, arguments, &err) < 0)
		call_fail_tool(c, "%s: %s", c->tool->name, err.text);
	else
		c->tool->run(c, arguments);
}

/* --- resources --- */

static void handle_resources(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	const json_t *cursor = json_object_get(params, "cursor");

	if (cursor && !json_is_string(cursor))
		call_fail(c, RPC_INVALID_PARAMS, "cursor: there is no such page");
	else if (k->list_resources)
		k->list_resources(c, json_string_value(cursor));
	else if (!has_wrong_cursor(c, params))
		call_finish(c, json_pack("{s:[]}", "resources"));
}

static void handle_templates(struct call *c, const json_t *params)
{
	const char *text = catalog_of(c)->templates;

	if (!has_wrong_cursor(c, params))
		call_finish(c, json_pack("{s:o}", "resourceTemplates", load(text ? text : "[]")));
}

/* The URI that params name, or NULL when it was answered that there is none. */
static const char *uri_of(struct call *c, const json_t *params)
{
	const char *uri = text_of(params, "uri");

	if (uri && strlen(uri) <= MCP_PEER_URI_MAX)
		return uri;
	call_fail(c, RPC_INVALID_PARAMS, "uri: a text of at most %u bytes", MCP_PEER_URI_MAX);
	return NULL;
}

static void handle_read(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	const char *uri = uri_of(c, params);

	if (uri && k->read_resource)
		k->read_resource(c, uri);
	else if (uri)
		call_fail(c, CALL_RESOURCE_NOT_FOUND, "Resource not found");
}

static void handle_subscribe(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	struct mcp_peer *p = c->peer;
	const char *uri = uri_of(c, params);

	if (!uri)
		return;
	if (!k->subscribe) {
		call_fail(c, RPC_METHOD_NOT_FOUND, "nothing can be subscribed to");
		return;
	}
	if (p->n_subscriptions >= MCP_PEER_SUBSCRIPTIONS_MAX && !mcp_peer_is_subscribed(p, uri)) {
		call_fail(c, RPC_INVALID_REQUEST, "there are %u subscriptions already",
			MCP_PEER_SUBSCRIPTIONS_MAX);
		return;
	}
	k->subscribe(c, uri);
}

static void handle_unsubscribe(struct call *c, const json_t *params)
{
	const char *uri = uri_of(c, params);

	if (!uri)
		return;
	mcp_peer_unsubscribe(c->peer, uri);
	call_finish(c, NULL);
}

/* --- prompts and completion --- */

static json_t *prompt_json(const struct mcp_prompt *p)
{
	json_t *o = json_pack(
		"{s:s,s:s,s:s}", "name", p->name, "title", p->title, "description", p->description);

	set_json(o, "arguments", p->arguments);
	return o;
}

static void handle_prompts(struct call *c, const json_t *params)
{
	const struct mcp_prompt *const *prompts = catalog_of(c)->prompts;

	if (has_wrong_cursor(c, params))
		return;
	json_t *list = json_array();
	for (size_t i = 0; prompts && prompts[i]; i++)
		(void)json_array_append_new(list, prompt_json(prompts[i]));
	call_finish(c, json_pack("{s:o}", "prompts", list));
}

static const struct mcp_prompt *find_prompt(const struct mcp_catalog *k, const char *name)
{
	for (size_t i = 0; name && k->prompts && k->prompts[i]; i++) {
		if (streq(k->prompts[i]->name, name))
			return k->prompts[i];
	}
	return NULL;
}

/* The name of an argument that is required and not there, or is no text; or NULL. */
static const char *missing_argument(const json_t *declared, const json_t *arguments)
{
	size_t i;
	const json_t *item;

	json_array_foreach(declared, i, item)
	{
		const char *name = text_of(item, "name");
		const json_t *value = json_object_get(arguments, name);
		bool is_needed = json_is_true(json_object_get(item, "required"));

		if ((is_needed && !value) || (value && !json_is_string(value)))
			return name;
	}
	return NULL;
}

static void handle_prompt(struct call *c, const json_t *params)
{
	const struct mcp_prompt *p = find_prompt(catalog_of(c), text_of(params, "name"));
	const json_t *given = json_object_get(params, "arguments");
	AUTO_JSON *none = json_object();

	if (!p) {
		call_fail(c, RPC_INVALID_PARAMS, "Unknown prompt");
		return;
	}
	AUTO_JSON *declared = load(p->arguments ? p->arguments : "[]");
	const json_t *arguments = json_is_object(given) ? given : none;
	const char *missing = missing_argument(declared, arguments);
	AUTO_JSON *kept = missing ? json_string(missing) : NULL;
	if (missing)
		call_fail(c, RPC_INVALID_PARAMS, "the prompt needs the argument %s, a text",
			json_string_value(kept));
	else
		p->get(c, arguments);
}

static void handle_complete(struct call *c, const json_t *params)
{
	const struct mcp_catalog *k = catalog_of(c);
	const json_t *ref = json_object_get(params, "ref");
	const json_t *argument = json_object_get(params, "argument");

	if (!text_of(ref, "type") || !text_of(argument, "name") || !text_of(argument, "value"))
		call_fail(c, RPC_INVALID_PARAMS,
			"completion needs ref with a type, and argument with a name and a value");
	else if (k->complete)
		k->complete(c, ref, argument);
	else
		call_finish(c, json_pack("{s:{s:[]}}", "completion", "values"));
}

/* --- all of them --- */

/* Lists that are part of the program may be kept; what belongs to a user is asked for again. */
#define FIXED .cache_scope = "public", .cache_ms = 300000
#define OWN   .cache_scope = "private", .cache_ms = 0

static const struct method methods[] = {
	{ "initialize", METHOD_MET | METHOD_EARLY, handle_initialize, NULL },
	{ "server/discover", METHOD_STATELESS, handle_discover, NULL, FIXED },
	{ "ping", METHOD_MET | METHOD_EARLY, handle_ping, NULL },
	{ "logging/setLevel", METHOD_MET, handle_level, NULL },
	{ "tools/list", METHOD_ANY, handle_tools, NULL, FIXED },
	{ "tools/call", METHOD_ANY, handle_tool, NULL, .subject = "name" },
	{ "resources/list", METHOD_ANY, handle_resources, NULL, OWN },
	{ "resources/templates/list", METHOD_ANY, handle_templates, NULL, FIXED },
	{ "resources/read", METHOD_ANY, handle_read, NULL, .subject = "uri", OWN },
	{ "resources/subscribe", METHOD_MET, handle_subscribe, NULL },
	{ "resources/unsubscribe", METHOD_MET, handle_unsubscribe, NULL },
	{ "subscriptions/listen", METHOD_STATELESS, listen_handle, NULL },
	{ "prompts/list", METHOD_ANY, handle_prompts, NULL, FIXED },
	{ "prompts/get", METHOD_ANY, handle_prompt, NULL, .subject = "name" },
	{ "completion/complete", METHOD_ANY, handle_complete, NULL },
	{ "notifications/initialized", METHOD_MET | METHOD_EARLY, NULL, hear_initialized },
	{ "notifications/cancelled", METHOD_MET | METHOD_EARLY, NULL, hear_cancelled },
};

const struct method *method_find(const char *name, const struct mcp_revision *revision)
{
	unsigned kind = revision && revision->is_stateless ? METHOD_STATELESS : METHOD_MET;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		if (streq(methods[i].name, name))
			return methods[i].flags & kind ? &methods[i] : NULL;
	}
	return NULL;
}
