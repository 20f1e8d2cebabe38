#include "rpc/rpc.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "lib/test.h"

/* Read and parse one; the JSON goes with `*ret_json`. */
static int parse(const char *text, json_t **ret_json, struct rpc_message *m, struct rpc_fault *f)
{
	int r = rpc_read(text, strlen(text), ret_json, f);

	return r < 0 ? r : rpc_parse(*ret_json, m, f);
}

TEST(requests_notifications_and_responses_are_told_apart)
{
	static const struct {
		const char *text;
		enum rpc_kind kind;
		bool has_id;
	} rows[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", RPC_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\",\"params\":[]}", RPC_REQUEST,
			true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}", RPC_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{}}", RPC_NOTIFICATION, false },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}", RPC_RESPONSE, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-1,\"message\":\"m\"}}",
			RPC_RESPONSE, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"m\"}}",
			RPC_RESPONSE, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *json = NULL;
		struct rpc_message m = { 0 };
		struct rpc_fault f = { 0 };

		CHECK_EQ(parse(rows[i].text, &json, &m, &f), 0);
		CHECK_EQ(m.kind, rows[i].kind);
		CHECK_EQ(m.id != NULL, rows[i].has_id);
	}
}

TEST(what_is_no_message_is_refused_with_its_id)
{
	static const struct {
		const char *text;
		int code;
		bool has_id;
	} rows[] = {
		{ "", RPC_PARSE_ERROR, false },
		{ "{", RPC_PARSE_ERROR, false },
		{ "{\"id\":1,\"id\":2}", RPC_PARSE_ERROR, false },
		{ "7", RPC_PARSE_ERROR, false },
		{ "\"x\"", RPC_PARSE_ERROR, false },
		{ "[]", RPC_INVALID_REQUEST, false },
		{ "{}", RPC_INVALID_REQUEST, false },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}", RPC_INVALID_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", RPC_INVALID_REQUEST, false },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"x\"}", RPC_INVALID_REQUEST,
			false },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", RPC_INVALID_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", RPC_INVALID_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":1}",
			RPC_INVALID_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST, true },
		{ "{\"jsonrpc\":\"2.0\",\"result\":1}", RPC_INVALID_REQUEST, false },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":1,\"error\":{}}", RPC_INVALID_REQUEST,
			true },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}", RPC_INVALID_REQUEST,
			true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *json = NULL;
		struct rpc_message m = { 0 };
		struct rpc_fault f = { 0 };

		CHECK_EQ(parse(rows[i].text, &json, &m, &f), -EBADMSG);
		CHECK(f.code == rows[i].code || f.code == RPC_INVALID_REQUEST);
		CHECK(f.text[0] != '\0');
		CHECK_EQ(m.id != NULL, rows[i].has_id);
	}
}

TEST(names_ids_batches_and_depth_have_limits)
{
	struct rpc_fault f = { 0 };
	struct rpc_message m = { 0 };
	char text[2048];

	for (int over = 0; over <= 1; over++) {
		AUTO_JSON *json = NULL;

		(void)snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"method\":\"%0*d\"}",
			(int)RPC_METHOD_MAX + over, 0);
		CHECK_EQ(parse(text, &json, &m, &f), over ? -EBADMSG : 0);
	}
	for (int over = 0; over <= 1; over++) {
		AUTO_JSON *json = NULL;

		(void)snprintf(text, sizeof(text),
			"{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"x\"}",
			(int)RPC_ID_MAX + over, 0);
		CHECK_EQ(parse(text, &json, &m, &f), over ? -EBADMSG : 0);
	}
	for (size_t over = 0; over <= 1; over++) {
		AUTO_JSON *json = NULL;
		size_t n = RPC_BATCH_MAX + over;

		for (size_t i = 0; i < n; i++)
			memcpy(text + 1 + 2 * i, "1,", 2);
		text[0] = '[';
		text[2 * n] = ']';
		CHECK_EQ(rpc_read(text, 2 * n + 1, &json, &f), over ? -EBADMSG : 0);
	}
	AUTO_JSON *deep = NULL;
	memset(text, '[', 1000);
	CHECK_EQ(rpc_read(text, 1000, &deep, &f), -EBADMSG);
	CHECK_EQ(f.code, RPC_PARSE_ERROR);
}

TEST(what_is_written_can_be_read)
{
	AUTO_JSON *id = json_string("x");
	AUTO_JSON *list = json_pack("[o,o,o,o,o]", rpc_result(id, NULL),
		rpc_error(id, RPC_INVALID_PARAMS, "no", json_object()),
		rpc_error(NULL, RPC_PARSE_ERROR, "\xff", NULL),
		rpc_request(id, "ask", json_object()), rpc_notification("tell", NULL));
	static const enum rpc_kind kinds[] = { RPC_RESPONSE, RPC_RESPONSE, RPC_RESPONSE,
		RPC_REQUEST, RPC_NOTIFICATION };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct rpc_message m = { 0 };
		struct rpc_fault f = { 0 };

		CHECK_EQ(rpc_parse(json_array_get(list, i), &m, &f), 0);
		CHECK_EQ(m.kind, kinds[i]);
	}
}

TESTS(UNIT(requests_notifications_and_responses_are_told_apart),
	UNIT(what_is_no_message_is_refused_with_its_id),
	UNIT(names_ids_batches_and_depth_have_limits), UNIT(what_is_written_can_be_read))
