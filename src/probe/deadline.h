/* A point on the monotonic clock before which something must have answered. */
#pragma once
#include <stdint.h>
#include <time.h>

/* Milliseconds of the monotonic clock. */
static inline uint64_t deadline_now(void)
{
	struct timespec t = { 0 };

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* How long poll() may wait until `deadline`: 0 when it is past. */
static inline int deadline_left(uint64_t deadline)
{
	uint64_t now = deadline_now();

	return now < deadline ? (int)(deadline - now) : 0;
}
