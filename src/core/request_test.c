#include "core/request.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/request_sample.h"
#include "core/settings.h"

static char native[] = "native";
static const struct settings defaults = {
	.default_runtime = native,
	.exec_timeout_sec = 60,
	.startup_timeout_sec = 20,
};

static void check_print(const char *text, enum request_kind kind, char ret[65])
{
	REQUEST(r);
	PROBLEM(p);

	if (parse(text, kind, &r, &p) < 0)
		fail_msg("%s: %s", text, p.message);
	request_fingerprint(&r, kind, &defaults, ret);
	CHECK(str_is_hex(ret, 64));
}

static bool means_the_same(const char *a, const char *b, enum request_kind kind)
{
	char prints[2][65];

	check_print(a, kind, prints[0]);
	check_print(b, kind, prints[1]);
	return streq(prints[0], prints[1]);
}

TEST(a_whole_run)
{
	REQUEST(r);
	PROBLEM(p);
	int got = parse("{\"spec_version\":\"1.1\",\"session_id\":\"s\",\"runtime\":\"native\","
			"\"network_policy\":\"allowlist\",\"trust_level\":\"untrusted\","
			"\"command\":[\"python\",\"a.py\",\"\"],\"env\":{\"A\":\"1\"},"
			"\"labels\":{\"t\":\"u\"},\"capture_patterns\":[\"*.png\"],"
			"\"files\":[{\"path\":\"a.py\",\"content_b64\":\"cHJpbnQoKQ==\"}],"
			"\"resources\":{\"cpu\":1.5,\"memory_mb\":512},\"timeout_sec\":60,"
			"\"startup_timeout_sec\":20,\"timeout_ms\":1500,\"max_output_bytes\":99,"
			"\"interactive\":true,\"stdin_max_bytes\":10,"
			"\"stdin_max_frame_bytes\":11,\"stdin_bps\":12,"
			"\"stdin_idle_timeout_sec\":13,\"resume_from_seq\":14,\"persona_id\":\"p\","
			"\"workspace_id\":\"w\",\"workspace_group_id\":\"g\","
			"\"scope_snapshot_id\":\"n\"}",
		REQUEST_RUN, &r, &p);

	CHECK_EQ(got, 0);
	CHECK_STR(r.spec_version, "1.1");
	CHECK_STR(r.session_id, "s");
	CHECK(r.base_image == NULL);
	CHECK_STR(r.runtime, "native");
	CHECK_STR(r.network_policy, "allowlist");
	CHECK_STR(r.trust_level, "untrusted");
	CHECK_STR(r.persona_id, "p");
	CHECK_STR(r.workspace_id, "w");
	CHECK_STR(r.workspace_group_id, "g");
	CHECK_STR(r.scope_snapshot_id, "n");
	CHECK_EQ(json_array_size(r.command), 3);
	CHECK_EQ(json_object_size(r.env), 1);
	CHECK_EQ(json_object_size(r.labels), 1);
	CHECK_EQ(json_array_size(r.capture_patterns), 1);
	CHECK_EQ(json_array_size(r.files), 1);
	CHECK_EQ(r.cpu_milli, 1500);
	CHECK_EQ(r.memory_mb, 512);
	CHECK_EQ(r.timeout_sec, 60);
	CHECK_EQ(r.startup_timeout_sec, 20);
	CHECK_EQ(r.timeout_ms, 1500);
	CHECK_EQ(r.max_output_bytes, 99);
	CHECK(r.input == NULL);
	CHECK(r.interactive);
	CHECK_EQ(r.stdin_max_bytes, 10);
	CHECK_EQ(r.stdin_max_frame_bytes, 11);
	CHECK_EQ(r.stdin_bps, 12);
	CHECK_EQ(r.stdin_idle_timeout_sec, 13);
	CHECK_EQ(r.resume_from_seq, 14);
}

