/* What the keeper's loop does, step by step, and which step took so long that everybody had to
 * wait. A loop can say this only afterwards; meanwhile a server says so, to whose PING nothing
 * comes back. */
#pragma once
#include <stdint.h>

/* More than this is a stall. */
#define PACE_STALL_NS UINT64_C(2000000000)

struct pace {
	const char *step;  /* what is being done; static text; NULL: it sleeps */
	uint64_t since_ns; /* CLOCK_MONOTONIC */
	uint64_t n_stalls;
	uint64_t last_ms; /* of the last stall */
	const char *last_step;
};

/* The step before is done, and this one begins at `now_ns`. */
void pace_step(struct pace *p, const char *step, uint64_t now_ns);

/* It sleeps from now on. */
void pace_sleep(struct pace *p, uint64_t now_ns);

/* It slept, and was to be woken after `timeout_ms` (-1: never) at the latest. */
void pace_wake(struct pace *p, int timeout_ms, uint64_t now_ns);
