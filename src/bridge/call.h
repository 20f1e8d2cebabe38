/* One request to the server and its answer, on a connection of its own until that is over.
 * Never blocks: call_step() is called when poll() says so. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "bridge/answer.h"
#include "bridge/sse.h"

struct call;

#define CALL_BODY_MAX (64u << 20) /* of an answer that is no stream */

/* An event of the answer's stream; it is in `sse`. */
typedef void call_event_fn(void *ctx, const struct sse *sse);

struct call {
	int fd;
	char *head; /* of the request */
	size_t head_size;
	const char *body; /* borrowed */
	size_t body_size;
	size_t n_sent;
	struct answer answer;
	bool is_stream;
	struct sse sse;
	char *text; /* of an answer that is no stream; ends with a NUL */
	size_t text_size;
	call_event_fn *on_event;
	void *ctx;
};

/* Takes `fd` and `head`; `body` must stay. Nothing is sent yet. */
struct call *call_new(int fd, char *head, const char *body, size_t body_size);
void call_free(struct call *c); /* NULL is allowed */

/* What to poll for. */
short call_events(const struct call *c);

/* Go on as far as possible. 0: poll again; 1: the answer is complete; negative: the connection
 * is of no use any more (-ECONNRESET when the server hung up). */
int call_step(struct call *c);

/* After 1: the connection, for another call, or -1 if it can not be used again. */
int call_take_fd(struct call *c);
