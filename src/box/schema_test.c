#include "box/schema.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

/* clang-format off */
static const struct field fields[] = {
	{ "name", JSON_STRING, true },
	{ "size", JSON_INTEGER },
	{ "list", JSON_ARRAY },
	{ "more", JSON_OBJECT },
	{ 0 },
};

static const struct word words[] = {
	{ "one", 1 },
	{ "two", 2 },
	{ 0 },
};
/* clang-format on */

static const struct place top = { "" };

static void drop_jsonp(json_t **value)
{
	json_decref(*value);
}

#define AUTO_JSON CLEANUP(drop_jsonp) json_t

static json_t *parse(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	CHECK(value != NULL);
	return value;
}

TEST(objects_have_their_fields_and_no_others)
{
	/* clang-format off */
	static const struct {
		const char *text;
		const char *says; /* NULL when it is right */
	} rows[] = {
		{ "{\"name\":\"x\"}", NULL },
		{ "{\"name\":\"x\",\"size\":1,\"list\":[],\"more\":{}}", NULL },
		{ "{\"name\":\"x\",\"size\":null,\"list\":null,\"more\":null}", NULL },
		{ "{}", "name is missing" },
		{ "{\"name\":null}", "name is not a string" },
		{ "{\"name\":\"x\",\"size\":1.0}", "size is not an integer" },
		{ "{\"name\":\"x\",\"size\":true}", "size is not an integer" },
		{ "{\"name\":\"x\",\"list\":{}}", "list is not an array" },
		{ "{\"name\":\"x\",\"more\":[]}", "more is not an object" },
		{ "{\"name\":\"x\",\"Size\":1}", "Size is not a known field" },
		{ "[]", "it is not an object" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *value = parse(rows[i].text);
		struct err err = { 0 };

		CHECK_EQ(schema_check(value, fields, &top, &err), rows[i].says ? -EINVAL : 0);
		CHECK_STR(err.text, rows[i].says ? rows[i].says : "");
	}
}

TEST(places_are_paths_and_stay_within_their_room)
{
	struct place list = place_field(&top, "list");
	struct place item = place_item(&list, 12);
	struct place p = place_field(&item, "name");

	CHECK_STR(p.text, "list[12].name");
	for (size_t i = 0; i < 50; i++) {
		p = place_field(&p, "a_rather_long_name_of_a_field_that_goes_on_and_on");
		p = place_item(&p, SIZE_MAX);
	}
	CHECK(strlen(p.text) < sizeof(p.text));
}

TEST(arrays_of_strings_hold_nothing_else)
{
	AUTO_JSON *good = parse("[\"a\",\"b\"]");
	AUTO_JSON *bad = parse("[\"a\",1]");
	AUTO_JSON *null = parse("null");
	struct place at = place_field(&top, "list");
	struct err err = { 0 };

	CHECK_EQ(schema_check_strings(good, &at, &err), 0);
	CHECK_EQ(schema_check_strings(null, &at, &err), 0);
	CHECK_EQ(schema_check_strings(NULL, &at, &err), 0);
	CHECK_EQ(schema_check_strings(bad, &at, &err), -EINVAL);
	CHECK_STR(err.text, "list[1] is not a string");
	CHECK(schema_has_string(good, "b"));
	CHECK(!schema_has_string(good, "c"));
	CHECK(!schema_has_string(null, "b"));
}

TEST(words_and_numbers_are_looked_up_and_bounded)
{
	AUTO_JSON *object = parse("{\"size\":7,\"less\":-1,\"null\":null}");
	struct place at = place_field(&top, "word");
	struct err err = { 0 };
	uint32_t word = 77;
	uint64_t number = 77;

	CHECK_EQ(schema_parse_word("three", words, &at, &word, &err), -EINVAL);
	CHECK_STR(err.text, "word: 'three' is not one we know");
	CHECK_EQ(word, 77);
	CHECK_EQ(schema_parse_word("two", words, &at, &word, &err), 0);
	CHECK_EQ(word, 2);
	CHECK_EQ(schema_get_u64(object, "size", 6, &top, &number, &err), -EINVAL);
	CHECK_STR(err.text, "size is not between 0 and 6");
	CHECK_EQ(schema_get_u64(object, "less", 6, &top, &number, &err), -EINVAL);
	CHECK_EQ(number, 77);
	CHECK_EQ(schema_get_u64(object, "size", 7, &top, &number, &err), 0);
	CHECK_EQ(number, 7);
	CHECK_EQ(schema_get_u64(object, "none", 7, &top, &number, &err), 0);
	CHECK_EQ(number, 0);
	CHECK_EQ(schema_get_u64(object, "null", 7, &top, &number, &err), 0);
	CHECK_EQ(number, 0);
}

TESTS(UNIT(objects_have_their_fields_and_no_others),
	UNIT(places_are_paths_and_stay_within_their_room),
	UNIT(arrays_of_strings_hold_nothing_else),
	UNIT(words_and_numbers_are_looked_up_and_bounded))
