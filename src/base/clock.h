/* The two clocks we use: one to measure with, one to tell people. */
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Never goes back; for deadlines and durations. */
static inline uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Since 1970; for timestamps. */
static inline uint64_t clock_realtime_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}
