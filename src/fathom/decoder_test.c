#include "fathom/decoder.h"

#include <string.h>

#include "base/str.h"
#include "core/utf8.h"
#include "lib/random.h"
#include "lib/test.h"

#define LOST "\xef\xbf\xbd"

/* `data` in pieces of `step` bytes, and its end. */
static size_t decode(const char *data, size_t size, size_t step, char *ret)
{
	struct decoder d = { 0 };
	size_t n = 0;

	for (size_t at = 0; at < size; at += step)
		n += decoder_feed(&d, data + at, size - at < step ? size - at : step, ret + n);
	n += decoder_end(&d, ret + n);
	ret[n] = '\0';
	return n;
}

static void check(const char *data, const char *text)
{
	char got[256];

	for (size_t step = 1; step <= strlen(data); step++) {
		(void)decode(data, strlen(data), step, got);
		CHECK_STR(got, text);
	}
}

TEST(text_stays_what_it_is_wherever_it_is_cut)
{
	check("plain", "plain");
	check("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80!", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80!");
	check("a\xf4\x8f\xbf\xbf", "a\xf4\x8f\xbf\xbf");
}

TEST(what_is_none_is_replaced)
{
	check("\xff", LOST);
	check("a\x80z", "a" LOST "z");
	check("\xff\xfe", LOST LOST);
	check("\xe2\x82", LOST);      /* cut off by the end: one that began */
	check("\xe2\x82x", LOST "x"); /* ... or by what comes */
	check("\xf0\x9f\x98x", LOST "x");
	check("\xe2\xe2\x82\xac", LOST "\xe2\x82\xac");
	check("\xc0\xaf", LOST LOST);          /* overlong */
	check("\xed\xa0\x80", LOST LOST LOST); /* a surrogate */
	check("\xf4\x90\x80\x80", LOST LOST LOST LOST);
}

TEST(a_beginning_waits_for_its_rest)
{
	struct decoder d = { 0 };
	char got[64];

	CHECK_EQ(decoder_feed(&d, "x\xe2", 2, got), 1);
	CHECK_EQ(decoder_feed(&d, "", 0, got), 0);
	CHECK_EQ(decoder_feed(&d, "\x82", 1, got), 0);
	CHECK_EQ(decoder_feed(&d, "\xacy", 2, got), 4);
	CHECK_MEM(got, "\xe2\x82\xacy", 4);
	CHECK_EQ(decoder_end(&d, got), 0);
}

TEST(any_bytes_become_the_same_text_however_they_come)
{
	enum { SIZE = 64 };
	uint64_t random = 7;

	for (int i = 0; i < 20000; i++) {
		char data[SIZE], whole[DECODER_ROOM(SIZE) + 1], parts[2 * DECODER_ROOM(SIZE)];
		size_t tail;

		for (size_t k = 0; k < SIZE; k++)
			data[k] = "\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4\xff\x80za\xed\xa0\xf4"
				[random_below(&random, 16)];
		size_t n = decode(data, SIZE, SIZE, whole);
		CHECK(n <= DECODER_ROOM(SIZE));
		CHECK_EQ(utf8_span(whole, n, &tail), n);
		CHECK_EQ(decode(data, SIZE, 1 + random_below(&random, 9), parts), n);
		CHECK_MEM(whole, parts, n);
	}
}

TESTS(UNIT(text_stays_what_it_is_wherever_it_is_cut), UNIT(what_is_none_is_replaced),
	UNIT(a_beginning_waits_for_its_rest),
	UNIT(any_bytes_become_the_same_text_however_they_come))
