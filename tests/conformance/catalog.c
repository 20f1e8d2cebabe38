/* The server that the conformance suite of MCP wants to meet: its tools, resources and prompts, in
 * place of ours. Linked with everything else of the program into `belljar-conformance`, which
 * is never installed. What it answers is what the suite's descriptions say. */
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "api/mcp.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "core/service.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp_peer.h"

#define STEP_MS 50

/* One red pixel, and no sound at all. */
#define PNG                                                                                            \
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg" \
	"gg=="
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define IMAGE      "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define SAYS(what) "{\"role\":\"user\",\"content\":" what "}"
#define NO_INPUT   "{\"type\":\"object\",\"additionalProperties\":false}"
#define ONE(name)                                                                                  \
	"{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\"}},"                \
	"\"required\":[\"" name "\"]}"

static json_t *load(const char *text)
{
	json_error_t why;
	json_t *json = json_loads(text, 0, &why);

	if (!json) {
		(void)fprintf(stderr, "%s: %s\n", why.text, text);
		abort();
	}
	return json;
}

static json_t *one_text(const char *text)
{
	return json_pack("[o]", call_text(text));
}

/* --- tools that always say the same --- */

static const struct {
	const char *name;
	bool is_error;
	const char *content;
} fixed[] = {
	{ "test_simple_text", false, "[" TEXT("This is a simple text response for testing.") "]" },
	{ "test_image_content", false, "[" IMAGE "]" },
	{ "test_audio_content", false,
		"[{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}]" },
	{ "test_embedded_resource", false,
		"[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\","
		"\"mimeType\":\"text/plain\",\"text\":\"This is an embedded resource content.\"}}]" },
	{ "test_multiple_content_types", false,
		"[" TEXT(
			"Multiple content types test:") "," IMAGE ",{\"type\":\"resource\","
							"\"resource\":{\"uri\":\"test://mixed-content-resource\",\"mimeType\":"
							"\"application/json\",\"text\":\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]" },
	{ "test_error_handling", true,
		"[" TEXT("This tool intentionally returns an error for testing") "]" },
	{ "json_schema_2020_12_tool", false, "[" TEXT("ok") "]" },
};

static void run_fixed(struct call *c, const json_t *arguments)
{
	(void)arguments;
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		if (streq(fixed[i].name, c->tool->name)) {
			call_finish_tool(c, load(fixed[i].content), NULL, fixed[i].is_error);
			return;
		}
	}
	call_fail_tool(c, "there is no such fixture");
}

/* --- tools that take their time, in three steps --- */

struct slow {
	uv_timer_t timer;
	struct call *call; /* NULL: it was let go of */
	void (*step)(struct call *c, unsigned n);
	unsigned n;
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void let_go(struct call *c)
{
	struct slow *s = c->work;

	s->call = NULL;
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
	call_fail_tool(c, "ended early");
}

static void on_step(uv_timer_t *timer)
{
	struct slow *s = timer->data;
	struct call *c = s->call;

	s->step(c, s->n++);
	if (s->n < 3)
		return;
	uv_close((uv_handle_t *)timer, on_timer_closed);
	c->cancel = c->abandon = NULL;
	call_finish_tool(c, one_text("done"), NULL, false);
}

static void start_slow(struct call *c, void (*step)(struct call *c, unsigned n), unsigned ms)
{
	struct slow *s = xnew(struct slow);

	s->call = c;
	s->step = step;
	(void)uv_timer_init(call_service(c)->loop, &s->timer);
	s->timer.data = s;
	c->work = s;
	c->cancel = c->abandon = let_go;
	(void)uv_timer_start(&s->timer, on_step, 0, ms);
}

static void tell_log(struct call *c, unsigned n)
{
	static const char *const texts[] = { "Tool execution started", "Tool processing data",
		"Tool execution completed" };

	call_log(c, CALL_INFO, "conformance", json_string(texts[n]));
}

static void tell_progress(struct call *c, unsigned n)
{
	call_progress(c, n * 50, 100, NULL);
}

/* An answer that takes this long is a stream by now; the client is to come back for the rest. */
static void disconnect(struct call *c, unsigned n)
{
	const struct mcp_post *post = c->origin;

	if (n == 1 && post->stream)
		mcp_stream_disconnect(post->stream);
}

static void run_with_logging(struct call *c, const json_t *arguments)
{
	(void)arguments;
	start_slow(c, tell_log, STEP_MS);
}

static void run_with_progress(struct call *c, const json_t *arguments)
{
	(void)arguments;
	start_slow(c, tell_progress, STEP_MS);
}

static void run_reconnection(struct call *c, const json_t *arguments)
{
	(void)arguments;
	start_slow(c, disconnect, MCP_PATIENCE_MS * 5 / 2);
}

/* --- tools that ask the client --- */

static void on_sampled(struct call *c, const json_t *result, const json_t *error)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(result, "content"), "text"));
	AUTO_FREE char *said = NULL;

	if (error || !text) {
		call_fail_tool(c, "the client does not sample");
		return;
	}
	if (asprintf(&said, "LLM response: %s", text) < 0)
		abort();
	call_finish_tool(c, one_text(said), NULL, false);
}

