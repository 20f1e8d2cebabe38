/* The protocol, with a catalog of the test's own and nothing behind it. */
#include "mcp/mcp_peer.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/revision.h"
#include "rpc/rpc.h"

#include "lib/test.h"

/* --- a catalog --- */

static struct call *held; /* a call that waits */
static int n_canceled;
static int n_abandoned;

static void run_echo(struct call *c, const json_t *arguments)
{
	call_finish_tool(c, NULL, json_deep_copy(arguments), false);
}

static void on_cancel(struct call *c)
{
	(void)c;
	n_canceled++;
}

static void on_abandon(struct call *c)
{
	n_abandoned++;
	held = NULL;
	call_fail_tool(c, "ended");
}

static void run_wait(struct call *c, const json_t *arguments)
{
	(void)arguments;
	held = c;
	c->cancel = on_cancel;
	c->abandon = on_abandon;
}

static void run_chat(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_progress(c, 1, 2, "half");
	call_progress(c, 1, 2, "not more");
	call_log(c, CALL_INFO, "t", json_string("quiet"));
	call_log(c, CALL_ERROR, "t", json_string("loud"));
	call_finish_tool(
		c, json_pack("[o,{s:s}]", call_text("x"), "type", "resource_link"), NULL, false);
}

static void run_draw(struct call *c, const json_t *arguments)
{
	json_t *content = json_pack("[o,{s:s,s:s,s:s}]", call_text("about"), "type", "image",
		"data", "AA==", "mimeType", "image/png");

	call_finish_tool(c, content, json_deep_copy(arguments), false);
}

static void on_answer(struct call *c, const json_t *result, const json_t *error)
{
	call_finish_tool(c, NULL,
		json_pack("{s:s}", "said",
			result ? json_string_value(json_object_get(result, "say"))
			       : json_string_value(json_object_get(error, "message"))),
		error != NULL);
}

static void run_ask(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_ask(c, "sampling", "sampling/createMessage", json_object(), on_answer);
}

#define ANY "{\"type\":\"object\"}"
static const struct mcp_tool echo = { "echo", "Echo", "Says it again",
	"{\"type\":\"object\",\"required\":[\"say\"]}", ANY, NULL, run_echo };
static const struct mcp_tool waits = { "wait", "Wait", "Waits", ANY, NULL, NULL, run_wait };
static const struct mcp_tool chat = { "chat", "Chat", "Chats", ANY, NULL, NULL, run_chat };
static const struct mcp_tool asks = { "ask", "Ask", "Asks", ANY, NULL, NULL, run_ask };
static const struct mcp_tool draw = { "draw", "Draw", "Draws", ANY, NULL, NULL, run_draw };
static const struct mcp_tool *const tools[] = { &echo, &waits, &chat, &asks, &draw, NULL };

static void get_prompt(struct call *c, const json_t *arguments)
{
	call_finish(c, json_pack("{s:O}", "messages", json_object_get(arguments, "who")));
}

static const struct mcp_prompt greet = { "greet", "Greet", "Greets",
	"[{\"name\":\"who\",\"required\":true}]", get_prompt };
static const struct mcp_prompt *const prompts[] = { &greet, NULL };

static void do_subscribe(struct call *c, const char *uri)
{
	mcp_peer_subscribe(c->peer, uri);
	call_finish(c, NULL);
}

static void do_read(struct call *c, const char *uri)
{
	call_fail(c, CALL_RESOURCE_NOT_FOUND, "not %s", uri);
}

static const struct mcp_catalog catalog = { .name = "test",
	.title = "Test",
	.tools = tools,
	.prompts = prompts,
	.read_resource = do_read,
	.subscribe = do_subscribe };

/* --- a client --- */

struct talk {
	struct mcp_host host;
	struct mcp_peer *peer;
	json_t *said; /* array of {message, is_answer, has_origin} */
	int n_dropped;
	int n_gone;
	bool is_deaf; /* nothing but answers can be delivered */
};

static bool on_send(void *ctx, json_t *message, void *origin, bool is_answer)
{
	struct talk *t = ctx;

	if (t->is_deaf && !is_answer) {
		json_decref(message);
		return false;
	}
	(void)json_array_append_new(
		t->said, json_pack("{s:o,s:b,s:b}", "message", message, "answer", is_answer,
				 "origin", origin != NULL));
	return true;
}

static void on_drop(void *ctx, void *origin)
{
	(void)origin;
	((struct talk *)ctx)->n_dropped++;
}

static void on_gone(void *ctx)
{
	((struct talk *)ctx)->n_gone++;
}

static const struct mcp_peer_ops ops = { on_send, on_drop, on_gone };

