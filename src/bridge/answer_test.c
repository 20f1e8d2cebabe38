#include "bridge/answer.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/test.h"

/* Feed `text` in pieces; the body goes to `out`. 1 when it is over, 0 if not, or the error. */
static int feed(struct answer *a, const char *text, size_t step, char *out)
{
	size_t size = strlen(text);
	size_t n_out = 0;

	for (size_t at = 0; at < size && !a->is_over;) {
		const char *piece = NULL;
		size_t n_piece = 0;
		int n = answer_read(
			a, text + at, size - at < step ? size - at : step, &piece, &n_piece);

		if (n < 0)
			return n;
		memcpy(out + n_out, piece, n_piece);
		n_out += n_piece;
		at += (size_t)n;
	}
	out[n_out] = '\0';
	return a->is_over ? 1 : 0;
}

static struct answer *check(const char *text, int want, const char *body)
{
	static struct answer a;
	char out[256];

	for (size_t step = 1; step <= strlen(text); step++) {
		a = (struct answer){ 0 };
		CHECK_EQ(feed(&a, text, step, out), want);
		if (want >= 0)
			CHECK_STR(out, body);
	}
	return &a;
}

TEST(bodies_have_a_length_or_chunks_or_are_none)
{
	const struct answer *a = check("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
				       "mcp-session-id: abc-1\r\nContent-Length: 5\r\n\r\nhello",
		1, "hello");

	CHECK_EQ(a->status, 200);
	CHECK(a->keeps_alive);
	CHECK_STR(a->type, "application/json");
	CHECK_STR(a->session, "abc-1");
	a = check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
		  "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
		1, "abcde");
	CHECK(!a->keeps_alive);
	a = check("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 1, "");
	CHECK_EQ(a->status, 202);
	(void)check("HTTP/1.1 204 No Content\r\n\r\n", 1, "");
	(void)check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", 0, "abc");
}

TEST(what_is_no_answer_is_refused)
{
	static const char *const bad[] = {
		"HTTP/1.0 200 OK\r\n\r\n",
		"HTTP/1.1 2x0 OK\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 200 OK\r\nMcp-Session-Id: a b\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		(void)check(bad[i], -EBADMSG, "");
}

TEST(a_head_has_a_limit)
{
	static struct answer a;
	static char text[ANSWER_HEAD_MAX + 64];
	char out[64];

	memset(text, 'x', sizeof(text) - 1);
	CHECK_EQ(feed(&a, text, 1000, out), -EBADMSG);
}

TESTS(UNIT(bodies_have_a_length_or_chunks_or_are_none), UNIT(what_is_no_answer_is_refused),
	UNIT(a_head_has_a_limit))
