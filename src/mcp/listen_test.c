/* A client of a stateless revision, with a catalog of the test's own: one request, and what is
 * said because of it. */
#include "mcp/listen.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp_peer.h"
#include "mcp/revision.h"
#include "rpc/rpc.h"

#include "lib/test.h"

static void run_log(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_log(c, CALL_INFO, "t", json_string("quiet"));
	call_log(c, CALL_ERROR, "t", json_string("loud"));
	call_finish_tool(c, NULL, json_object(), false);
}

static void on_answer(struct call *c, const json_t *result, const json_t *error)
{
	(void)result;
	call_fail_tool(c, "%s", json_string_value(json_object_get(error, "message")));
}

static void run_ask(struct call *c, const json_t *arguments)
{
	(void)arguments;
	call_ask(c, "sampling", "sampling/createMessage", json_object(), on_answer);
}

static void do_read(struct call *c, const char *uri)
{
	call_fail(c, CALL_RESOURCE_NOT_FOUND, "not %s", uri);
}

static void do_subscribe(struct call *c, const char *uri)
{
	(void)uri;
	call_finish(c, NULL);
}

#define ANY "{\"type\":\"object\"}"
static const struct mcp_tool logs = { "log", "Log", "Logs", ANY, NULL, NULL, run_log };
static const struct mcp_tool asks = { "ask", "Ask", "Asks", ANY, NULL, NULL, run_ask };
static const struct mcp_tool *const tools[] = { &logs, &asks, NULL };
static const struct mcp_catalog catalog = { .name = "test",
	.title = "Test",
	.tools = tools,
	.read_resource = do_read,
	.subscribe = do_subscribe };

/* --- a client --- */

struct talk {
	struct mcp_host host;
	struct mcp_peer *peer;
	json_t *said;
	int n_dropped;
	int n_gone;
	int n_closed;
	bool is_single; /* it ends with its request */
	bool is_deaf;   /* nothing but answers can be delivered */
};

static bool on_send(void *ctx, json_t *message, void *origin, bool is_answer)
{
	struct talk *t = ctx;

	CHECK(origin == t); /* nothing belongs to no request */
	if (t->is_deaf && !is_answer) {
		json_decref(message);
		return false;
	}
	(void)json_array_append_new(t->said, message);
	return true;
}

static void on_drop(void *ctx, void *origin)
{
	struct talk *t = ctx;

	CHECK(origin == t);
	t->n_dropped++;
	if (t->is_single)
		mcp_peer_close(t->peer);
}

static void on_gone(void *ctx)
{
	((struct talk *)ctx)->n_gone++;
}

static void on_closed(void *ctx)
{
	((struct talk *)ctx)->n_closed++;
}

static const struct mcp_peer_ops ops = { on_send, on_drop, on_gone };

static void begin(struct talk *t, int log_level)
{
	struct identity who = { .user_id = "alice" };
	AUTO_JSON *can = json_pack("{s:{}}", "sampling");
	struct mcp_meta meta = { .capabilities = can, .log_level = log_level };

	meta.revision = mcp_revision_find("2026-07-28");
	*t = (struct talk){ .host = { .catalog = &catalog }, .said = json_array() };
	t->peer = mcp_peer_new(&t->host, &ops, t, &who, NULL);
	mcp_peer_meet(t->peer, &meta);
}

static void end(struct talk *t)
{
	if (!t->n_gone)
		mcp_peer_close(t->peer);
	CHECK_EQ(t->n_gone, 1);
	json_decref(t->host.schemas); /* which mcp_host_close() would do */
	json_decref(t->said);
}

static void ask(struct talk *t, const char *method, const char *params)
{
	AUTO_JSON *json = json_pack("{s:s,s:i,s:s,s:o}", "jsonrpc", "2.0", "id", 7, "method",
		method, "params", json_loads(params, 0, NULL));
	struct rpc_message m;
	struct rpc_fault fault;

	CHECK_EQ(rpc_parse(json, &m, &fault), 0);
	mcp_peer_hear(t->peer, &m, t, NULL);
}

/* The nth thing that was said, as text, has these words. */
static bool has(const struct talk *t, size_t n, const char *words)
{
	AUTO_FREE char *text =
		json_dumps(json_array_get(t->said, n), JSON_COMPACT | JSON_SORT_KEYS);

	return text && strstr(text, words);
}

/* --- the tests --- */

TEST(a_result_says_what_it_is_and_how_long_it_is_good)
{
	static const struct {
		const char *method;
		const char *params;
		const char *words;
	} rows[] = {
		{ "server/discover", "{}", "\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\"" },
		{ "server/discover", "{}", "\"cacheScope\":\"public\"" },
		{ "tools/list", "{}", "\"ttlMs\":300000" },
		{ "resources/list", "{}", "\"cacheScope\":\"private\"" },
		{ "resources/list", "{}", "\"ttlMs\":0" },
		{ "tools/call", "{\"name\":\"log\"}", "\"isError\":false,\"resultType\"" },
		{ "tools/call", "{\"name\":\"log\"}", "serverInfo\":{\"name\":\"test\"" },
		{ "resources/read", "{\"uri\":\"x\"}", "\"code\":-32602" },
		{ "tools/call", "{\"name\":\"none\"}", "\"code\":-32602" },
		{ "tools/call", "{\"name\":\"ask\"}", "can not do that" }, /* no questions */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t;

		begin(&t, -1);
		ask(&t, rows[i].method, rows[i].params);
		CHECK_EQ(json_array_size(t.said), 1);
		CHECK(has(&t, 0, rows[i].words));
		CHECK(has(&t, 0, "\"resultType\":\"complete\"") || has(&t, 0, "\"error\""));
		end(&t);
	}
}

