#include "base/json_field.h"

#include <string.h>

#include "base/str.h"
#include "lib/test.h"

TEST(a_place_has_a_path)
{
	static const struct {
		const char *text;
		const char *field;
	} rows[] = {
		{ "", "" },
		{ "12", "" },
		{ "{", "" },
		{ "{\"a", "a" },
		{ "{\"a\"", "a" },
		{ "{\"a\": 1", "a" },
		{ "{\"a\": \"b", "a" },
		{ "{\"a\": \"b\"", "a" },
		{ "{\"a\":1,", "" },
		{ "{\"a\":1,\"b\":\"{[,\\\"\",\"c\":", "c" },
		{ "{\"a\":{\"b\":[1,{\"c\":NaN", "a.b[1].c" },
		{ "{\"a\":{\"b\":[1,[2,3", "a.b[1][1]" },
		{ "{\"a\":{\"b\":[1]}", "a" },
		{ "{\"a\":{\"b\":[1]},\"d\":2", "d" },
		{ "[", "[0]" },
		{ "[[],[],{\"x\":", "[2].x" },
		{ "{\"a\\\"b\":", "a\\\"b" },
		{ "{\"\":", "" },
		{ "{\"a\":{\"\":1", "a." },
		{ "{\"a\xff\n\":", "a??" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char field[JSON_FIELD_SIZE];

		json_field_at(rows[i].text, strlen(rows[i].text), field);
		CHECK_STR(field, rows[i].field);
	}
}

TEST(what_is_no_json_does_no_harm)
{
	static const char *const texts[] = { "]]}}", "}{\"a\":", "{\"a\\", ",,,", "{,\"a\":" };
	static const char *const fields[] = { "", "a", "a\\", "", "a" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char field[JSON_FIELD_SIZE];

		json_field_at(texts[i], strlen(texts[i]), field);
		CHECK_STR(field, fields[i]);
	}
}

TEST(a_long_path_is_cut)
{
	char text[4096] = "{\"";
	char field[JSON_FIELD_SIZE];

	memset(text + 2, 'k', sizeof(text) - 2);
	json_field_at(text, sizeof(text), field);
	CHECK_EQ(strlen(field), JSON_FIELD_SIZE - 1);
	CHECK_STR(field + strlen(field) - 4, "k...");
	memset(text, '[', sizeof(text));
	json_field_at(text, sizeof(text), field);
	CHECK_EQ(strlen(field), JSON_FIELD_SIZE - 1);
	CHECK(str_after(field, "[0][0][0]") != NULL);
	CHECK_STR(field + strlen(field) - 3, "...");
}

TESTS(UNIT(a_place_has_a_path), UNIT(what_is_no_json_does_no_harm), UNIT(a_long_path_is_cut))
