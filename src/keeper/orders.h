/* Boxes that somebody else was asked to make, in the order in which they were asked for. */
#pragma once
#include <stddef.h>

struct boxed;

struct orders {
	struct boxed *first;
	size_t n;
};

void orders_add(struct orders *o, struct boxed *b);

/* That which is due next, taken out; NULL when nobody waits for one. */
struct boxed *orders_next(struct orders *o);
