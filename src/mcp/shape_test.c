#include "mcp/shape.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "lib/test.h"

#define SCHEMA                                                                                      \
	"{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"a\"],\"properties\":{" \
	"\"a\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":3},"                              \
	"\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5},"                                 \
	"\"r\":{\"type\":\"number\"},\"w\":{\"enum\":[\"x\",\"y\"]},"                               \
	"\"l\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{\"type\":\"string\"}}," \
	"\"o\":{\"type\":\"object\",\"maxProperties\":1,\"additionalProperties\":"                  \
	"{\"type\":\"string\"}},"                                                                   \
	"\"z\":{\"type\":[\"boolean\",\"null\"]}}}"

static int check(const char *schema, const char *value, struct err *err)
{
	AUTO_JSON *s = json_loads(schema, 0, NULL);
	AUTO_JSON *v = json_loads(value, JSON_DECODE_ANY, NULL);

	CHECK(s && v);
	return shape_check(s, v, err);
}

TEST(what_fits_fits)
{
	static const char *const good[] = {
		"{\"a\":\"x\"}",
		"{\"a\":\"xyz\",\"n\":5,\"r\":0.5,\"w\":\"y\",\"l\":[\"1\",\"2\"],\"o\":{\"k\":\"v\"}}",
		"{\"a\":\"x\",\"n\":2.0,\"r\":3,\"z\":null}",
		"{\"a\":\"x\",\"z\":false}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_EQ(check(SCHEMA, good[i], NULL), 0);
}

TEST(what_does_not_is_named)
{
	static const struct {
		const char *value;
		const char *words;
	} bad[] = {
		{ "[]", "the arguments must be of type object" },
		{ "{}", "the arguments must have a" },
		{ "{\"a\":7}", "a must be of type string" },
		{ "{\"a\":\"\"}", "a must have a length of at least 1" },
		{ "{\"a\":\"wxyz\"}", "a must have a length of at most 3" },
		{ "{\"a\":\"x\",\"n\":0}", "n must be at least 1" },
		{ "{\"a\":\"x\",\"n\":6}", "n must be at most 5" },
		{ "{\"a\":\"x\",\"n\":1.5}", "n must be of type integer" },
		{ "{\"a\":\"x\",\"w\":\"z\"}", "w must be one of x, y" },
		{ "{\"a\":\"x\",\"l\":[]}", "l must have this many items or more: 1" },
		{ "{\"a\":\"x\",\"l\":[\"1\",2]}", "l[1] must be of type string" },
		{ "{\"a\":\"x\",\"o\":{\"k\":1}}", "o.'k' must be of type string" },
		{ "{\"a\":\"x\",\"o\":{\"k\":\"1\",\"m\":\"2\"}}",
			"o must have this many members" },
		{ "{\"a\":\"x\",\"z\":1}", "z must be boolean or null" },
		{ "{\"a\":\"x\",\"q\\n\":1}", "'q\\x0a' is not known here" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };

		CHECK_EQ(check(SCHEMA, bad[i].value, &err), -EINVAL);
		if (!strstr(err.text, bad[i].words))
			fail_msg("%s: %s", bad[i].value, err.text);
	}
}

TEST(one_of_is_exactly_one)
{
	static const char schema[] = "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}";
	struct err err = { 0 };

	CHECK_EQ(check(schema, "{\"a\":1}", NULL), 0);
	CHECK_EQ(check(schema, "{\"b\":1}", NULL), 0);
	CHECK_EQ(check(schema, "{}", &err), -EINVAL);
	CHECK(strstr(err.text, "must have a") != NULL);
	CHECK_EQ(check(schema, "{\"a\":1,\"b\":1}", &err), -EINVAL);
	CHECK(strstr(err.text, "exclude") != NULL);
}

TEST(what_would_do_is_named)
{
	static const char schema[] = "{\"oneOf\":[{\"required\":[\"a\",\"c\"]},"
				     "{\"required\":[\"b\",\"c\"]}]}";
	static const struct {
		const char *value;
		const char *text;
	} rows[] = {
		{ "{\"c\":1}", "the arguments must have a, or b" },
		{ "{\"a\":1}", "the arguments must have c" },
		{ "{\"b\":1}", "the arguments must have c" },
		{ "{}", "the arguments must have a and c, or b and c" },
	};
	AUTO_JSON *shape = json_loads(schema, 0, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *value = json_loads(rows[i].value, 0, NULL);
		struct err err = { 0 };

		CHECK_EQ(shape_check(shape, value, &err), -EINVAL);
		CHECK_STR(err.text, rows[i].text);
	}
}

TEST(null_is_nothing_where_the_schema_has_a_name)
{
	AUTO_JSON *schema = json_loads(
		"{\"properties\":{\"a\":{},\"o\":{\"properties\":{\"b\":{}}}}}", 0, NULL);
	AUTO_JSON *given =
		json_loads("{\"a\":null,\"o\":{\"b\":null,\"c\":1},\"x\":null}", 0, NULL);
	AUTO_JSON *expected = json_loads("{\"o\":{\"c\":1},\"x\":null}", 0, NULL);
	AUTO_JSON *got = shape_without_nulls(schema, given);
	AUTO_JSON *same = shape_without_nulls(schema, json_object_get(given, "a"));

	CHECK(json_equal(got, expected));
	CHECK(json_is_null(same));
	CHECK_EQ(json_object_size(given), 3);
}

TESTS(UNIT(what_fits_fits), UNIT(what_does_not_is_named), UNIT(one_of_is_exactly_one),
	UNIT(what_would_do_is_named), UNIT(null_is_nothing_where_the_schema_has_a_name))
