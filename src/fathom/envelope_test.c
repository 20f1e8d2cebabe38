#include "fathom/envelope.h"

#include <jansson.h>
#include <string.h>

#include "base/date.h"
#include "base/json.h"
#include "base/shared.h"
#include "base/str.h"
#include "lib/test.h"

/* What every message has is right, and goes; the rest is `text`. Takes the message. */
static void check(struct shared *m, const char *type, const char *id, const char *text)
{
	AUTO_JSON *o = json_loadb(shared_data(m), m->size, 0, NULL);
	AUTO_JSON *want = json_loads(text, JSON_ALLOW_NUL, NULL);
	const char *ts = json_string_value(json_object_get(o, "ts"));
	uint64_t ns = 0;

	shared_unref(m);
	CHECK(o && want);
	CHECK_EQ(json_integer_value(json_object_get(o, "v")), 1);
	CHECK_STR(json_string_value(json_object_get(o, "type")), type);
	CHECK_EQ(strlen(ts), ENVELOPE_TIME_SIZE);
	CHECK_EQ(date_parse(ts, &ns), 0);
	if (id)
		CHECK_STR(json_string_value(json_object_get(o, "id")), id);
	else
		CHECK(json_object_get(o, "id") == NULL);
	static const char *const common[] = { "v", "type", "id", "ts" };
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		(void)json_object_del(o, common[i]);
	AUTO_FREE char *got = json_canonical(o);
	AUTO_FREE char *wanted = json_canonical(want);
	CHECK_STR(got, wanted);
}

TEST(times_have_milliseconds)
{
	char text[ENVELOPE_TIME_SIZE + 1];

	envelope_format_time(UINT64_C(1766835000123999999), text);
	CHECK_STR(text, "2025-12-27T11:30:00.123Z");
	envelope_format_time(0, text);
	CHECK_STR(text, "1970-01-01T00:00:00.000Z");
}

TEST(every_message_has_its_fields)
{
	struct envelope_limits limits = { 1, 2, 3, 4 };

	check(envelope_ack("e", "r", &limits, NULL), "ack", "e",
		"{\"run_id\":\"r\",\"limits\":{\"timeout_ms\":1,\"memory_mb\":2,\"cpu_shares\":3,"
		"\"max_output_bytes\":4}}");
	check(envelope_status("e", "running"), "status", "e", "{\"status\":\"running\"}");
	check(envelope_output("e", "stderr", "\xc3\xa4\"\n", 4), "stderr", "e",
		"{\"data\":\"\xc3\xa4\\\"\\n\"}");
	check(envelope_output("e", "stdout", "", 0), "stdout", "e", "{\"data\":\"\"}");
	check(envelope_pong(3, 0), "pong", NULL,
		"{\"load\":{\"active_executions\":3,\"queue_depth\":0}}");
	check(envelope_error("e", FAULT_SANDBOX_OVERLOADED, "no room"), "error", "e",
		"{\"code\":\"SANDBOX_OVERLOADED\",\"message\":\"no room\",\"retryable\":true}");
	check(envelope_error(NULL, FAULT_INVALID_REQUEST, "x\xc3"), "error", NULL,
		"{\"code\":\"INVALID_REQUEST\",\"message\":\"x\xef\xbf\xbd\",\"retryable\":false}");
}

TEST(output_may_hold_any_character)
{
	struct shared *m = envelope_output("e", "stdout", "a\0b", 3);
	AUTO_JSON *o = json_loadb(shared_data(m), m->size, JSON_ALLOW_NUL, NULL);

	CHECK_EQ(json_string_length(json_object_get(o, "data")), 3);
	shared_unref(m);
}

TEST(a_result_says_what_is_known)
{
	struct envelope_result all = { true, 3, 1500, 45, 120, FAULT_COUNT };
	struct envelope_result none = { false, 0, 0, ENVELOPE_UNKNOWN, ENVELOPE_UNKNOWN,
		FAULT_TIMEOUT };

	check(envelope_result("e", &all), "result", "e",
		"{\"exit_code\":3,\"duration_ms\":1500,\"resource_usage\":{\"peak_memory_mb\":45,"
		"\"cpu_time_ms\":120}}");
	check(envelope_result("e", &none), "result", "e",
		"{\"exit_code\":null,\"duration_ms\":0,\"resource_usage\":{},"
		"\"error\":{\"code\":\"TIMEOUT\",\"retryable\":false}}");
}

TESTS(UNIT(times_have_milliseconds), UNIT(every_message_has_its_fields),
	UNIT(output_may_hold_any_character), UNIT(a_result_says_what_is_known))
