#include "api/outcome.h"

#include <string.h>

#include "base/json.h"
#include "lib/test.h"

static void check_text(const char *data, size_t size, bool is_cut, const char *expected)
{
	AUTO_JSON *o = json_object();

	outcome_add_text(o, "stdout", data, size, is_cut);
	AUTO_FREE char *text = json_canonical(o);
	CHECK_STR(text, expected);
}

TEST(text_stays_text)
{
	check_text("h\xc3\xa4\n", 4, false,
		"{\"stdout\":\"h\xc3\xa4\\n\",\"stdout_encoding\":\"utf8\",\"stdout_truncated\":false}");
	check_text("", 0, false,
		"{\"stdout\":\"\",\"stdout_encoding\":\"utf8\",\"stdout_truncated\":false}");
	check_text("a\0b", 3, true,
		"{\"stdout\":\"a\\u0000b\",\"stdout_encoding\":\"utf8\",\"stdout_truncated\":true}");
}

TEST(what_is_no_text_loses_nothing)
{
	check_text("\xff\xfe", 2, false,
		"{\"stdout\":\"//4=\",\"stdout_encoding\":\"base64\",\"stdout_truncated\":false}");
	/* Not cut by us: the guest itself ended there. */
	check_text("a\xc3", 2, false,
		"{\"stdout\":\"YcM=\",\"stdout_encoding\":\"base64\",\"stdout_truncated\":false}");
}

TEST(a_character_that_was_cut_goes)
{
	check_text("a\xc3", 2, true,
		"{\"stdout\":\"a\",\"stdout_encoding\":\"utf8\",\"stdout_truncated\":true}");
	check_text("a\xff\xc3", 3, true,
		"{\"stdout\":\"Yf/D\",\"stdout_encoding\":\"base64\",\"stdout_truncated\":true}");
}

static void check_tail(const char *data, size_t size, const char *expected)
{
	AUTO_JSON *o = json_object();

	outcome_add_tail(o, "stdout", data, size);
	AUTO_FREE char *text = json_dumps(o, JSON_COMPACT);
	CHECK_STR(text, expected);
}

TEST(an_end_begins_with_a_whole_character)
{
	check_tail("end", 3, "{\"stdout_tail\":\"end\",\"stdout_tail_encoding\":\"utf8\"}");
	check_tail("\xa4"
		   "b",
		2, "{\"stdout_tail\":\"b\",\"stdout_tail_encoding\":\"utf8\"}");
	check_tail("\xa4\xff", 2, "{\"stdout_tail\":\"pP8=\",\"stdout_tail_encoding\":\"base64\"}");
}

TESTS(UNIT(an_end_begins_with_a_whole_character), UNIT(text_stays_text),
	UNIT(what_is_no_text_loses_nothing), UNIT(a_character_that_was_cut_goes))
