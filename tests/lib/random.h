/* Numbers that look random and are the same in every run, so that a test which
 * failed once fails again. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The next number; `*state` may start as anything. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* One of 0 ... n - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

/* Any of `min` ... `max`. */
static inline uint64_t random_between(uint64_t *state, uint64_t min, uint64_t max)
{
	return min + random_below(state, max - min + 1);
}
