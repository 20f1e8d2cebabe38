#include "mcp/names.h"

#include <string.h>

#include "base/json.h"
#include "core/problem.h"
#include "lib/test.h"

static const char schema_text[] = "{\"properties\":{\"code\":{},\"session_id\":{},"
				  "\"env\":{\"additionalProperties\":{\"type\":\"string\"}},"
				  "\"limits\":{\"properties\":{\"memory_mb\":{},\"seconds\":{}}},"
				  "\"files\":{\"items\":{\"properties\":{\"path\":{}}}}}}";

static const struct {
	const char *arguments;
	const char *words; /* NULL: they are known */
} rows[] = {
	{ "{\"code\":1,\"env\":{\"ANY\":1},\"limits\":{\"seconds\":1},\"files\":[{\"path\":1}]}",
		NULL },
	{ "{\"memory\":1}", "unknown field 'memory'; did you mean limits.memory_mb?" },
	{ "{\"limits\":{\"second\":1}}",
		"unknown field 'limits.second'; did you mean limits.seconds?" },
	{ "{\"files\":[{},{\"paths\":1}]}",
		"unknown field 'files[1].paths'; did you mean files.path?" },
	{ "{\"session\":1}", "unknown field 'session'; did you mean session_id?" },
	{ "[]", NULL },
};

TEST(unknown_arguments_are_named)
{
	AUTO_JSON *schema = json_loads(schema_text, 0, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *arguments = json_loads(rows[i].arguments, 0, NULL);
		AUTO_JSON *warnings = json_array();
		struct problem p = { 0 };
		int r = names_check(schema, arguments, false, warnings, &p);

		CHECK_EQ(r, rows[i].words ? -1 : 0);
		if (rows[i].words)
			CHECK_STR(p.message, rows[i].words);
		CHECK_EQ(json_array_size(warnings), 0);
		problem_fini(&p);
	}
}

TEST(a_warning_leaves_the_others)
{
	AUTO_JSON *schema = json_loads(schema_text, 0, NULL);
	AUTO_JSON *arguments = json_loads(
		"{\"code\":1,\"colour\":2,\"limits\":{\"hue\":3,\"seconds\":4}}", 0, NULL);
	AUTO_JSON *expected = json_loads("{\"code\":1,\"limits\":{\"seconds\":4}}", 0, NULL);
	AUTO_JSON *warnings = json_array();
	struct problem p = { 0 };

	CHECK_EQ(names_check(schema, arguments, true, warnings, &p), 0);
	CHECK_EQ(json_array_size(warnings), 2);
	AUTO_JSON *known = names_known(schema, arguments);
	CHECK(json_equal(known, expected));
}

TESTS(UNIT(unknown_arguments_are_named), UNIT(a_warning_leaves_the_others))
