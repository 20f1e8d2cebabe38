/* Notices that our loop stands still, for more than WATCHDOG_STALL_MS. A timer of the loop notes
 * that it goes round; a thread looks at the note, and writes to the log while the loop can not.
 * When it goes round again, the timer tells for how long it did not. */
#pragma once
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct watchdog;
typedef struct uv_loop_s uv_loop_t;

#define WATCHDOG_STALL_MS 2000u

/* On the loop: it stood still for so long, and was at `step`. */
typedef void watchdog_cb(void *ctx, uint64_t ms, const char *step);

/* From the thread of the loop. The caller owns `*ret`. */
int watchdog_start(
	uv_loop_t *loop, watchdog_cb *stalled, void *ctx, struct watchdog **ret, struct err *err);

/* Ends the thread; the loop frees the rest. NULL is allowed. */
void watchdog_close(struct watchdog *w);