TEST(methods_of_sessions_are_not_there)
{
	static const char *const rows[] = { "initialize", "ping", "logging/setLevel",
		"resources/subscribe", "resources/unsubscribe", "nonsense" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct talk t;

		begin(&t, -1);
		ask(&t, rows[i], "{\"uri\":\"x\",\"level\":\"info\"}");
		CHECK(has(&t, 0, "\"code\":-32601"));
		end(&t);
	}
}

TEST(logs_are_for_the_request_that_wants_them)
{
	struct talk t;

	begin(&t, CALL_WARNING);
	ask(&t, "tools/call", "{\"name\":\"log\"}");
	CHECK_EQ(json_array_size(t.said), 2);
	CHECK(has(&t, 0, "loud"));
	end(&t);
}

TEST(who_listens_hears_what_it_asked_for)
{
	struct talk t;

	begin(&t, -1);
	ask(&t, "subscriptions/listen",
		"{\"notifications\":{\"resourceSubscriptions\":[\"a\"],\"toolsListChanged\":true,"
		"\"promptsListChanged\":true}}");
	CHECK(has(&t, 0, "notifications/subscriptions/acknowledged"));
	CHECK(has(&t, 0, "\"notifications\":{\"resourceSubscriptions\":[\"a\"]}"));
	mcp_peer_tell_updated(&t.host, "alice", "b");
	mcp_peer_tell_updated(&t.host, "bob", "a");
	mcp_peer_tell_listed(&t.host, "alice");
	CHECK_EQ(json_array_size(t.said), 1);
	mcp_peer_tell_updated(&t.host, "alice", "a");
	CHECK(has(&t, 1, "\"uri\":\"a\""));
	for (size_t i = 0; i < 2; i++)
		CHECK(has(&t, i, "\"_meta\":{\"" MCP_META_SUBSCRIPTION "\":7}"));
	mcp_peer_cancel(t.peer);
	CHECK_EQ(t.n_dropped, 1);
	mcp_peer_tell_updated(&t.host, "alice", "a");
	CHECK_EQ(json_array_size(t.said), 2); /* there is nobody to tell */
	end(&t);
}

TEST(who_cancels_may_be_gone_at_once)
{
	struct talk t;

	begin(&t, -1);
	t.is_single = true;
	ask(&t, "subscriptions/listen", "{\"notifications\":{}}");
	mcp_peer_cancel(t.peer);
	CHECK_EQ(t.n_dropped, 1);
	CHECK_EQ(t.n_gone, 1);
	end(&t);
}

TEST(changes_of_the_list_are_told_to_who_wants_them)
{
	struct talk t;

	begin(&t, -1);
	ask(&t, "subscriptions/listen", "{\"notifications\":{\"resourcesListChanged\":true}}");
	mcp_peer_tell_listed(&t.host, "alice");
	CHECK(has(&t, 1, "notifications/resources/list_changed"));
	CHECK(has(&t, 1, "\"" MCP_META_SUBSCRIPTION "\":7"));
	end(&t); /* though it listens */
	begin(&t, -1);
	ask(&t, "subscriptions/listen", "{\"notifications\":{}}");
	mcp_host_close(&t.host, on_closed, &t);
	CHECK_EQ(t.n_closed, 1);
	end(&t);
}

TEST(what_can_not_be_listened_to_is_refused)
{
	static const char *const rows[] = { "{}", "{\"notifications\":7}",
		"{\"notifications\":{\"resourceSubscriptions\":\"a\"}}",
		"{\"notifications\":{\"resourceSubscriptions\":[7]}}" };
	struct talk t;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		begin(&t, -1);
		ask(&t, "subscriptions/listen", rows[i]);
		CHECK(has(&t, 0, "\"code\":-32602"));
		CHECK(!t.peer->listener);
		end(&t);
	}
	begin(&t, -1);
	t.is_deaf = true;
	ask(&t, "subscriptions/listen", "{\"notifications\":{}}");
	CHECK(has(&t, 0, "\"code\":-32600"));
	end(&t);
}

TESTS(UNIT(a_result_says_what_it_is_and_how_long_it_is_good),
	UNIT(methods_of_sessions_are_not_there), UNIT(logs_are_for_the_request_that_wants_them),
	UNIT(who_listens_hears_what_it_asked_for), UNIT(who_cancels_may_be_gone_at_once),
	UNIT(changes_of_the_list_are_told_to_who_wants_them),
	UNIT(what_can_not_be_listened_to_is_refused))
