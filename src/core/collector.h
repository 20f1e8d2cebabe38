/* Moves what comes out of a pipe into a file, by splice(): a server that is killed leaves
 * every byte either in the pipe or in the file, and its successor goes on at the end of the
 * file. */
#pragma once
#include <stdint.h>

#include "base/cleanup.h"

struct collector;
typedef struct uv_loop_s uv_loop_t;

/* `r` is 0 at the end of the pipe, or a negative errno; -EFBIG over the limit, after which
 * the rest was read and dropped. */
typedef void collector_done_cb(void *ctx, int r, uint64_t n_bytes);

/* Takes both descriptors. `done` comes once, later, unless the collector is freed before. */
struct collector *collector_start(uv_loop_t *loop, int pipe_fd, int file_fd, uint64_t max_bytes,
	collector_done_cb *done, void *ctx);

/* Stop, whatever is left. NULL is allowed. */
void collector_free(struct collector *c);
