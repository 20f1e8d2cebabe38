/* The filters and the order of a list, from the parameters of a request to a query of the
 * store: each list has a table that says what may be asked of it. Pure but for reading the
 * parameters. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct problem;

#define FILTERS_TEXT_MAX 512u /* bytes of a value */

enum filters_kind {
	FILTERS_TEXT,   /* as it is */
	FILTERS_WORD,   /* one of `words`; "any" stands for no filter where it is one of them */
	FILTERS_STAMP,  /* a moment, in a column of text */
	FILTERS_SECOND, /* a moment, in a column of whole seconds */
};

struct filters_row {
	const char *name; /* of the parameter */
	const char *column;
	enum filter_op op;
	enum filters_kind kind;
	const char *const *words; /* ends with NULL */
};

struct filters_table {
	const struct table *table;
	const struct filters_row *rows; /* ends with one without a name; at most 16 */
	const char *const *sorts;       /* columns, ends with NULL; the first is the usual one */
};

/* What the parameters come to. Texts that were made for it are in here, so it stays where it
 * is for as long as the query is used. */
struct filters {
	struct query query;
	char texts[STORE_FILTERS_MAX][32];
};

/* Parameters that a list may have: its filters, sort, limit and offset. */
#define FILTERS_NAMES_MAX (STORE_FILTERS_MAX + 3u)

/* Their names, ended by NULL. */
void filters_list_names(const struct filters_table *table, const char *ret[FILTERS_NAMES_MAX + 1]);

/* The value of a parameter, or NULL. */
typedef const char *filters_get_fn(void *ctx, const char *name);

/* Fill `ret` but for its limit and offset. `sort` may be "asc", "desc", a column, or both as
 * "column:desc"; the usual order is descending. -1 with a problem that names the parameter.
 * The values must live as long as `ret`. */
int filters_read(const struct filters_table *table, filters_get_fn *get, void *ctx,
	struct filters *ret, struct problem *problem);