static void run_sampling(struct call *c, const json_t *arguments)
{
	json_t *params = json_pack("{s:[{s:s, s:{s:s, s:O}}], s:i}", "messages", "role", "user",
		"content", "type", "text", "text", json_object_get(arguments, "prompt"),
		"maxTokens", 100);

	call_ask(c, "sampling", "sampling/createMessage", params, on_sampled);
}

static void on_elicited(struct call *c, const json_t *result, const json_t *error)
{
	const char *action = json_string_value(json_object_get(result, "action"));
	const json_t *content = json_object_get(result, "content");
	AUTO_FREE char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	AUTO_FREE char *said = NULL;

	if (error || !action) {
		call_fail_tool(c, "the client does not elicit");
		return;
	}
	if (asprintf(&said, "Elicitation completed: action=%s, content=%s", action,
		    text ? text : "{}") < 0)
		abort();
	call_finish_tool(c, one_text(said), NULL, false);
}

#define STRING_OF(words) "{\"type\":\"string\"," words "}"
#define THREE            "[\"option1\",\"option2\",\"option3\"]"
#define TITLED                                                                                     \
	"[{\"const\":\"value1\",\"title\":\"First Option\"},"                                      \
	"{\"const\":\"value2\",\"title\":\"Second Option\"},"                                      \
	"{\"const\":\"value3\",\"title\":\"Third Option\"}]"

static const struct {
	const char *name;
	const char *schema;
} questions[] = {
	{ "test_elicitation",
		"{\"type\":\"object\",\"properties\":{"
		"\"username\":{\"type\":\"string\",\"description\":\"User's response\"},"
		"\"email\":{\"type\":\"string\",\"description\":\"User's email address\"}},"
		"\"required\":[\"username\",\"email\"]}" },
	{ "test_elicitation_sep1034_defaults",
		"{\"type\":\"object\",\"properties\":{"
		"\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},"
		"\"age\":{\"type\":\"integer\",\"default\":30},"
		"\"score\":{\"type\":\"number\",\"default\":95.5},"
		"\"status\":{\"type\":\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],"
		"\"default\":\"active\"},"
		"\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}" },
	{ "test_elicitation_sep1330_enums",
		"{\"type\":\"object\",\"properties\":{"
		"\"untitledSingle\":" STRING_OF(
			"\"enum\":" THREE) ","
					   "\"titledSingle\":" STRING_OF(
						   "\"oneOf\":" TITLED) ","
									"\"legacyEnum\":" STRING_OF(
										"\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":"
										"[\"Option One\",\"Option Two\",\"Option Three\"]") ","
																    "\"untitledMulti\":{\"type\":\"array\",\"items\":" STRING_OF(
																	    "\"enum\":" THREE) "},"
																			       "\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":" TITLED
																			       "}}},"
																			       "\"required\":[]}" },
};

static void run_elicitation(struct call *c, const json_t *arguments)
{
	const char *message = json_string_value(json_object_get(arguments, "message"));

	for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
		if (!streq(questions[i].name, c->tool->name))
			continue;
		call_ask(c, "elicitation", "elicitation/create",
			json_pack("{s:s, s:o}", "message", message ? message : "Please answer",
				"requestedSchema", load(questions[i].schema)),
			on_elicited);
		return;
	}
	call_fail_tool(c, "there is no such fixture");
}

#define TOOL(id, schema, does, says)                                                               \
	&(const struct mcp_tool)                                                                   \
	{                                                                                          \
		.name = id, .title = id, .description = says, .input_schema = schema, .run = does  \
	}

static const struct mcp_tool *const tools[] = {
	TOOL("test_simple_text", NO_INPUT, run_fixed, "Returns a text"),
	TOOL("test_image_content", NO_INPUT, run_fixed, "Returns an image"),
	TOOL("test_audio_content", NO_INPUT, run_fixed, "Returns a sound"),
	TOOL("test_embedded_resource", NO_INPUT, run_fixed, "Returns a resource"),
	TOOL("test_multiple_content_types", NO_INPUT, run_fixed, "Returns one of each"),
	TOOL("test_error_handling", NO_INPUT, run_fixed, "Fails"),
	TOOL("test_tool_with_logging", NO_INPUT, run_with_logging, "Logs while it runs"),
	TOOL("test_tool_with_progress", NO_INPUT, run_with_progress, "Tells how far it is"),
	TOOL("test_reconnection", NO_INPUT, run_reconnection, "Takes a while"),
	TOOL("test_sampling", ONE("prompt"), run_sampling, "Asks the client's model"),
	TOOL("test_elicitation", ONE("message"), run_elicitation, "Asks the user"),
	TOOL("test_elicitation_sep1034_defaults", NO_INPUT, run_elicitation, "Asks, with defaults"),
	TOOL("test_elicitation_sep1330_enums", NO_INPUT, run_elicitation, "Asks, with choices"),
	TOOL("json_schema_2020_12_tool",
		"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
		"\"$defs\":{\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":"
		"\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"
		"\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"}},"
		"\"additionalProperties\":false}",
		run_fixed, "Tool with JSON Schema 2020-12 features"),
	NULL,
};

