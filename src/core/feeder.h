/* Work that blocks, done in a thread of libuv's pool, with its end told on the loop. The
 * usual kind writes a pack stream into the socket of a box; there is no other way to find out
 * how much a box will take. */
#pragma once
#include "base/err.h"

struct feeder;
typedef struct uv_loop_s uv_loop_t;

/* In the thread: 0 or a negative errno with a sentence. */
typedef int feeder_fn(void *ctx, int fd, struct err *err);

/* On the loop, once. */
typedef void feeder_done_cb(void *ctx, int r, const struct err *err);

/* Call `work` with `fd` (taken, closed after it; -1 for none), then `done`. */
void feeder_start(uv_loop_t *loop, int fd, feeder_fn *work, feeder_done_cb *done, void *ctx);

/* Whoever they work for ends: have all of this loop's that are under way tell `done` before
 * this returns. What did not begin never does, with -ECANCELED; what writes into a socket
 * finds it shut; for all others it waits. */
void feeder_finish_all(uv_loop_t *loop);