TEST(a_session)
{
	REQUEST(r);
	REQUEST(none);
	PROBLEM(p);

	CHECK_EQ(parse("{\"base_image\":\"i\",\"cpu_limit\":0.5,\"memory_mb\":64,"
		       "\"timeout_sec\":3600,\"git\":{\"url\":\"https://h/r\",\"ref\":null,"
		       "\"depth\":1,\"token\":\"x\"},\"command\":[\"not of a session\"]}",
			 REQUEST_SESSION, &r, &p),
		0);
	CHECK_EQ(r.cpu_milli, 500);
	CHECK_EQ(r.memory_mb, 64);
	CHECK_EQ(r.timeout_sec, 3600);
	CHECK(r.command == NULL);
	AUTO_FREE char *git = json_canonical(r.git);
	CHECK_STR(git, "{\"depth\":1,\"url\":\"https://h/r\"}");
	CHECK_EQ(parse("{}", REQUEST_SESSION, &none, &p), 0);
	CHECK(none.base_image == NULL);
}

struct refusal_case {
	const char *text; /* a body, or a member of one */
	const char *field;
};

static const struct refusal_case wrong_members[] = {
	{ "\"spec_version\":1", "spec_version" },
	{ "\"spec_version\":\"012345678901234567890123456789012\"", "spec_version" },
	{ "\"runtime\":\"gvisor\"", "runtime" },
	{ "\"runtime\":[]", "runtime" },
	{ "\"network_policy\":\"allow\"", "network_policy" },
	{ "\"trust_level\":true", "trust_level" },
	{ "\"trust_level\":\"\"", "trust_level" },
	{ "\"persona_id\":5", "persona_id" },
	{ "\"persona_id\":\"\"", "persona_id" },
	{ "\"workspace_id\":{}", "workspace_id" },
	{ "\"workspace_group_id\":[]", "workspace_group_id" },
	{ "\"scope_snapshot_id\":1.5", "scope_snapshot_id" },
	{ "\"env\":[]", "env" },
	{ "\"env\":{\"A\":1}", "env" },
	{ "\"env\":{\"A\":null}", "env" },
	{ "\"env\":{\"A B\":\"1\"}", "env" },
	{ "\"env\":{\"\":\"1\"}", "env" },
	{ "\"labels\":\"x\"", "labels" },
	{ "\"labels\":{\"a\":{}}", "labels" },
	{ "\"capture_patterns\":\"*.png\"", "capture_patterns" },
	{ "\"capture_patterns\":[\"a\",1]", "capture_patterns" },
	{ "\"capture_patterns\":[\"a\",\"\"]", "capture_patterns" },
	{ "\"files\":{}", "files" },
	{ "\"resources\":[]", "resources" },
	{ "\"resources\":\"1\"", "resources" },
	{ "\"resources\":{\"cpu\":\"1\"}", "resources.cpu" },
	{ "\"resources\":{\"cpu\":-0.5}", "resources.cpu" },
	{ "\"resources\":{\"cpu\":1e300}", "resources.cpu" },
	{ "\"resources\":{\"cpu\":true}", "resources.cpu" },
	{ "\"resources\":{\"cpu\":\"NaN\"}", "resources.cpu" },
	{ "\"resources\":{\"memory_mb\":63}", "resources.memory_mb" },
	{ "\"resources\":{\"memory_mb\":512.0}", "resources.memory_mb" },
	{ "\"resources\":{\"memory_mb\":-1}", "resources.memory_mb" },
	{ "\"resources\":{\"memory_mb\":9223372036854775807}", "resources.memory_mb" },
	{ "\"timeout_sec\":0", "timeout_sec" },
	{ "\"timeout_sec\":3601", "timeout_sec" },
	{ "\"timeout_sec\":\"60\"", "timeout_sec" },
	{ "\"timeout_sec\":1.5", "timeout_sec" },
	{ "\"startup_timeout_sec\":0", "startup_timeout_sec" },
	{ "\"timeout_ms\":-1", "timeout_ms" },
	{ "\"timeout_ms\":3600001", "timeout_ms" },
	{ "\"max_output_bytes\":-1", "max_output_bytes" },
	{ "\"stdin\":1", "stdin" },
	{ "\"stdin\":\"x\",\"interactive\":true", "stdin" },
	{ "\"startup_timeout_sec\":601", "startup_timeout_sec" },
	{ "\"interactive\":1", "interactive" },
	{ "\"workspace_exec\":\"on\"", "workspace_exec" },
	{ "\"interactive\":\"true\"", "interactive" },
	{ "\"stdin_max_bytes\":-1", "stdin_max_bytes" },
	{ "\"stdin_max_frame_bytes\":\"\"", "stdin_max_frame_bytes" },
	{ "\"stdin_bps\":0.5", "stdin_bps" },
	{ "\"stdin_idle_timeout_sec\":[]", "stdin_idle_timeout_sec" },
	{ "\"resume_from_seq\":-9223372036854775808", "resume_from_seq" },
};

