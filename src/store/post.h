/* The way of executed operations back to the loop, for backends. Any thread may send; the
 * callbacks are called on the loop, never from inside a call of the store. The loop is kept
 * running only while something is pending. */
#pragma once
#include "store/store_backend.h"

struct post;

/* 0 with a post that post_close() releases, or a negative errno. */
int post_open(uv_loop_t *loop, struct post **ret);

/* One more operation is pending. On the loop's thread. */
void post_expect(struct post *p);

/* Hand over executed operations, all of which were expected. From any thread. */
void post_send(struct post *p, struct operations *done);

/* Answer all that was sent, then close. On the loop's thread, and nobody sends any more
 * but from the callbacks. The memory is released by the loop's next turn. */
void post_close(struct post *p);
