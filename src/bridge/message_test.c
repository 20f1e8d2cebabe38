#include "bridge/message.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/test.h"

static int parse(const char *text, struct message *m)
{
	return message_parse(text, strlen(text), m, NULL);
}

TEST(messages_are_told_apart)
{
	static const struct {
		const char *text;
		int want;
		enum message_kind kind;
		bool has_id;
	} rows[] = {
		{ "{\"id\":1,\"method\":\"ping\"}", 0, MESSAGE_REQUEST, true },
		{ "{\"id\":\"a\",\"method\":\"initialize\"}", 0, MESSAGE_REQUEST, true },
		{ "{\"method\":\"notifications/initialized\"}", 0, MESSAGE_NOTIFICATION, false },
		{ "{\"id\":1,\"result\":{}}", 0, MESSAGE_RESPONSE, true },
		{ "{\"id\":null,\"error\":{}}", 0, MESSAGE_RESPONSE, false },
		{ "[{\"id\":1,\"method\":\"ping\"}]", 0, MESSAGE_BATCH, false },
		{ "{\"id\":1}", -EINVAL, 0, true },
		{ "{\"id\":null,\"method\":\"ping\"}", -EINVAL, 0, false },
		{ "{\"id\":{},\"method\":\"ping\"}", -EINVAL, 0, false },
		{ "[]", -EINVAL, 0, false },
		{ "7", -EINVAL, 0, false },
		{ "{", -EBADMSG, 0, false },
		{ "{\"id\":1,\"method\":\"a\\u0000\"}", -EBADMSG, 0, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct message m = { 0 };

		CHECK_EQ(parse(rows[i].text, &m), rows[i].want);
		CHECK_EQ(m.id != NULL, rows[i].has_id);
		if (rows[i].want == 0)
			CHECK_EQ(m.kind, rows[i].kind);
		CHECK_EQ(m.is_initialize, strstr(rows[i].text, "\"initialize\"") != NULL);
		CHECK_EQ(m.is_initialized, strstr(rows[i].text, "/initialized") != NULL);
		message_fini(&m);
	}
}

TEST(a_cancellation_names_its_request)
{
	struct message m = { 0 };

	CHECK_EQ(parse("{\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}", &m),
		0);
	CHECK_EQ(json_integer_value(m.cancels), 7);
	message_fini(&m);
}

TEST(errors_are_said_in_one_line)
{
	AUTO_FREE char *line = message_error(NULL, MESSAGE_PARSE_ERROR, "a \"word\"");
	static const struct {
		int status;
		const char *body;
		const char *want;
	} rows[] = {
		{ 401, "{\"detail\":\"no key\"}", "no key (HTTP 401)" },
		{ 400, "{\"error\":{\"message\":\"bad\"}}", "bad (HTTP 400)" },
		{ 502, "<html>", "the server answered with HTTP 502" },
	};

	CHECK_STR(line, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
			"\"message\":\"a \\\"word\\\"\"}}");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *text =
			message_explain(rows[i].status, rows[i].body, strlen(rows[i].body));
		CHECK_STR(text, rows[i].want);
	}
}

TEST(answers_are_known_and_so_is_their_version)
{
	static const char text[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}";
	static const char odd[] = "{\"result\":{\"protocolVersion\":\"1\\r\\nX: y\"}}";
	AUTO_FREE char *version = message_version(text, strlen(text));

	CHECK_STR(version, "2025-06-18");
	CHECK(!message_version(odd, strlen(odd)));
	CHECK(message_is_answer(text, strlen(text)));
	CHECK(!message_is_answer(odd, strlen(odd)));
	CHECK(!message_is_answer("{\"jsonrpc\":\"2.0\",\"id\":null}", 27));
}

TESTS(UNIT(messages_are_told_apart), UNIT(a_cancellation_names_its_request),
	UNIT(errors_are_said_in_one_line), UNIT(answers_are_known_and_so_is_their_version))
