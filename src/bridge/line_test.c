#include "bridge/line.h"

#include <string.h>

#include "lib/test.h"

/* Feed `text` in pieces of `step` bytes; lines, and "!" for each that is too long, go to `out`,
 * each followed by "|". */
static void feed(const char *text, size_t step, size_t max, char *out)
{
	struct line_reader r = { .max = max };
	size_t size = strlen(text);
	char *line = NULL;
	size_t n = 0;
	int got;

	*out = '\0';
	for (size_t at = 0; at <= size; at += step) {
		size_t room = 0;
		char *to = line_room(&r, &room);
		size_t piece = size - at < step ? size - at : step;

		CHECK(room >= piece);
		memcpy(to, text + at, piece);
		line_added(&r, piece);
		while ((got = line_next(&r, at + step > size, &line, &n)) != 0) {
			if (got < 0)
				n = 1;
			memcpy(out, got > 0 ? line : "!", n);
			out += n;
			memcpy(out++, "|", 2);
		}
	}
	line_fini(&r);
}

static void check(const char *text, size_t max, const char *want)
{
	char out[256];

	for (size_t step = 1; step <= strlen(text) + 1; step++) {
		feed(text, step, max, out);
		CHECK_STR(out, want);
	}
}

TEST(lines_are_found_however_they_are_cut)
{
	check("one\ntwo\r\n\nlast", 10, "one|two||last|");
	check("", 10, "");
	check("\n", 10, "|");
}

TEST(a_line_that_is_too_long_is_told_once_and_skipped)
{
	check("12345\n123456\n1\n", 5, "12345|!|1|");
	check("123456789012345\nab\n1234567", 5, "!|ab|!|");
}

TESTS(UNIT(lines_are_found_however_they_are_cut),
	UNIT(a_line_that_is_too_long_is_told_once_and_skipped))
