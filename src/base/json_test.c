#include "base/json.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/test.h"

static int read_text(const char *text, json_t **ret, struct err *err)
{
	return json_read(text, strlen(text), ret, err);
}

TEST(equal_values_have_one_canonical_text)
{
	AUTO_JSON *a = NULL;
	AUTO_JSON *b = NULL;

	CHECK_EQ(read_text("{\"b\": [1, 2.0], \"a\": \"x\"}", &a, NULL), 0);
	CHECK_EQ(read_text("{\"a\":\"\\u0078\",\"b\":[1,2.0]}", &b, NULL), 0);
	AUTO_FREE char *of_a = json_canonical(a);
	AUTO_FREE char *of_b = json_canonical(b);
	CHECK_STR(of_a, of_b);
	CHECK_STR(of_a, "{\"a\":\"x\",\"b\":[1,2.0]}");
}

TEST(what_is_bad_is_refused_with_a_place)
{
	static const char *const bad[] = {
		"",
		"{",
		"{\"a\":1,\"a\":2}",
		"{\"a\":NaN}",
		"{\"a\":Infinity}",
		"{\"a\":9223372036854775808}",
		"{\"a\":1e999}",
		"\"\\u0000\"",
		"\"\xff\"",
		"{} x",
		"{'a':1}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *json = NULL;
		struct err err = { 0 };

		CHECK_EQ(read_text(bad[i], &json, &err), -EBADMSG);
		CHECK(strstr(err.text, "line ") == err.text);
		CHECK(json == NULL);
	}
}

/* Only what was asked for, and within the same bounds. */
TEST(some_may_be_taken_all_the_same)
{
	static const char nul[] = "{\"a\":\"x\\u0000y\"}";
	static const char twice[] = "{\"a\":1,\"a\":2}";
	static const char nul_key[] = "{\"a\\u0000\":1}";
	AUTO_JSON *json = NULL;
	AUTO_JSON *other = NULL;
	json_t *none = NULL;

	CHECK_EQ(json_read_loosely(nul, strlen(nul), JSON_TAKES_NUL, &json, NULL), 0);
	CHECK_EQ(json_string_length(json_object_get(json, "a")), 3);
	CHECK_EQ(json_read_loosely(twice, strlen(twice), JSON_TAKES_TWICE, &other, NULL), 0);
	CHECK_EQ(json_integer_value(json_object_get(other, "a")), 2);
	CHECK_EQ(json_read_loosely(nul, strlen(nul), JSON_TAKES_TWICE, &none, NULL), -EBADMSG);
	CHECK_EQ(json_read_loosely(twice, strlen(twice), JSON_TAKES_NUL, &none, NULL), -EBADMSG);
	CHECK_EQ(
		json_read_loosely(nul_key, strlen(nul_key), JSON_TAKES_NUL, &none, NULL), -EBADMSG);
	char deep[JSON_DEPTH_MAX + 1];
	memset(deep, '[', sizeof(deep));
	CHECK_EQ(json_read_loosely(deep, sizeof(deep), JSON_TAKES_NUL, &none, NULL), -EBADMSG);
	CHECK(none == NULL);
}

