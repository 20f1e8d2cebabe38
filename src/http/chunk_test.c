#include "http/chunk.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

/* Feed `text` in pieces of `step` bytes; what was read goes to `out`. Returns the number of
 * bytes taken, or the error. */
static int feed(const char *text, size_t step, char *out)
{
	struct chunk c = { 0 };
	size_t size = strlen(text);
	size_t at = 0;
	size_t n_out = 0;

	while (at < size && !chunk_is_over(&c)) {
		const char *piece = NULL;
		size_t n_piece = 0;
		size_t n = size - at < step ? size - at : step;
		int r = chunk_read(&c, text + at, n, &piece, &n_piece);
		if (r < 0)
			return r;
		memcpy(out + n_out, piece, n_piece);
		n_out += n_piece;
		at += (size_t)r;
	}
	out[n_out] = '\0';
	return chunk_is_over(&c) ? (int)at : -EAGAIN;
}

TEST(a_body_is_read_however_it_is_cut)
{
	static const char text[] = "4\r\nWiki\r\n5;name=\"value\"\r\npedia\r\nA\r\n0123456789\r\n"
				   "00\r\nTrailer: x\r\nMore: y\r\n\r\nnext";
	char out[64];

	for (size_t step = 1; step < sizeof(text); step++) {
		CHECK_EQ(feed(text, step, out), sizeof(text) - 1 - strlen("next"));
		CHECK_STR(out, "Wikipedia0123456789");
	}
}

TEST(an_empty_body_ends_at_once)
{
	char out[64];

	CHECK_EQ(feed("0\r\n\r\n", 1, out), 5);
	CHECK_STR(out, "");
}

TEST(what_is_malformed_is_refused)
{
	static const char *const bad[] = { "\r\n", "x\r\n", "-1\r\n", "1\nx", "1\rx", "1\r\nxy\r\n",
		"1\r\nx\n", "1\r\nx\rx", "0\r\nX: y\n", "0\r\n\rx", ";\r\n", "1;\nx",
		"1000000000000000\r\n", "0x1\r\n" };
	char out[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		print_message("%zu\n", i);
		CHECK_EQ(feed(bad[i], 1, out), -EBADMSG);
		CHECK_EQ(feed(bad[i], 100, out), -EBADMSG);
	}
}

TEST(extensions_and_trailers_have_limits)
{
	static char text[CHUNK_TRAILER_MAX + 64];
	char out[64];

	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, "1;", 2);
	CHECK_EQ(feed(text, 100, out), -EBADMSG);
	memcpy(text, "0\r\n", 3);
	CHECK_EQ(feed(text, 100, out), -EBADMSG);
}

TESTS(UNIT(a_body_is_read_however_it_is_cut), UNIT(an_empty_body_ends_at_once),
	UNIT(what_is_malformed_is_refused), UNIT(extensions_and_trailers_have_limits))
