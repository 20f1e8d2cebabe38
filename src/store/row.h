/* Rows as a table describes them, for the backends: plain structs whose texts they own. */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

static inline char **row_text(const struct column *c, const void *row)
{
	return (char **)((const char *)row + c->offset);
}

static inline int64_t *row_int(const struct column *c, const void *row)
{
	return (int64_t *)((const char *)row + c->offset);
}

static inline double *row_real(const struct column *c, const void *row)
{
	return (double *)((const char *)row + c->offset);
}

/* The column with the name that is the first `size` bytes of `name`, or NULL. */
const struct column *row_find_column(const struct table *t, const char *name, size_t size);

bool row_is_null(const struct column *c, const void *row);

/* True when no part of the key is missing. */
bool row_has_key(const struct table *t, const void *row);

/* Below, equal to or above zero; no value is smallest. */
int row_compare(const struct column *c, const void *a, const void *b);
int row_compare_keys(const struct table *t, const void *a, const void *b);

/* A copy on the heap, of all of it or of its key with zeroes behind it. */
void *row_dup(const struct table *t, const void *row);
void *row_dup_key(const struct table *t, const void *row);
void row_free(const struct table *t, void *row); /* NULL is allowed */

/* A growing array of rows. */
struct rows {
	const struct table *table;
	void *data;
	size_t n;
	size_t n_room;
};

/* A further row, zeroed; earlier ones may move. */
void *rows_add(struct rows *rows);
void rows_fini(struct rows *rows);