TEST(what_is_wrong_is_said_and_where)
{
	static const struct {
		const char *text, *field, *sentence;
	} rows[] = {
		{ "{\"a\":[1,NaN]}", "a[1]", "line 1, column 11: NaN is no JSON number" },
		{ "{\"a\":-Infinity}", "a", "line 1, column 6: Infinity is no JSON number" },
		{ "{\"a\":9223372036854775808}", "a",
			"line 1, column 24: the number is too large for 64 bits" },
		{ "{\"a\":{\"b\":1e999}}", "a.b",
			"line 1, column 15: the number is too large for 64 bits" },
		{ "{\"a\":\"\\u0000\"}", "a",
			"line 1, column 13: a NUL character (\\u0000) is not allowed in a text" },
		{ "{\"a\\u0000\":1}", "a\\u0000",
			"line 1, column 10: a NUL character (\\u0000) is not allowed in a key" },
		{ "{\"a\":{\"b\":1,\n\"b\":2}}", "a.b",
			"line 2, column 3: a duplicate key: it stands twice in one object" },
		{ "{\"a\":\"x\xff\"}", "a", "line 1, column 7: the text is not valid UTF-8" },
		{ "{\"a\":banan}", "a",
			"line 1, column 10: this is no JSON: invalid token near 'banan'" },
		{ "{\"a\":\"NaN\n\"}", "a",
			"line 1, column 9: this is no JSON: unexpected newline near '\"NaN'" },
		{ "nope", "", "line 1, column 4: this is no JSON: invalid token near 'nope'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *json = NULL;
		struct err err = { 0 };
		char field[JSON_FIELD_SIZE];

		CHECK_EQ(json_read_field(rows[i].text, strlen(rows[i].text), &json, field, &err),
			-EBADMSG);
		CHECK_STR(err.text, rows[i].sentence);
		CHECK_STR(field, rows[i].field);
		CHECK(json == NULL);
	}
}

TEST(what_is_nested_too_deeply_has_a_field)
{
	char text[JSON_DEPTH_MAX + 6] = "{\"a\":";
	json_t *json = NULL;
	char field[JSON_FIELD_SIZE];

	memset(text + 5, '[', JSON_DEPTH_MAX);
	CHECK_EQ(json_read_field(text, JSON_DEPTH_MAX + 5, &json, field, NULL), -EBADMSG);
	CHECK(str_after(field, "a[0][0]") != NULL);
}

TEST(nesting_has_an_end)
{
	char text[2 * JSON_DEPTH_MAX + 3];
	json_t *json = NULL;
	struct err err = { 0 };

	memset(text, '[', JSON_DEPTH_MAX);
	memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
	CHECK_EQ(json_read(text, (size_t)2 * JSON_DEPTH_MAX, &json, NULL), 0);
	json_decref(json);
	json = NULL;
	memset(text, '[', JSON_DEPTH_MAX + 1);
	memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
	CHECK_EQ(json_read(text, (size_t)2 * JSON_DEPTH_MAX + 2, &json, &err), -EBADMSG);
	CHECK(strstr(err.text, "deeper") != NULL);
	CHECK(json == NULL);
}

TEST(the_number_of_values_has_an_end)
{
	size_t size = 2 * JSON_VALUES_MAX;
	AUTO_FREE char *text = xcalloc(1, size + 2);
	json_t *json = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < size; i += 2)
		memcpy(text + i, "1,", 2);
	text[0] = '['; /* "[11,1,1" and so on: itself, and n - 1 values */
	text[1] = '1';
	text[size - 1] = ']';
	CHECK_EQ(json_read(text, size, &json, NULL), 0);
	json_decref(json);
	json = NULL;
	memcpy(text + size - 1, ",1]", 3);
	CHECK_EQ(json_read(text, size + 2, &json, &err), -EBADMSG);
	CHECK(strstr(err.text, "values") != NULL);
	CHECK(json == NULL);
}

TEST(brackets_in_strings_do_not_count)
{
	AUTO_JSON *json = NULL;

	CHECK_EQ(
		read_text("[\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
			  "[[[[\"]",
			&json, NULL),
		0);
}

TEST(only_what_is_missing_is_set)
{
	AUTO_JSON *json = json_pack("{s:i}", "here", 1);

	json_set_missing(json, "here", json_integer(2));
	json_set_missing(json, "new", json_integer(3));
	json_set_missing(json, "null", json_null());
	json_set_missing(json, "none", NULL);
	AUTO_FREE char *text = json_canonical(json);
	CHECK_STR(text, "{\"here\":1,\"new\":3}");
}

TESTS(UNIT(equal_values_have_one_canonical_text), UNIT(what_is_bad_is_refused_with_a_place),
	UNIT(some_may_be_taken_all_the_same), UNIT(what_is_wrong_is_said_and_where),
	UNIT(what_is_nested_too_deeply_has_a_field), UNIT(nesting_has_an_end),
	UNIT(the_number_of_values_has_an_end), UNIT(brackets_in_strings_do_not_count),
	UNIT(only_what_is_missing_is_set))
