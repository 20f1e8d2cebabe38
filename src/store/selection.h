/* A query that was checked: the names in it are columns of the table, the texts are copies.
 * Backends work from this alone, so no name or operator comes from outside. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

/* How many columns FILTER_CONTAINS may name. */
#define CONDITION_COLUMNS_MAX 4

struct condition {
	enum filter_op op;
	const struct column *columns[CONDITION_COLUMNS_MAX]; /* any of them */
	size_t n_columns;
	bool is_null; /* with FILTER_EQ: has no value */
	char *text;   /* of FILTER_CONTAINS in small letters */
	int64_t number;
};

struct selection {
	const struct table *table;
	struct condition conditions[STORE_FILTERS_MAX]; /* all of them */
	size_t n_conditions;
};

struct listing {
	struct selection selection;
	const struct column *sort; /* NULL: by key */
	bool descending;
	uint64_t limit; /* 0: none */
	uint64_t offset;
	bool count;
};

struct summing {
	struct selection selection;
	const struct column *by[STORE_BY_MAX];
	size_t n_by;
	const struct column *sums[STORE_SUMS_MAX]; /* NULL where none was asked for */
	uint64_t limit;
};

/* 0 or -EINVAL; to be released in both cases. */
int listing_init(struct listing *l, const struct query *q);
void listing_fini(struct listing *l);
int summing_init(struct summing *s, const struct sum_query *q);
void summing_fini(struct summing *s);

/* True when the row fulfils every condition: what the words in store.h mean. */
bool selection_matches(const struct selection *s, const void *row);

/* Take the next item of a list of FILTER_IN; NULL when there is no more. `*rest` starts as
 * the text of the condition. */
const char *selection_next_item(const char **rest, size_t *ret_size);

/* The place of a table in `tables`, or -EINVAL. */
int selection_find_table(const struct table *t);
