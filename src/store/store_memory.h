/* For store_memory*.c only: rows in trees, one per table, in the order of their keys. */
#pragma once
#include "store/store_backend.h"

struct post;

#define MEMORY_TABLES_MAX 16

/* tsearch() compares without a context, so each node knows its table. */
struct memory_item {
	const struct table *table;
	void *row;
};

struct memory {
	struct store store;
	struct post *post;
	void *roots[MEMORY_TABLES_MAX]; /* in the order of `tables` */
};

/* Fill in the answer of an operation of this kind; 0 or a negative errno. */
int memory_list(struct memory *m, struct operation *op);
int memory_sum(struct memory *m, struct operation *op);
