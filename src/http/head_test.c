#include "http/head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

/* Everything points into the text, so it stays until the next. */
static char text[20000];

static int parse(const char *from, struct head *ret)
{
	struct head_fault fault = { 0 };
	size_t scanned = 0;
	size_t size = head_find_end(from, strlen(from), &scanned);

	CHECK(size > 0 && size < sizeof(text));
	memset(text, 0, sizeof(text));
	memcpy(text, from, size);
	memset(ret, 0, sizeof(*ret));
	return head_parse(text, size, ret, &fault) < 0 ? fault.status : 0;
}

TEST(a_request_is_understood)
{
	struct head h;

	CHECK_EQ(parse("POST /a%20b?x=1&y HTTP/1.1\r\nHost: example\r\nContent-Length: 12\r\n"
		       "X-Custom:  some value \t\r\nEMPTY:\r\n\r\n",
			 &h),
		0);
	CHECK_STR(h.method, "POST");
	CHECK_STR(h.path, "/a%20b");
	CHECK_STR(h.query, "x=1&y");
	CHECK_EQ(h.length, 12);
	CHECK_EQ(h.n_fields, 4);
	CHECK_STR(head_find(&h, "x-custom"), "some value");
	CHECK_STR(head_find(&h, "empty"), "");
	CHECK(!head_find(&h, "other"));
	CHECK(h.keeps_alive && !h.is_chunked && !h.is_old && !h.wants_websocket);
}

TEST(wishes_are_understood)
{
	struct head h;

	CHECK_EQ(parse("GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, Close\r\n\r\n", &h), 0);
	CHECK(!h.keeps_alive);
	CHECK_EQ(parse("GET / HTTP/1.0\r\n\r\n", &h), 0);
	CHECK(h.is_old && !h.keeps_alive);
	CHECK_EQ(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &h), 0);
	CHECK(h.keeps_alive);
	CHECK_EQ(parse("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n"
		       "Expect: 100-Continue\r\n\r\n",
			 &h),
		0);
	CHECK(h.is_chunked && h.expects_continue);
	CHECK_EQ(parse("GET / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", &h), 0);
	CHECK(!h.expects_continue); /* there is nothing to wait for */
	CHECK_EQ(parse("GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
		       "Upgrade: WebSocket\r\n\r\n",
			 &h),
		0);
	CHECK(h.wants_websocket);
	CHECK_EQ(parse("GET http://example:80/a?b HTTP/1.1\r\nHost: x\r\n\r\n", &h), 0);
	CHECK_STR(h.path, "/a");
	CHECK_STR(h.query, "b");
}

#define GET  "GET / HTTP/1.1\r\nHost: x\r\n"
#define POST "POST / HTTP/1.1\r\nHost: x\r\n"

static const struct {
	const char *text;
	int status;
} refused[] = {
	{ "GET /\r\n\r\n", 400 },
	{ "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ " / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET /\x80 HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 505 },
	{ "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505 },
	{ "GET / FTP/1.1\r\nHost: x\r\n\r\n", 400 },
	{ "GET / HTTP/1.1\r\n\r\n", 400 },
	{ GET "Host: y\r\n\r\n", 400 },
	{ GET "Authorization: a\r\nauthorization: a\r\n\r\n", 400 },
	{ GET "X-API-KEY: a\r\nx-api-key: b\r\n\r\n", 400 },
	{ GET "Broken\r\n\r\n", 400 },
	{ GET ": nameless\r\n\r\n", 400 },
	{ GET "Spaced : x\r\n\r\n", 400 },
	{ GET " folded\r\n\r\n", 400 },
	{ GET "X: a\r\n folded\r\n\r\n", 400 },
	{ GET "X: a\nY: b\r\n\r\n", 400 },
	{ GET "X: a\rb\r\n\r\n", 400 },
	{ GET "X: a\x01\r\n\r\n", 400 },
	{ POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400 },
	{ POST "Content-Length: 1, 1\r\n\r\n", 400 },
	{ POST "Content-Length: -1\r\n\r\n", 400 },
	{ POST "Content-Length: +1\r\n\r\n", 400 },
	{ POST "Content-Length: 0x1\r\n\r\n", 400 },
	{ POST "Content-Length:\r\n\r\n", 400 },
	{ POST "Content-Length: 99999999999999999999\r\n\r\n", 400 },
	{ POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501 },
	{ POST "Transfer-Encoding: identity\r\n\r\n", 501 },
	{ "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400 },
	{ POST "Expect: miracles\r\nContent-Length: 1\r\n\r\n", 417 },
};

TEST(what_is_malformed_is_refused)
{
	struct head h;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		print_message("%s", refused[i].text);
		CHECK_EQ(parse(refused[i].text, &h), refused[i].status);
	}
}

TEST(a_nul_is_refused)
{
	char head[] = GET "X: a.b\r\n\r\n";
	struct head_fault fault = { 0 };
	struct head h = { 0 };

	*strchr(head, '.') = '\0';
	CHECK_EQ(head_parse(head, sizeof(head) - 1, &h, &fault), -EBADMSG);
	CHECK_EQ(fault.status, 400);
}

TEST(there_are_limits)
{
	static char long_target[HEAD_TARGET_MAX + 100];
	static char many[HEAD_FIELDS_MAX * 8 + 100];
	struct head h;

	char *at = stpcpy(long_target, "GET /");
	memset(at, 'x', HEAD_TARGET_MAX);
	(void)stpcpy(at + HEAD_TARGET_MAX, " HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK_EQ(parse(long_target, &h), 414);
	at = stpcpy(many, GET);
	for (unsigned i = 0; i < HEAD_FIELDS_MAX; i++)
		at = stpcpy(at, "A: b\r\n");
	(void)stpcpy(at, "\r\n");
	CHECK_EQ(parse(many, &h), 431);
}

TEST(the_end_is_found_however_it_is_cut)
{
	static const char head[] = GET "A: b\r\n\r\nbody\r\n\r\n";
	size_t want = (size_t)(strstr(head, "body") - head);

	for (size_t step = 1; step < sizeof(head); step++) {
		size_t scanned = 0;
		size_t found = 0;

		for (size_t n = step; found == 0; n += step)
			found = head_find_end(
				head, n < sizeof(head) ? n : sizeof(head) - 1, &scanned);
		CHECK_EQ(found, want);
	}
}

TEST(words_of_a_list_are_found)
{
	CHECK(head_has_word("gzip, br;q=0.5", "br"));
	CHECK(head_has_word("GZIP", "gzip"));
	CHECK(!head_has_word("gzipped", "gzip"));
	CHECK(!head_has_word("", "gzip"));
	CHECK(!head_has_word(NULL, "gzip"));
	CHECK(!head_has_word("a;gzip", "gzip"));
}

TESTS(UNIT(a_request_is_understood), UNIT(wishes_are_understood),
	UNIT(what_is_malformed_is_refused), UNIT(a_nul_is_refused), UNIT(there_are_limits),
	UNIT(the_end_is_found_however_it_is_cut), UNIT(words_of_a_list_are_found))