static void begin(struct talk *t)
{
	struct identity who = { .user_id = "alice" };

	*t = (struct talk){ .host = { .catalog = &catalog }, .said = json_array() };
	t->peer = mcp_peer_new(&t->host, &ops, t, &who, NULL);
	held = NULL;
	n_canceled = n_abandoned = 0;
}

static void end(struct talk *t)
{
	if (!t->n_gone)
		mcp_peer_close(t->peer);
	CHECK_EQ(t->n_gone, 1);
	json_decref(t->host.schemas); /* which mcp_host_close() would do */
	json_decref(t->said);
}

static void say(struct talk *t, const char *text)
{
	AUTO_JSON *json = NULL;
	struct rpc_message m;
	struct rpc_fault fault;

	CHECK_EQ(rpc_read(text, strlen(text), &json, &fault), 0);
	CHECK_EQ(rpc_parse(json, &m, &fault), 0);
	mcp_peer_hear(t->peer, &m, t, NULL);
}

static void ask(struct talk *t, const char *method, const char *params)
{
	char text[1024];

	(void)snprintf(text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":%s}", method, params);
	say(t, text);
}

/* The last that was said. */
static const json_t *last(const struct talk *t)
{
	size_t n = json_array_size(t->said);

	CHECK(n > 0);
	return json_object_get(json_array_get(t->said, n - 1), "message");
}

static int code_of(const struct talk *t)
{
	const json_t *error = json_object_get(last(t), "error");

	return (int)json_integer_value(json_object_get(error, "code"));
}

static const json_t *result_of(const struct talk *t)
{
	return json_object_get(last(t), "result");
}

static bool has(const json_t *json, const char *words)
{
	AUTO_FREE char *text = json_dumps(json, JSON_COMPACT);

	return text && strstr(text, words);
}

static void meet(struct talk *t, const char *version)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"{\"protocolVersion\":\"%s\",\"capabilities\":{\"sampling\":{}}}", version);
	ask(t, "initialize", text);
	CHECK(result_of(t) != NULL);
	say(t, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	CHECK_EQ(t->peer->stage, MCP_PEER_ACTIVE);
}

/* --- the tests --- */

TEST(versions_are_negotiated)
{
	static const char *const rows[][2] = {
		{ "2025-11-25", "2025-11-25" },
		{ "2025-06-18", "2025-06-18" },
		{ "2025-03-26", "2025-03-26" },
		{ "2024-11-05", "2025-11-25" },
		{ "2026-07-28", "2025-11-25" }, /* has no initialize */
		{ "2099-01-01", "2025-11-25" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t;

		begin(&t);
		meet(&t, rows[i][0]);
		CHECK_STR(t.peer->revision->name, rows[i][1]);
		end(&t);
	}
}

TEST(of_what_a_client_can_only_names_are_kept)
{
	struct talk t;

	begin(&t);
	ask(&t, "initialize",
		"{\"protocolVersion\":\"2025-11-25\",\"capabilities\":"
		"{\"roots\":{\"listChanged\":true},\"experimental\":{\"much\":{}}}}");
	CHECK_EQ(json_object_size(t.peer->capabilities), 1);
	CHECK_EQ(json_object_size(json_object_get(t.peer->capabilities, "roots")), 0);
	end(&t);
}

TEST(before_hello_only_hello_and_ping_are_answered)
{
	struct talk t;

	begin(&t);
	ask(&t, "tools/list", "{}");
	CHECK_EQ(code_of(&t), RPC_INVALID_REQUEST);
	ask(&t, "ping", "{}");
	CHECK(result_of(&t) != NULL);
	ask(&t, "initialize", "{\"capabilities\":{}}");
	CHECK_EQ(code_of(&t), RPC_INVALID_PARAMS);
	meet(&t, "2025-11-25");
	CHECK(has(json_array_get(t.said, 3), "\"subscribe\":true"));
	ask(&t, "initialize", "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}");
	CHECK_EQ(code_of(&t), RPC_INVALID_REQUEST);
	end(&t);
}

TEST(what_is_wrong_has_its_code)
{
	static const struct {
		const char *method;
		const char *params;
		int code;
	} rows[] = {
		{ "no/such", "{}", RPC_METHOD_NOT_FOUND },
		{ "notifications/cancelled", "{}", RPC_METHOD_NOT_FOUND },
		{ "ping", "[]", RPC_INVALID_PARAMS },
		{ "tools/list", "{\"cursor\":\"x\"}", RPC_INVALID_PARAMS },
		{ "tools/call", "{}", RPC_INVALID_PARAMS },
		{ "tools/call", "{\"name\":\"nobody\"}", RPC_INVALID_PARAMS },
		{ "logging/setLevel", "{\"level\":\"loud\"}", RPC_INVALID_PARAMS },
		{ "resources/read", "{}", RPC_INVALID_PARAMS },
		{ "resources/read", "{\"uri\":\"x:y\"}", CALL_RESOURCE_NOT_FOUND },
		{ "prompts/get", "{\"name\":\"nobody\"}", RPC_INVALID_PARAMS },
		{ "prompts/get", "{\"name\":\"greet\"}", RPC_INVALID_PARAMS },
		{ "prompts/get", "{\"name\":\"greet\",\"arguments\":{\"who\":1}}",
			RPC_INVALID_PARAMS },
		{ "completion/complete", "{\"ref\":{}}", RPC_INVALID_PARAMS },
	};
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ask(&t, rows[i].method, rows[i].params);
		CHECK_EQ(code_of(&t), rows[i].code);
	}
	end(&t);
}