/* Refused with a sentence that names the field. */
static void check_refused(const char *text, enum request_kind kind, const char *field)
{
	REQUEST(r);
	PROBLEM(p);

	if (parse(text, kind, &r, &p) != -1)
		fail_msg("accepted: %s", text);
	CHECK_EQ(p.status, 422);
	CHECK_STR(p.code, "invalid_request");
	CHECK_STR(json_string_value(json_object_get(p.details, "field")), field);
	CHECK(str_after(p.message, field) != NULL);
	CHECK(r.body == NULL);
}

TEST(wrong_types_and_ranges)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong_members); i++)
		check_refused(run_with(wrong_members[i].text), REQUEST_RUN, wrong_members[i].field);
}

TEST(wrong_sessions)
{
	static const struct refusal_case cases[] = {
		{ "[]", "body" },
		{ "null", "body" },
		{ "{\"cpu_limit\":-1}", "cpu_limit" },
		{ "{\"cpu_limit\":1048577}", "cpu_limit" },
		{ "{\"cpu_limit\":\"4\"}", "cpu_limit" },
		{ "{\"memory_mb\":63}", "memory_mb" },
		{ "{\"memory_mb\":true}", "memory_mb" },
		{ "{\"base_image\":\"\"}", "base_image" },
		{ "{\"git\":\"https://h/r\"}", "git" },
		{ "{\"git\":{}}", "git" },
		{ "{\"git\":{\"url\":null}}", "git" },
		{ "{\"git\":{\"url\":5}}", "git.url" },
		{ "{\"git\":{\"url\":\"\"}}", "git.url" },
		{ "{\"git\":{\"url\":\"u\",\"ref\":\"\"}}", "git.ref" },
		{ "{\"git\":{\"url\":\"u\",\"patch\":1}}", "git.patch" },
		{ "{\"git\":{\"url\":\"u\",\"depth\":0}}", "git.depth" },
		{ "{\"git\":{\"url\":\"u\",\"depth\":1000001}}", "git.depth" },
		{ "{\"git\":{\"url\":\"u\",\"depth\":\"1\"}}", "git.depth" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_refused(cases[i].text, REQUEST_SESSION, cases[i].field);
}

TEST(a_run_needs_a_command_and_one_place_to_run)
{
	static const struct {
		const char *text;
		const char *says;
	} cases[] = {
		{ "{\"base_image\":\"i\"}", "command: is required, or language and code" },
		{ "{\"base_image\":\"i\",\"command\":null}",
			"command: is required, or language and code" },
		{ "{\"base_image\":\"i\",\"command\":[]}", "command: must have 1 to 4096 items" },
		{ "{\"base_image\":\"i\",\"command\":\"ls\"}", "command: must be a list of texts" },
		{ "{\"base_image\":\"i\",\"command\":[\"ls\",1]}",
			"command: item 1 is not a text" },
		{ "{\"base_image\":\"i\",\"command\":[\"\",\"x\"]}",
			"command: the program's name is empty" },
		{ "{\"command\":[\"x\"]}",
			"body: Provide exactly one of session_id or base_image" },
		{ "{\"command\":[\"x\"],\"session_id\":null,\"base_image\":null}",
			"body: Provide exactly one of session_id or base_image" },
		{ "{\"command\":[\"x\"],\"session_id\":\"s\",\"base_image\":\"i\"}",
			"body: Provide exactly one of session_id or base_image" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		REQUEST(r);
		PROBLEM(p);

		CHECK_EQ(parse(cases[i].text, REQUEST_RUN, &r, &p), -1);
		CHECK_STR(p.message, cases[i].says);
	}
}

TEST(an_argument_is_no_longer_than_a_program_can_be_given)
{
	AUTO_FREE char *text = xcalloc(1, (128u << 10) + 2);

	memset(text, 'x', 128u << 10);
	for (int over = 0; over < 2; over++) {
		REQUEST(r);
		PROBLEM(p);

		if (over)
			text[128u << 10] = 'x';
		AUTO_JSON *body =
			json_pack("{s:s,s:[s,s]}", "base_image", "i", "command", "echo", text);
		CHECK_EQ(request_parse(body, REQUEST_RUN, &r, &p), -over);
		if (over)
			CHECK_STR(
				json_string_value(json_object_get(p.details, "field")), "command");
	}
}

/* An object of `n` texts of `size` bytes. */
static json_t *make_map(size_t n, size_t size)
{
	json_t *map = json_object();
	AUTO_FREE char *text = xcalloc(1, size + 1);
	char key[32];

	memset(text, 'x', size);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(key, sizeof(key), "K%zu", i);
		(void)json_object_set_new(map, key, json_string(text));
	}
	return map;
}

/* The same as a list. */
static json_t *make_list(size_t n, size_t size)
{
	AUTO_JSON *map = make_map(n, size);
	json_t *list = json_array();
	const char *key;
	json_t *value;

	json_object_foreach(map, key, value)
	{
		(void)json_array_append(list, value);
	}
	return list;
}

/* Takes the value. */
static int parse_run_with(const char *key, json_t *value)
{
	REQUEST(r);
	PROBLEM(p);
	AUTO_JSON *body = json_pack("{s:s,s:[s]}", "base_image", "i", "command", "x");

	CHECK(value != NULL);
	(void)json_object_set_new(body, key, value);
	return request_parse(body, REQUEST_RUN, &r, &p);
}

TEST(what_can_grow_has_a_limit)
{
	CHECK_EQ(parse_run_with("labels", make_map(REQUEST_LABELS_MAX, REQUEST_TEXT_MAX)), 0);
	CHECK_EQ(parse_run_with("labels", make_map(REQUEST_LABELS_MAX + 1, 1)), -1);
	CHECK_EQ(parse_run_with("labels", make_map(1, REQUEST_TEXT_MAX + 1)), -1);
	CHECK_EQ(parse_run_with("env", make_map(POLICY_ENV_MAX, 10)), 0);
	CHECK_EQ(parse_run_with("env", make_map(POLICY_ENV_MAX + 1, 1)), -1);
	CHECK_EQ(parse_run_with("env", make_map(1, POLICY_ENV_BYTES_MAX)), -1);
	CHECK_EQ(parse_run_with("command", make_list(REQUEST_COMMAND_MAX, 1)), 0);
	CHECK_EQ(parse_run_with("command", make_list(REQUEST_COMMAND_MAX + 1, 1)), -1);
	CHECK_EQ(parse_run_with("capture_patterns", make_list(REQUEST_GLOBS_MAX, REQUEST_GLOB_MAX)),
		0);
	CHECK_EQ(parse_run_with("capture_patterns", make_list(REQUEST_GLOBS_MAX + 1, 1)), -1);
	CHECK_EQ(parse_run_with("capture_patterns", make_list(1, REQUEST_GLOB_MAX + 1)), -1);
	CHECK_EQ(parse_run_with("files", make_list(REQUEST_FILES_MAX + 1, 1)), -1);
	AUTO_JSON *long_key = json_object();
	AUTO_JSON *texts = make_list(1, REQUEST_TEXT_MAX + 1);
	(void)json_object_set_new(
		long_key, json_string_value(json_array_get(texts, 0)), json_string("v"));
	CHECK_EQ(parse_run_with("labels", json_incref(long_key)), -1);
	CHECK_EQ(parse_run_with("base_image", json_incref(json_array_get(texts, 0))), -1);
	CHECK_EQ(parse_run_with("persona_id", json_incref(json_array_get(texts, 0))), -1);
}

/* What a sentence quotes may be anything, and is cut. */
TEST(a_problem_can_be_sent_back)
{
	REQUEST(r);
	PROBLEM(p);
	char text[400] = "{\"base_image\":\"i\",\"command\":[\"x\"],\"labels\":{\"x";

	for (int i = 0; i < 40; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "\xc3\xa4");
	(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "\":1}}");
	CHECK_EQ(parse(text, REQUEST_RUN, &r, &p), -1);
	AUTO_JSON *message = json_string(p.message);
	CHECK(message != NULL);
}

TEST(little_is_not_nothing)
{
	REQUEST(little);
	REQUEST(nothing);
	PROBLEM(p);

	CHECK_EQ(parse("{\"cpu_limit\":0.0001}", REQUEST_SESSION, &little, &p), 0);
	CHECK_EQ(little.cpu_milli, 1);
	CHECK_EQ(parse("{\"cpu_limit\":0}", REQUEST_SESSION, &nothing, &p), 0);
	CHECK_EQ(nothing.cpu_milli, 0);
}

TEST(unknown_fields_and_nulls_are_ignored)
{
	REQUEST(r);
	PROBLEM(p);

	CHECK_EQ(parse(run_with("\"colour\":{\"a\":[1]},\"env\":null,\"timeout_sec\":null,"
				"\"cpu_limit\":\"of sessions\",\"session_id\":null,"
				"\"resources\":{\"cpu\":null,\"gpu\":1,\"memory_mb\":64},"
				"\"files\":[{\"path\":\"a\",\"content_b64\":\"\",\"mode\":7}]"),
			 REQUEST_RUN, &r, &p),
		0);
	CHECK(r.env == NULL);
	CHECK_EQ(r.timeout_sec, 0);
	CHECK_EQ(r.memory_mb, 64);
	AUTO_FREE char *body = json_canonical(r.body);
	CHECK_STR(body, "{\"base_image\":\"i\",\"command\":[\"x\"],"
			"\"files\":[{\"content_b64\":\"\",\"path\":\"a\"}],"
			"\"resources\":{\"memory_mb\":64}}");
}

TEST(omitted_and_default_mean_the_same)
{
	static const char *const same[] = {
		"\"spec_version\":\"1.0\"",
		"\"network_policy\":\"deny_all\"",
		"\"trust_level\":\"standard\"",
		"\"env\":{}",
		"\"env\":null",
		"\"labels\":{}",
		"\"capture_patterns\":[]",
		"\"files\":[]",
		"\"resources\":{}",
		"\"resources\":{\"cpu\":null,\"unknown\":3}",
		"\"resources\":{\"cpu\":0}",
		"\"interactive\":false",
		"\"stdin_bps\":0",
		"\"resume_from_seq\":0",
		"\"runtime\":\"native\"",
		"\"timeout_sec\":60",
		"\"startup_timeout_sec\":20",
		"\"unknown\":1",
		"\"spec_version\":\"1.0\",\"interactive\":false,\"runtime\":null",
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		if (!means_the_same(run_with(same[i]), "{\"command\":[\"x\"],\"base_image\":\"i\"}",
			    REQUEST_RUN))
			fail_msg("another fingerprint: %s", same[i]);
	}
	CHECK(means_the_same("{\"cpu_limit\":1,\"memory_mb\":64}",
		"{\"memory_mb\":64,\"cpu_limit\":1.0}", REQUEST_SESSION));
	CHECK(means_the_same("{\"timeout_sec\":60}", "{\"runtime\":\"native\"}", REQUEST_SESSION));
	CHECK(!means_the_same("{\"timeout_sec\":61}", "{}", REQUEST_SESSION));
	CHECK(means_the_same("{}", "{\"trust_level\":\"standard\",\"files\":\"not of a session\"}",
		REQUEST_SESSION));
}

TEST(anything_else_does_not)
{
	static const char *const others[] = {
		"",
		"\"spec_version\":\"1.1\"",
		"\"runtime\":\"docker\"",
		"\"network_policy\":\"allowlist\"",
		"\"trust_level\":\"trusted\"",
		"\"env\":{\"A\":\"1\"}",
		"\"env\":{\"A\":\"2\"}",
		"\"labels\":{\"A\":\"1\"}",
		"\"capture_patterns\":[\"a\",\"b\"]",
		"\"capture_patterns\":[\"b\",\"a\"]",
		"\"files\":[{\"path\":\"a\",\"content_b64\":\"\"}]",
		"\"files\":[{\"path\":\"a\",\"content_b64\":\"AA==\"}]",
		"\"resources\":{\"cpu\":1}",
		"\"resources\":{\"cpu\":1.001}",
		"\"resources\":{\"memory_mb\":64}",
		"\"timeout_sec\":64",
		"\"startup_timeout_sec\":64",
		"\"interactive\":true",
		"\"workspace_exec\":true",
		"\"stdin_bps\":64",
		"\"resume_from_seq\":64",
		"\"command\":[\"x\",\"\"]",
		"\"command\":[\"y\"]",
	};
	char prints[ARRAY_SIZE(others)][65];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text), "{\"base_image\":\"i\",%s}", others[i]);
		check_print(strstr(text, "\"command\"") ? text : run_with(others[i]), REQUEST_RUN,
			prints[i]);
		for (size_t j = 0; j < i; j++)
			CHECK(!streq(prints[i], prints[j]));
	}
}

