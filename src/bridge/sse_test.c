#include "bridge/sse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"

#define OUT_SIZE 256

/* Feed `text` in pieces of `step` bytes; "data#id|" of each message goes to `out`. */
static void feed(struct sse *s, const char *text, size_t step, char *out)
{
	size_t size = strlen(text);

	*out = '\0';
	for (size_t at = 0; at < size;) {
		bool has_event = false;
		size_t piece = size - at < step ? size - at : step;
		int n = sse_feed(s, text + at, piece, &has_event);

		CHECK(n > 0);
		at += (size_t)n;
		if (has_event && s->is_message)
			(void)snprintf(out + strlen(out), OUT_SIZE - strlen(out), "%s#%s|", s->data,
				s->id);
	}
}

static void check(const char *text, const char *want)
{
	for (size_t step = 1; step <= strlen(text); step++) {
		struct sse s = { 0 };
		char out[OUT_SIZE];

		feed(&s, text, step, out);
		CHECK_STR(out, want);
		sse_fini(&s);
	}
}

TEST(events_are_found_however_they_are_cut)
{
	check("data: one\n\n", "one#|");
	check("id: 7\nevent: message\ndata: {\"a\":1}\n\n: ping\n\ndata:two\n\n",
		"{\"a\":1}#7|two#7|");
	check("data: a\r\ndata: b\r\n\r\ndata\rid:9\r\r", "a\nb#|#9|");
	check("event: other\ndata: x\n\ndata: y\n\n", "y#|");
	check("data: never finished\n", "");
	check("id: 1\nretry: 50\ndata:\n\n", "#1|");
	check("id: 3\n\n", "");
}

TEST(the_time_to_come_back_and_the_last_id_stay)
{
	struct sse s = { 0 };
	char out[OUT_SIZE];

	feed(&s, "id: 3\nretry: 250\n\nretry: soon\nretry: 99999999999\n\n", 5, out);
	CHECK_STR(s.id, "3");
	CHECK(s.has_retry);
	CHECK_EQ(s.retry_ms, 250);
	sse_fini(&s);
}

TEST(an_event_has_a_limit_and_so_has_an_id)
{
	struct sse s = { 0 };
	size_t size = 1u << 20;
	char *piece = malloc(size);
	bool has_event = false;
	int r = 0;

	memset(piece, 'x', size);
	CHECK_EQ(sse_feed(&s, "id: 1\nid: ", 10, &has_event), 10);
	CHECK_EQ(sse_feed(&s, piece, 600, &has_event), 600);
	CHECK_EQ(sse_feed(&s, "\ndata: ", 7, &has_event), 7);
	CHECK_STR(s.id, "1");
	for (int i = 0; i < 65 && r >= 0; i++)
		r = sse_feed(&s, piece, size, &has_event);
	CHECK_EQ(r, -E2BIG);
	free(piece);
	sse_fini(&s);
}

TESTS(UNIT(events_are_found_however_they_are_cut), UNIT(the_time_to_come_back_and_the_last_id_stay),
	UNIT(an_event_has_a_limit_and_so_has_an_id))