/* --- resources --- */

static const struct {
	const char *uri;
	const char *type;
	const char *kind; /* "text" or "blob" */
	const char *content;
} resources[] = {
	{ "test://static-text", "text/plain", "text",
		"This is the content of the static text resource." },
	{ "test://static-binary", "image/png", "blob", PNG },
	{ "test://watched-resource", "text/plain", "text", "Watched." },
};

static void list_resources(struct call *c, const char *cursor)
{
	json_t *list = json_array();

	(void)cursor;
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
		(void)json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:s}", "uri", resources[i].uri, "name",
				      resources[i].uri + strlen("test://"), "description",
				      "A fixture", "mimeType", resources[i].type));
	call_finish(c, json_pack("{s:o}", "resources", list));
}

static void answer_content(
	struct call *c, const char *uri, const char *type, const char *kind, const char *content)
{
	call_finish(c, json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType", type,
			       kind, content));
}

/* test://template/{id}/data */
static bool read_template(struct call *c, const char *uri)
{
	const char *id = str_after(uri, "test://template/");
	const char *end = id ? strchr(id, '/') : NULL;
	AUTO_FREE char *text = NULL;

	if (!end || !streq(end, "/data"))
		return false;
	if (asprintf(&text,
		    "{\"id\":\"%.*s\",\"templateTest\":true,\"data\":\"Data for ID: %.*s\"}",
		    (int)(end - id), id, (int)(end - id), id) < 0)
		abort();
	answer_content(c, uri, "application/json", "text", text);
	return true;
}

static void read_resource(struct call *c, const char *uri)
{
	for (size_t i = 0; i < ARRAY_SIZE(resources); i++) {
		if (streq(resources[i].uri, uri)) {
			answer_content(
				c, uri, resources[i].type, resources[i].kind, resources[i].content);
			return;
		}
	}
	if (!read_template(c, uri))
		call_fail(c, CALL_RESOURCE_NOT_FOUND, "there is no such resource");
}

static void subscribe(struct call *c, const char *uri)
{
	mcp_peer_subscribe(c->peer, uri);
	call_finish(c, NULL);
}

/* --- prompts --- */

static void get_simple(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_finish(
		c, load("{\"messages\":[" SAYS(TEXT("This is a simple prompt for testing.")) "]}"));
}

static void get_with_image(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_finish(c, load("{\"messages\":[" SAYS(IMAGE) "," SAYS(
			       TEXT("Please analyze the image above.")) "]}"));
}

static void get_with_arguments(struct call *c, const json_t *arguments)
{
	AUTO_FREE char *text = NULL;

	if (asprintf(&text, "Prompt with arguments: arg1='%s', arg2='%s'",
		    json_string_value(json_object_get(arguments, "arg1")),
		    json_string_value(json_object_get(arguments, "arg2"))) < 0)
		abort();
	call_finish(c, json_pack("{s:[{s:s, s:o}]}", "messages", "role", "user", "content",
			       call_text(text)));
}

static void get_with_resource(struct call *c, const json_t *arguments)
{
	call_finish(
		c, json_pack("{s:[{s:s, s:{s:s, s:{s:O, s:s, s:s}}}, {s:s, s:o}]}", "messages",
			   "role", "user", "content", "type", "resource", "resource", "uri",
			   json_object_get(arguments, "resourceUri"), "mimeType", "text/plain",
			   "text", "Embedded resource content for testing.", "role", "user",
			   "content", call_text("Please process the embedded resource above.")));
}

#define PROMPT(id, wants, gets)                                                                    \
	&(const struct mcp_prompt)                                                                 \
	{                                                                                          \
		.name = id, .title = id, .description = "A fixture", .arguments = wants,           \
		.get = gets                                                                        \
	}
#define NEEDS(name) "{\"name\":\"" name "\",\"description\":\"Test argument\",\"required\":true}"

static const struct mcp_prompt *const prompts[] = {
	PROMPT("test_simple_prompt", "[]", get_simple),
	PROMPT("test_prompt_with_image", "[]", get_with_image),
	PROMPT("test_prompt_with_arguments", "[" NEEDS("arg1") "," NEEDS("arg2") "]",
		get_with_arguments),
	PROMPT("test_prompt_with_embedded_resource", "[" NEEDS("resourceUri") "]",
		get_with_resource),
	NULL,
};

static void complete(struct call *c, const json_t *ref, const json_t *argument)
{
	(void)ref;
	(void)argument;
	call_finish(c, load("{\"completion\":{\"values\":[\"paris\",\"park\",\"party\"],"
			    "\"total\":150,\"hasMore\":false}}"));
}

const struct mcp_catalog mcp_catalog = {
	.name = "belljar-conformance",
	.title = "Belljar, with the fixtures of the conformance suite",
	.tools = tools,
	.prompts = prompts,
	.templates = "[{\"uriTemplate\":\"test://template/{id}/data\",\"name\":\"template\","
		     "\"description\":\"A fixture\",\"mimeType\":\"application/json\"}]",
	.list_resources = list_resources,
	.read_resource = read_resource,
	.subscribe = subscribe,
	.complete = complete,
};