TEST(lists_are_what_the_catalog_has)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/list", "{}");
	CHECK_EQ(json_array_size(json_object_get(result_of(&t), "tools")), 5);
	ask(&t, "resources/list", "{}");
	CHECK(has(result_of(&t), "\"resources\":[]"));
	ask(&t, "resources/templates/list", "{}");
	CHECK(has(result_of(&t), "\"resourceTemplates\":[]"));
	ask(&t, "prompts/list", "{}");
	CHECK(has(result_of(&t), "\"greet\""));
	ask(&t, "prompts/get", "{\"name\":\"greet\",\"arguments\":{\"who\":\"me\"}}");
	CHECK(has(result_of(&t), "\"messages\":\"me\""));
	ask(&t, "completion/complete",
		"{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"greet\"},"
		"\"argument\":{\"name\":\"who\",\"value\":\"\"}}");
	CHECK(has(result_of(&t), "\"values\":[]"));
	end(&t);
}

TEST(wrong_arguments_are_for_the_model_to_read)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"echo\",\"arguments\":{}}");
	CHECK(has(result_of(&t), "\"isError\":true"));
	CHECK(has(result_of(&t), "must have say"));
	ask(&t, "tools/call", "{\"name\":\"echo\",\"arguments\":{\"say\":\"x\"}}");
	CHECK(has(result_of(&t), "\"structuredContent\":{\"say\":\"x\"}"));
	CHECK(has(result_of(&t), "{\\\"say\\\":\\\"x\\\"}")); /* as text too */
	end(&t);
}

TEST(a_result_with_an_image_has_nothing_that_a_client_would_prefer_to_it)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"draw\",\"arguments\":{\"say\":\"x\"}}");
	CHECK(has(result_of(&t), "\"data\":\"AA==\""));
	CHECK(has(result_of(&t), "\"about\""));
	CHECK(!has(result_of(&t), "structuredContent"));
	end(&t);
}

TEST(progress_and_logs_are_told_to_who_wants_them)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	size_t n = json_array_size(t.said);
	ask(&t, "tools/call", "{\"name\":\"chat\"}");
	CHECK_EQ(json_array_size(t.said), n + 1);
	ask(&t, "logging/setLevel", "{\"level\":\"error\"}");
	ask(&t, "tools/call", "{\"name\":\"chat\",\"_meta\":{\"progressToken\":7}}");
	CHECK_EQ(json_array_size(t.said), n + 5);
	CHECK(has(json_array_get(t.said, n + 2), "\"progressToken\":7"));
	CHECK(has(json_array_get(t.said, n + 3), "loud"));
	CHECK(has(result_of(&t), "resource_link"));
	end(&t);
}

TEST(the_oldest_version_gets_no_links)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-03-26");
	ask(&t, "tools/call", "{\"name\":\"chat\"}");
	CHECK(!has(result_of(&t), "resource_link"));
	end(&t);
}

TEST(a_canceled_call_is_not_answered)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	size_t n = json_array_size(t.said);
	ask(&t, "tools/call", "{\"name\":\"wait\"}");
	say(&t, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		"\"params\":{\"requestId\":2}}");
	CHECK_EQ(n_canceled, 0);
	for (int i = 0; i < 2; i++)
		say(&t, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
			"\"params\":{\"requestId\":1}}");
	CHECK_EQ(n_canceled, 1);
	CHECK_EQ(t.n_dropped, 1);
	call_finish(held, NULL);
	CHECK_EQ(json_array_size(t.said), n);
	end(&t);
}

