/* How many boxes wait for a run: as many as were missing lately, as far as memory allows, and few
 * when nobody comes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/warm.h"

struct boxed;

enum stock_image {
	STOCK_HOST,
	STOCK_IMPORTED,
	STOCK_IMAGES,
};

/* So many wait as long as anything is made ahead at all. */
#define STOCK_MIN 2u

/* Nobody came for that long: what waits beyond those goes. */
#define STOCK_IDLE_MS UINT64_C(10000)

struct stock {
	struct boxed *boxes;
	size_t n;
	size_t n_wanted; /* 0 counts as STOCK_MIN */
	size_t n_max;
	uint64_t used_ns;                      /* when one was last asked for, CLOCK_MONOTONIC */
	struct warm_stock tally[STOCK_IMAGES]; /* how many are being made is not said here */
};

/* There can be as many as fit into `bytes` when one takes `bytes_each`. */
void stock_limit(struct stock *s, uint64_t bytes, uint64_t bytes_each);

/* One was asked for, and was there or not. */
void stock_count(struct stock *s, enum stock_image image, bool was_there, uint64_t now_ns);

/* How many there should be now, of those that suit. */
size_t stock_wanted(const struct stock *s, uint64_t now_ns);

/* And how many there may be, with those that do not: they are left for who may come for them. */
size_t stock_most(const struct stock *s, uint64_t now_ns);

/* Milliseconds, one at least, until there are too many, if nobody comes; -1: never. */
int stock_surplus_ms(const struct stock *s, uint64_t now_ns);