TEST(limits_and_resources_are_one)
{
	static const char *const runs[] = {
		"\"resources\":{\"cpu\":1.5,\"memory_mb\":128},\"timeout_sec\":9",
		"\"limits\":{\"cpu\":1.5,\"memory_mb\":128,\"timeout_sec\":9}",
		"\"limits\":{\"cpu\":1.5},\"resources\":{\"memory_mb\":128,\"cpu\":1.5},"
		"\"timeout_sec\":9",
	};
	char prints[ARRAY_SIZE(runs)][65];

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		REQUEST(r);
		PROBLEM(p);

		CHECK_EQ(parse(run_with(runs[i]), REQUEST_RUN, &r, &p), 0);
		CHECK_EQ(r.cpu_milli, 1500);
		CHECK_EQ(r.memory_mb, 128);
		CHECK_EQ(r.timeout_sec, 9);
		request_fingerprint(&r, REQUEST_RUN, &defaults, prints[i]);
		CHECK_STR(prints[i], prints[0]);
	}
	CHECK(means_the_same("{\"cpu_limit\":2,\"memory_mb\":64}",
		"{\"limits\":{\"cpu\":2},\"resources\":{\"memory_mb\":64}}", REQUEST_SESSION));
}

static const struct refusal_case contradictions[] = {
	{ "\"limits\":{\"cpu\":1},\"resources\":{\"cpu\":2}", "limits.cpu" },
	{ "\"limits\":{\"timeout_sec\":1},\"timeout_sec\":2", "limits.timeout_sec" },
	{ "\"limits\":{\"memory_mb\":63}", "limits.memory_mb" },
	{ "\"limits\":{\"timeout_sec\":3601}", "limits.timeout_sec" },
	{ "\"limits\":[]", "limits" },
	{ "\"context\":{\"source\":\"Mars\"}", "context.source" },
	{ "\"context\":{\"model\":1}", "context.model" },
	{ "\"context\":\"x\"", "context" },
	{ "\"code\":\"1\"", "code" },
	{ "\"language\":\"python\"", "language" },
	{ "\"args\":[\"a\"]", "args" },
};

