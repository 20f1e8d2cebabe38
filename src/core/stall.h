/* A loop that stood still: ours, or the keeper's. Nobody is served while one does. Kept by the
 * service, for each of the two, on our loop only; counted, and told by /readyz. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct metrics;

#define STALL_STEP_MAX 63

struct stall {
	const char *loop;              /* "server" or "keeper", in metrics */
	uint64_t since_ns;             /* CLOCK_MONOTONIC; 0: it goes round, so far as is known */
	uint64_t last_ms;              /* how long it stood still last; 0: it never did */
	uint64_t ended_ns;             /* and until when, since 1970 */
	char step[STALL_STEP_MAX + 1]; /* and at what */
};

/* It stands still, since then. */
void stall_begin(struct stall *s, struct metrics *m, uint64_t since_ns);

/* It did, for so long; stall_begin() may not have been called. */
void stall_end(struct stall *s, struct metrics *m, uint64_t ms, const char *step);

/* How long it has stood still by now, for the gauge. */
void stall_count(const struct stall *s, struct metrics *m);

/* {"stall": {"since", "seconds"} or null, "last_stall": {"until", "seconds", "step"} or null} */
json_t *stall_json(const struct stall *s);