TEST(an_id_is_used_once_at_a_time_and_calls_are_counted)
{
	struct talk t;
	char text[160];
	struct call *calls[MCP_PEER_CALLS_MAX];

	begin(&t);
	meet(&t, "2025-11-25");
	for (unsigned i = 0; i < MCP_PEER_CALLS_MAX; i++) {
		(void)snprintf(text, sizeof(text),
			"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
			"\"params\":{\"name\":\"wait\"}}",
			i);
		say(&t, text);
		calls[i] = held;
	}
	say(&t, text);
	CHECK_EQ(code_of(&t), RPC_INVALID_REQUEST);
	say(&t, "{\"jsonrpc\":\"2.0\",\"id\":\"more\",\"method\":\"ping\"}");
	CHECK_EQ(code_of(&t), CALL_BUSY);
	for (unsigned i = 0; i < MCP_PEER_CALLS_MAX; i++)
		call_finish(calls[i], NULL);
	end(&t);
}

TEST(a_tool_can_ask_the_client)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"ask\"}");
	CHECK(has(last(&t), "\"method\":\"sampling/createMessage\""));
	say(&t, "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"say\":\"no\"}}");
	say(&t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"say\":\"yes\"}}");
	CHECK(has(result_of(&t), "\"said\":\"yes\""));
	t.is_deaf = true;
	ask(&t, "tools/call", "{\"name\":\"ask\"}");
	CHECK(has(result_of(&t), "can not be asked"));
	t.is_deaf = false;
	json_decref(t.peer->capabilities);
	t.peer->capabilities = json_object();
	ask(&t, "tools/call", "{\"name\":\"ask\"}");
	CHECK(has(result_of(&t), "can not do that"));
	end(&t);
}

TEST(who_goes_leaves_no_question_open)
{
	struct talk t;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"ask\"}");
	mcp_peer_close(t.peer);
	CHECK_EQ(t.n_gone, 1);
	end(&t);
}

TEST(subscribers_hear_of_their_own_and_are_limited)
{
	struct talk t;
	char text[96];

	begin(&t);
	meet(&t, "2025-11-25");
	for (unsigned i = 0; i < MCP_PEER_SUBSCRIPTIONS_MAX; i++) {
		(void)snprintf(text, sizeof(text), "{\"uri\":\"x:%u\"}", i);
		ask(&t, "resources/subscribe", text);
		CHECK(result_of(&t) != NULL);
	}
	ask(&t, "resources/subscribe", "{\"uri\":\"x:more\"}");
	CHECK_EQ(code_of(&t), RPC_INVALID_REQUEST);
	ask(&t, "resources/unsubscribe", "{\"uri\":\"x:1\"}");
	size_t n = json_array_size(t.said);
	mcp_peer_tell_updated(&t.host, "alice", "x:1");
	mcp_peer_tell_updated(&t.host, "bob", "x:2");
	CHECK_EQ(json_array_size(t.said), n);
	mcp_peer_tell_updated(&t.host, "alice", "x:2");
	CHECK(has(last(&t), "notifications/resources/updated"));
	mcp_peer_tell_listed(&t.host, "alice");
	CHECK(has(last(&t), "notifications/resources/list_changed"));
	end(&t);
}

static void on_closed(void *ctx)
{
	++*(int *)ctx;
}

TEST(the_end_of_all_waits_for_calls_and_hurries_them)
{
	struct talk t;
	int n_closed = 0;

	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"wait\"}");
	held->abandon = NULL; /* one that can not be hurried */
	mcp_host_close(&t.host, on_closed, &n_closed);
	CHECK_EQ(n_closed, 0);
	call_finish(held, NULL);
	CHECK_EQ(n_closed, 1);
	end(&t);
	begin(&t);
	meet(&t, "2025-11-25");
	ask(&t, "tools/call", "{\"name\":\"wait\"}");
	mcp_host_close(&t.host, on_closed, &n_closed);
	CHECK_EQ(n_abandoned, 1);
	CHECK_EQ(n_closed, 2);
	end(&t);
}

TESTS(UNIT(versions_are_negotiated), UNIT(before_hello_only_hello_and_ping_are_answered),
	UNIT(of_what_a_client_can_only_names_are_kept), UNIT(what_is_wrong_has_its_code),
	UNIT(lists_are_what_the_catalog_has), UNIT(wrong_arguments_are_for_the_model_to_read),
	UNIT(a_result_with_an_image_has_nothing_that_a_client_would_prefer_to_it),
	UNIT(progress_and_logs_are_told_to_who_wants_them), UNIT(the_oldest_version_gets_no_links),
	UNIT(a_canceled_call_is_not_answered),
	UNIT(an_id_is_used_once_at_a_time_and_calls_are_counted), UNIT(a_tool_can_ask_the_client),
	UNIT(who_goes_leaves_no_question_open), UNIT(subscribers_hear_of_their_own_and_are_limited),
	UNIT(the_end_of_all_waits_for_calls_and_hurries_them))
