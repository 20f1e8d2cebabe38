/* The body of a text/event-stream, piece by piece: events with their data, id, and the time
 * after which to come back. Lines end with "\n", "\r\n" or "\r". Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSE_EVENT_MAX (64u << 20) /* bytes of one event's data */
#define SSE_ID_MAX    512u        /* of an id; a longer one is ignored */
#define SSE_LINE_MAX  (SSE_EVENT_MAX + 16u)

/* All zero at first. What is in it after an event is that event's. */
struct sse {
	char *line; /* what is there of the present one */
	size_t line_size;
	size_t line_room;
	bool has_cr; /* the last line ended with one: a "\n" that follows is part of that */
	char *data;  /* joined by "\n", ended by a NUL that does not count */
	size_t data_size;
	size_t data_room;
	bool has_data;
	bool is_begun;
	bool is_over;            /* the event was given out; the next begins */
	bool is_message;         /* its type is "message", or not named */
	char id[SSE_ID_MAX + 1]; /* the last one that was said, of any event; "" for none */
	bool has_retry;
	uint64_t retry_ms;
};

void sse_fini(struct sse *s);

/* Take bytes until an event is complete or they are used up. Returns how many were taken, with
 * `*ret_event` telling whether there is one; or -E2BIG. An event without data, which servers
 * send for its id, is none, but its id counts. */
int sse_feed(struct sse *s, const char *data, size_t size, bool *ret_event);