TEST(what_contradicts_itself_is_refused_by_field)
{
	for (size_t i = 0; i < ARRAY_SIZE(contradictions); i++) {
		REQUEST(r);
		PROBLEM(p);

		if (parse(run_with(contradictions[i].text), REQUEST_RUN, &r, &p) != -1)
			fail_msg("accepted: %s", contradictions[i].text);
		CHECK_EQ(p.status, 422);
		CHECK_STR(json_string_value(json_object_get(p.details, "field")),
			contradictions[i].field);
	}
}

TEST(context_is_no_part_of_what_a_request_means)
{
	REQUEST(r);
	PROBLEM(p);
	const char *with = "{\"base_image\":\"i\",\"command\":[\"x\"],"
			   "\"context\":{\"model\":\"m\",\"thread_id\":\"t\"}}";

	CHECK(means_the_same(with, run_with(""), REQUEST_RUN));
	CHECK_EQ(parse(with, REQUEST_RUN, &r, &p), 0);
	CHECK_STR(json_string_value(json_object_get(r.context, "model")), "m");
}

/* What the names of a body are refused with; NULL: they are known. */
static const char *names_of(
	const char *text, enum request_kind kind, json_t *warnings, struct problem *p)
{
	AUTO_JSON *body = NULL;

	CHECK_EQ(json_read(text, strlen(text), &body, NULL), 0);
	return request_check_names(body, kind, false, warnings, p) < 0 ? p->message : NULL;
}

