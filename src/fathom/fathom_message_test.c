#include "fathom/fathom_message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/test.h"

#define STAMP   "\"ts\":\"2025-12-27T11:30:00.000Z\""
#define LIMITS  "\"limits\":{\"timeout_ms\":30000,\"memory_mb\":256}"
#define EXECUTE "\"v\":1,\"type\":\"execute\",\"id\":\"e1\"," STAMP

TEST(an_execution_with_all_there_is)
{
	static const char text[] =
		"{\"v\":1,\"type\":\"execute\",\"id\":\"exec_1\"," STAMP ",\"language\":\"python\","
		"\"code\":\"print(1)\",\"stdin\":\"in\",\"env\":{\"A\":\"1\"},\"limits\":{"
		"\"timeout_ms\":1,\"memory_mb\":64,\"cpu_shares\":2,\"max_output_bytes\":1,"
		"\"later\":true},\"unknown\":[]}";
	struct err err = { 0 };
	struct fathom_message m;

	CHECK_EQ(fathom_message_parse(text, strlen(text), &m, &err), 0);
	CHECK_EQ(m.type, FATHOM_EXECUTE);
	CHECK_STR(m.id, "exec_1");
	CHECK_STR(m.language, "python");
	CHECK_STR(m.code, "print(1)");
	CHECK_STR(m.input, "in");
	CHECK_EQ(json_object_size(m.env), 1);
	CHECK_EQ(m.timeout_ms, 1);
	CHECK_EQ(m.memory_mb, 64);
	CHECK_EQ(m.cpu_shares, 2);
	CHECK_EQ(m.max_output_bytes, 1);
	fathom_message_fini(&m);
	CHECK(m.body == NULL);
}

TEST(what_is_not_said_has_its_default)
{
	static const char text[] = "{" EXECUTE ",\"language\":\"shell\",\"code\":\"\","
				   "\"stdin\":null,\"env\":null," LIMITS "}";
	struct err err = { 0 };
	struct fathom_message m;

	CHECK_EQ(fathom_message_parse(text, strlen(text), &m, &err), 0);
	CHECK_STR(m.code, "");
	CHECK(m.input == NULL);
	CHECK(m.env == NULL);
	CHECK_EQ(m.timeout_ms, 30000);
	CHECK_EQ(m.memory_mb, 256);
	CHECK_EQ(m.cpu_shares, 512);
	CHECK_EQ(m.max_output_bytes, 1 << 20);
	fathom_message_fini(&m);
}

TEST(the_short_ones)
{
	static const char cancel[] = "{\"v\":1,\"type\":\"cancel\",\"id\":\"x\"," STAMP "}";
	static const char ping[] = "{\"v\":1,\"type\":\"ping\"," STAMP "}";
	struct err err = { 0 };
	struct fathom_message m;

	CHECK_EQ(fathom_message_parse(cancel, strlen(cancel), &m, &err), 0);
	CHECK_EQ(m.type, FATHOM_CANCEL);
	CHECK_STR(m.id, "x");
	fathom_message_fini(&m);
	CHECK_EQ(fathom_message_parse(ping, strlen(ping), &m, &err), 0);
	CHECK_EQ(m.type, FATHOM_PING);
	CHECK(m.id == NULL);
	fathom_message_fini(&m);
}

/* Refused with a sentence in which `word` is, and about the execution `id`. */
static void check_refused(const char *text, const char *word, const char *id)
{
	struct err err = { 0 };
	struct fathom_message m;

	if (fathom_message_parse(text, strlen(text), &m, &err) != -EBADMSG)
		fail_msg("accepted: %s", text);
	if (!strstr(err.text, word))
		fail_msg("'%s' is not in '%s'", word, err.text);
	CHECK_EQ(m.id == NULL, id == NULL);
	if (id)
		CHECK_STR(m.id, id);
	fathom_message_fini(&m);
}

