/* How many boxes wait for a run: as many as were missing lately, as far as memory allows, and few
 * when nobody comes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boxed;

/* So many wait as long as anything is made ahead at all. */
#define STOCK_MIN 2u

/* Nobody came for that long: what waits beyond those goes. */
#define STOCK_IDLE_MS UINT64_C(10000)

struct stock {
	struct boxed *boxes;
	size_t n;
	size_t n_wanted; /* 0 counts as STOCK_MIN */
	size_t n_max;
	uint64_t used_ns; /* when one was last asked for, CLOCK_MONOTONIC */
	uint64_t n_hits;
	uint64_t n_misses;
	uint64_t n_made;
	uint64_t made_ns; /* what that took */
};

/* There can be as many as fit into `bytes` when one takes `bytes_each`. */
void stock_limit(struct stock *s, uint64_t bytes, uint64_t bytes_each);

/* One was asked for, and was there or not. */
void stock_count(struct stock *s, bool was_there, uint64_t now_ns);

/* How many there should be now, of those that suit. */
size_t stock_wanted(const struct stock *s, uint64_t now_ns);

/* And how many there may be, with those that do not: they are left for who may come for them. */
size_t stock_most(const struct stock *s, uint64_t now_ns);