TEST(names_are_those_of_the_kind)
{
	AUTO_JSON *warnings = json_array();
	PROBLEM(p);

	CHECK_STR(names_of("{\"memory\":1}", REQUEST_RUN, warnings, &p),
		"unknown field 'memory'; did you mean resources.memory_mb?");
	CHECK_STR(names_of("{\"memory\":1}", REQUEST_SESSION, warnings, &p),
		"unknown field 'memory'; did you mean memory_mb?");
	CHECK_STR(names_of("{\"resources\":{\"memmory_mb\":1}}", REQUEST_RUN, warnings, &p),
		"unknown field 'resources.memmory_mb'; did you mean resources.memory_mb?");
	CHECK_STR(names_of("{\"files\":[{},{\"pat\":1}]}", REQUEST_RUN, warnings, &p),
		"unknown field 'files[1].pat'; did you mean files.path?");
	CHECK_STR(names_of("{\"command\":[]}", REQUEST_SESSION, warnings, &p),
		"unknown field 'command'");
	CHECK(!names_of("{\"git\":{\"url\":1},\"limits\":{\"cpu\":1},\"context\":{},\"files\":5}",
		REQUEST_RUN, warnings, &p));
	CHECK_EQ(json_array_size(warnings), 0);
	CHECK(!names_of("{\"limits\":{\"pids\":1}}", REQUEST_RUN, warnings, &p));
	CHECK_EQ(json_array_size(warnings), 1);
}

