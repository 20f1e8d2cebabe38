#include "core/utf8.h"

#include <stdbool.h>
#include <string.h>

#include "lib/test.h"

static size_t put_character(uint32_t c, unsigned char *to)
{
	if (c < 0x80) {
		to[0] = (unsigned char)c;
		return 1;
	}
	size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char marks[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = size - 1; i > 0; i--, c >>= 6)
		to[i] = (unsigned char)(0x80 | (c & 0x3f));
	to[0] = (unsigned char)(marks[size] | c);
	return size;
}

TEST(every_character_is_one_and_no_surrogate)
{
	unsigned char data[16];
	size_t tail;

	for (uint32_t c = 0; c < 0x120000; c++) {
		bool is_character = c < 0x110000 && (c < 0xd800 || c > 0xdfff);
		size_t size = put_character(c, data);

		/* at the end of the data, and in its midst: two ways to look at it */
		if ((utf8_span(data, size, &tail) == size) != is_character)
			fail_msg("U+%04x", c);
		memset(data + size, 'x', sizeof(data) - size);
		if ((utf8_span(data, sizeof(data), &tail) == sizeof(data)) != is_character)
			fail_msg("U+%04x before others", c);
	}
}

/* The rules once more, byte by byte and slowly. */
static size_t slow_measure(const unsigned char *p, size_t left)
{
	unsigned char again[4];

	for (size_t size = 1; size <= 4 && size <= left; size++) {
		uint32_t c = p[0];

		if (size > 1)
			c &= 0xffu >> (size + 1);
		for (size_t i = 1; i < size; i++)
			c = c << 6 | (p[i] & 0x3f);
		if (c < 0x110000 && (c < 0xd800 || c > 0xdfff) && put_character(c, again) == size &&
			memcmp(again, p, size) == 0)
			return size;
	}
	return 0;
}

TEST(any_three_bytes_are_judged_alike)
{
	unsigned char data[7] = { 0, 0, 0, 'x', 'x', 'x', 'x' };
	size_t tail;

	for (uint32_t v = 0; v < 1 << 24; v++) {
		memcpy(data, &v, 3);
		if (data[0] < 0xc0 || data[0] > 0xf8)
			continue;
		size_t expected = slow_measure(data, sizeof(data));
		size_t span = utf8_span(data, expected ? expected : sizeof(data), &tail);
		size_t span_of_more = utf8_span(data, sizeof(data), &tail);
		if (span != expected || (span_of_more > 0) != (expected > 0))
			fail_msg("%02x %02x %02x", data[0], data[1], data[2]);
	}
}

TEST(a_character_that_is_not_over_is_a_tail)
{
	static const struct {
		const char *data;
		size_t span, tail;
	} cases[] = {
		{ "", 0, 0 }, { "abc", 3, 0 }, { "abc\xc3", 3, 1 }, { "abc\xe2\x82", 3, 2 },
		{ "abc\xf0\x9f\x98", 3, 3 }, { "abc\xf0\x9f\x98\x80", 7, 0 },
		{ "abc\xe2\xe2", 3, 0 },  /* the first can not go on like this */
		{ "abc\x80", 3, 0 },      /* nothing begins with it */
		{ "\xed\xa0", 0, 0 },     /* a surrogate */
		{ "\xe0\x80", 0, 0 },     /* an overlong form */
		{ "\xf4\x90", 0, 0 },     /* beyond the last */
		{ "\xf8\x88\x80", 0, 0 }, /* five bytes long */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t size = strlen(cases[i].data);
		size_t tail = 99;

		CHECK_EQ(utf8_span(cases[i].data, size, &tail), cases[i].span);
		CHECK_EQ(tail, cases[i].tail);
		CHECK_EQ(utf8_tail(cases[i].data, size), cases[i].tail ? cases[i].tail
							 : i == 6      ? 1u
								       : 0u);
	}
	CHECK_EQ(utf8_tail("\xff\xff\xe2\x82", 4), 2);
	CHECK_EQ(utf8_tail("\x82\x82\x82\x82", 4), 0);
}

TEST(the_first_bad_byte_is_found_wherever_it_is)
{
	unsigned char data[100];
	size_t tail;

	for (size_t size = 1; size <= sizeof(data); size++) {
		for (size_t bad = 0; bad < size; bad++) {
			memset(data, 'a', sizeof(data));
			data[bad] = 0xff;
			CHECK_EQ(utf8_span(data, size, &tail), bad);
			CHECK_EQ(tail, 0);
		}
	}
}

TESTS(UNIT(every_character_is_one_and_no_surrogate), UNIT(any_three_bytes_are_judged_alike),
	UNIT(a_character_that_is_not_over_is_a_tail),
	UNIT(the_first_bad_byte_is_found_wherever_it_is))
