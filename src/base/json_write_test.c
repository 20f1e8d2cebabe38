#include "base/json_write.h"

#include <float.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "lib/test.h"

/* Jansson is what says how it is written. */
static void check_same(const json_t *json, unsigned digits)
{
	size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits);
	size_t size = 0;
	AUTO_FREE char *plain = json_write(json, 0, digits, &size);
	AUTO_FREE char *sorted = json_write(json, JSON_WRITE_SORTED, digits, NULL);
	AUTO_FREE char *want = json_dumps(json, flags);
	AUTO_FREE char *want_sorted = json_dumps(json, flags | JSON_SORT_KEYS);

	CHECK(want && want_sorted);
	CHECK_STR(plain, want);
	CHECK_STR(sorted, want_sorted);
	CHECK_EQ(size, strlen(want));
}

TEST(every_kind_of_value_is_written_as_by_jansson)
{
	static const char *const texts[] = {
		"{}",
		"[]",
		"null",
		"[true,false,null,0,-1,10,99,100]",
		"{\"b\":1,\"a\":{\"z\":[],\"y\":{}},\"B\":[[1],[{\"d\":2,\"c\":3}]],\"\":0,\"aa\":1}",
		"\"\\u007f \\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u001f\\u0001\"",
		"{\"\\u00fc\":\"\\u20ac \\ud83d\\ude00 \\u2028\",\"\\ue000\":1,\"\\ud83d\\ude00\":2}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		AUTO_JSON *json = NULL;

		CHECK_EQ(json_read(texts[i], strlen(texts[i]), &json, NULL), 0);
		check_same(json, 0);
	}
}

TEST(numbers_are_written_as_by_jansson)
{
	static const double reals[] = { 0.0, -0.0, 1.0, 0.1, 4.0, 0.003, 1e15, 1e16, 1e17, 1e-7,
		123456.789, DBL_MAX, -DBL_MIN, 2.0 / 3 };
	static const json_int_t integers[] = { 0, 9, 10, -10, LLONG_MAX, LLONG_MIN };

	for (size_t i = 0; i < ARRAY_SIZE(reals); i++) {
		AUTO_JSON *json = json_real(reals[i]);

		check_same(json, 0);
		check_same(json, 15);
		check_same(json, 6);
	}
	for (size_t i = 0; i < ARRAY_SIZE(integers); i++) {
		AUTO_JSON *json = json_integer(integers[i]);

		check_same(json, 0);
	}
}

TEST(every_byte_of_a_text_is_written_as_by_jansson)
{
	char all[0x80];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)i;
	AUTO_JSON *json = json_pack("[o]", json_stringn(all, sizeof(all)));
	check_same(json, 0);
}

TEST(a_text_longer_than_its_first_room_is_whole)
{
	AUTO_JSON *json = json_array();

	for (int i = 0; i < 5000; i++)
		(void)json_array_append_new(
			json, json_pack("{s:i,s:s}", "n", i, "text", "a\nb\"c"));
	check_same(json, 0);
	/* Ends at, before and behind the end of the room. */
	for (int size = 480; size < 540; size++) {
		AUTO_FREE char *text = xcalloc(1, (size_t)size + 1);

		memset(text, 'x', (size_t)size);
		AUTO_JSON *one = json_string(text);
		check_same(one, 0);
	}
}

TESTS(UNIT(every_kind_of_value_is_written_as_by_jansson), UNIT(numbers_are_written_as_by_jansson),
	UNIT(every_byte_of_a_text_is_written_as_by_jansson),
	UNIT(a_text_longer_than_its_first_room_is_whole))