/* It is stored, and read again by the next server. */
TEST(the_body_parses_to_the_same)
{
	REQUEST(r);
	REQUEST(again);
	PROBLEM(p);
	char prints[2][65];

	CHECK_EQ(parse(run_with("\"resources\":{\"cpu\":0.3333,\"memory_mb\":64},\"stdin_bps\":7"),
			 REQUEST_RUN, &r, &p),
		0);
	AUTO_FREE char *body = json_canonical(r.body);
	CHECK_EQ(parse(body, REQUEST_RUN, &again, &p), 0);
	request_fingerprint(&r, REQUEST_RUN, &defaults, prints[0]);
	request_fingerprint(&again, REQUEST_RUN, &defaults, prints[1]);
	CHECK_STR(prints[0], prints[1]);
	CHECK_EQ(again.cpu_milli, 333);
	CHECK_EQ(again.stdin_bps, 7);
}

TESTS(UNIT(a_whole_run), UNIT(a_session), UNIT(wrong_types_and_ranges), UNIT(wrong_sessions),
	UNIT(a_run_needs_a_command_and_one_place_to_run),
	UNIT(an_argument_is_no_longer_than_a_program_can_be_given), UNIT(what_can_grow_has_a_limit),
	UNIT(a_problem_can_be_sent_back), UNIT(little_is_not_nothing),
	UNIT(unknown_fields_and_nulls_are_ignored), UNIT(omitted_and_default_mean_the_same),
	UNIT(anything_else_does_not), UNIT(the_body_parses_to_the_same),
	UNIT(limits_and_resources_are_one), UNIT(what_contradicts_itself_is_refused_by_field),
	UNIT(context_is_no_part_of_what_a_request_means), UNIT(names_are_those_of_the_kind))
