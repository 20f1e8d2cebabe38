#include "api/input.h"

#include <string.h>

#include "lib/test.h"

static struct input parse(const char *text)
{
	return input_parse(text, strlen(text));
}

static void check_data(const char *text, const void *data, size_t size)
{
	struct input in = parse(text);

	CHECK_EQ(in.kind, INPUT_DATA);
	CHECK_EQ(in.size, size);
	CHECK_MEM(in.data, data, size);
	input_fini(&in);
	CHECK(in.data == NULL);
}

TEST(data_comes_as_text_or_in_base64)
{
	check_data("{\"type\":\"stdin\",\"encoding\":\"utf8\",\"data\":\"h\\u00e4\\n\"}",
		"h\xc3\xa4\n", 4);
	check_data("{\"type\":\"stdin\",\"data\":\"x\",\"more\":[]}", "x", 1);
	check_data("{\"type\":\"stdin\",\"data\":\"a\\u0000b\"}", "a\0b", 3);
	check_data("{\"type\":\"stdin\",\"encoding\":\"base64\",\"data\":\"AP8=\"}", "\0\xff", 2);
}

TEST(what_a_frame_may_have_fits_a_message)
{
	CHECK_EQ(input_message_max(1), 64 << 10);
	CHECK_EQ(input_message_max(65536), 6 * 65536 + 1024);
	CHECK_EQ(input_message_max(1 << 20), (6 << 20) + 1024);
	CHECK_EQ(input_message_max(UINT64_MAX), 8 << 20);
}

TEST(an_end_is_an_end)
{
	CHECK_EQ(parse("{\"type\":\"stdin_close\"}").kind, INPUT_CLOSE);
	CHECK_EQ(parse("{\"type\":\"stdin_close\",\"data\":1}").kind, INPUT_CLOSE);
}

TEST(all_else_is_nothing)
{
	static const char *const texts[] = {
		"",
		"x",
		"null",
		"[]",
		"{}",
		"{\"type\":1}",
		"{\"type\":\"stdout\",\"data\":\"x\"}",
		"{\"type\":\"stdin\"}",
		"{\"type\":\"stdin\",\"data\":\"\"}",
		"{\"type\":\"stdin\",\"data\":1}",
		"{\"type\":\"stdin\\u0000\",\"data\":\"x\"}",
		"{\"type\":\"stdin\",\"data\":\"x\",\"encoding\":\"utf8\\u0000\"}",
		"{\"type\":\"stdin\",\"data\":\"x\",\"encoding\":null}",
		"{\"type\":\"stdin\",\"data\":\"x\",\"encoding\":\"utf16\"}",
		"{\"type\":\"stdin\",\"data\":\"AP8\",\"encoding\":\"base64\"}",
		"{\"type\":\"stdin\",\"data\":\"x\"",
		"{\"type\":\"stdin\",\"data\":\"x\"} ,",
		"{\"type\":\"stdin\",\"type\":\"stdin\",\"data\":\"x\"}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct input in = parse(texts[i]);
		if (in.kind != INPUT_NONE || in.data)
			fail_msg("'%s'", texts[i]);
	}
}

TESTS(UNIT(data_comes_as_text_or_in_base64), UNIT(what_a_frame_may_have_fits_a_message),
	UNIT(an_end_is_an_end), UNIT(all_else_is_nothing))