TEST(what_is_no_message_of_this_version)
{
	static const struct {
		const char *text;
		const char *word;
		const char *id;
	} cases[] = {
		{ "", "JSON", NULL },
		{ "{", "JSON", NULL },
		{ "[]", "JSON object", NULL },
		{ "null", "JSON object", NULL },
		{ "{}", "v is required", NULL },
		{ "{\"id\":\"x\"}", "v is required", "x" },
		{ "{\"v\":null}", "v is required", NULL },
		{ "{\"v\":\"1\",\"id\":7}", "v must be", NULL },
		{ "{\"v\":1.0}", "v must be", NULL },
		{ "{\"v\":2,\"id\":\"x\"}", "version 2", "x" },
		{ "{\"v\":-9223372036854775808}", "version -9", NULL },
		{ "{\"v\":1}", "type must be", NULL },
		{ "{\"v\":1,\"type\":\"ack\"}", "type must be", NULL },
		{ "{\"v\":1,\"type\":[]}", "type must be", NULL },
		{ "{\"v\":1,\"v\":1}", "duplicate", NULL },
		{ "{\"v\":1,\"type\":\"ping\"}", "ts is required", NULL },
		{ "{\"v\":1,\"type\":\"ping\",\"ts\":1}", "ts must be", NULL },
		{ "{\"v\":1,\"type\":\"ping\",\"ts\":\"now\"}", "ts must be", NULL },
		{ "{\"v\":1,\"type\":\"cancel\"," STAMP "}", "id is required", NULL },
		{ "{\"v\":1,\"type\":\"cancel\",\"id\":\"\"," STAMP "}", "id must be", NULL },
		{ "{\"v\":1,\"type\":\"cancel\",\"id\":\"a\\nb\"," STAMP "}", "id must be", NULL },
		{ "{\"v\":1,\"type\":\"cancel\",\"id\":1," STAMP "}", "id must be", NULL },
		{ "{\"v\":1,\"type\":\"cancel\",\"id\":\"x\"}", "ts is required", "x" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_refused(cases[i].text, cases[i].word, cases[i].id);
}

static void check_execute_refused(const char *members, const char *word)
{
	char text[1024];

	(void)snprintf(text, sizeof(text), "{" EXECUTE ",%s}", members);
	check_refused(text, word, "e1");
}

TEST(every_field_of_an_execution_is_looked_at)
{
#define LANGUAGE "\"language\":\"python\","
#define CODE     "\"code\":\"\","
	static const char *const cases[][2] = {
		{ CODE LIMITS, "language is required" },
		{ CODE LIMITS ",\"language\":1", "language must be" },
		{ CODE LIMITS ",\"language\":\"\"", "language must" },
		{ LANGUAGE LIMITS, "code is required" },
		{ LANGUAGE LIMITS ",\"code\":null", "code is required" },
		{ LANGUAGE LIMITS ",\"code\":[]", "code must be" },
		{ LANGUAGE CODE "\"stdin\":1," LIMITS, "stdin must be" },
		{ LANGUAGE CODE "\"env\":[]," LIMITS, "env must be" },
		{ LANGUAGE CODE "\"env\":{\"A\":1}," LIMITS, "env: 'A'" },
		{ LANGUAGE CODE "\"env\":{\"1A\":\"\"}," LIMITS, "1A" },
		{ LANGUAGE CODE "\"env\":{\"\":\"\"}," LIMITS, "env" },
		{ LANGUAGE CODE "\"x\":1", "limits is required" },
		{ LANGUAGE CODE "\"limits\":[]", "limits must be" },
		{ LANGUAGE CODE "\"limits\":{}", "limits.timeout_ms is required" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":1}", "limits.memory_mb is required" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":0}", "limits.timeout_ms must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":-1}", "limits.timeout_ms must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":1.5}", "limits.timeout_ms must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":\"1\"}", "limits.timeout_ms must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":3600001}", "limits.timeout_ms must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":1,\"memory_mb\":63}",
			"limits.memory_mb must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":1,\"memory_mb\":64,\"cpu_shares\":0}",
			"limits.cpu_shares must" },
		{ LANGUAGE CODE "\"limits\":{\"timeout_ms\":1,\"memory_mb\":64,"
				"\"max_output_bytes\":0}",
			"limits.max_output_bytes must" },
		{ LANGUAGE CODE "\"stdin\":\"\\u0000\"," LIMITS, "JSON" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_execute_refused(cases[i][0], cases[i][1]);
}

/* Where JSON is refused for what stands in it, an id is still one. */
TEST(whose_message_it_is_can_be_told_of_what_is_refused_whole)
{
	check_refused("{\"id\":\"e1\",\"stdin\":\"\\u0000\"}", "NUL", "e1");
	check_refused("{\"id\":\"e1\",\"v\":1,\"v\":1}", "duplicate", "e1");
	check_refused("{\"id\":\"e1\\u0000\"}", "NUL", NULL);
	check_refused("[\"id\",\"\\u0000\"]", "NUL", NULL);
}

TEST(amounts_above_all_policies_are_lowered)
{
	static const char text[] = "{" EXECUTE ",\"language\":\"python\",\"code\":\"\",\"limits\":{"
				   "\"timeout_ms\":1,\"memory_mb\":9223372036854775807,"
				   "\"cpu_shares\":10000000,"
				   "\"max_output_bytes\":9223372036854775807}}";
	struct err err = { 0 };
	struct fathom_message m;

	CHECK_EQ(fathom_message_parse(text, strlen(text), &m, &err), 0);
	CHECK_EQ(m.memory_mb, 1 << 30);
	CHECK_EQ(m.cpu_shares, 1 << 20);
	CHECK_EQ(m.max_output_bytes, UINT64_C(1) << 40);
	fathom_message_fini(&m);
}

TEST(code_has_a_size)
{
	static const char head[] = "{" EXECUTE ",\"language\":\"python\"," LIMITS ",\"code\":\"";
	size_t size = sizeof(head) + FATHOM_TEXT_MAX + 3;
	AUTO_FREE char *text = xcalloc(1, size + 1);

	memset(text, 'x', size);
	memcpy(text, head, sizeof(head) - 1);
	memcpy(text + sizeof(head) + FATHOM_TEXT_MAX, "\"}", 3);
	check_refused(text, "code must have 0 to 1048576 bytes, not 1048577", "e1");
}

TEST(an_id_has_a_size)
{
	char id[FATHOM_ID_MAX + 2];
	char text[512];
	struct err err = { 0 };
	struct fathom_message m;

	memset(id, 'x', sizeof(id));
	id[FATHOM_ID_MAX + 1] = '\0';
	(void)snprintf(
		text, sizeof(text), "{\"v\":1,\"type\":\"cancel\",\"id\":\"%s\"," STAMP "}", id);
	check_refused(text, "id must be", NULL);
	(void)snprintf(text, sizeof(text), "{\"v\":1,\"type\":\"cancel\",\"id\":\"%s\"," STAMP "}",
		id + 1);
	CHECK_EQ(fathom_message_parse(text, strlen(text), &m, &err), 0);
	fathom_message_fini(&m);
}

TESTS(UNIT(an_execution_with_all_there_is), UNIT(what_is_not_said_has_its_default),
	UNIT(the_short_ones), UNIT(what_is_no_message_of_this_version),
	UNIT(every_field_of_an_execution_is_looked_at),
	UNIT(whose_message_it_is_can_be_told_of_what_is_refused_whole),
	UNIT(amounts_above_all_policies_are_lowered), UNIT(code_has_a_size), UNIT(an_id_has_a_size))
