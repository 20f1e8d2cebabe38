/* The store: what must outlive the server. Rows of a few tables, written in
 * batches that happen as a whole or not at all, read by key or by query.
 *
 * Everything is asynchronous and belongs to one loop: a call returns at once, and
 * its callback comes later, on the loop, exactly once, in the order of the calls.
 * A read sees every batch that was committed before it was asked for.
 *
 * A batch that was reported as done survives the death of any process of ours; with
 * "full" also a loss of power. Batches that wait together are written together. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct store;
struct store_batch;
typedef struct uv_loop_s uv_loop_t;

/* An integer that is not there: SQL's NULL. A text that is not there is NULL, a
 * real number NAN. */
#define STORE_NULL INT64_MIN

enum column_type {
	COLUMN_TEXT, /* char * */
	COLUMN_INT,  /* int64_t */
	COLUMN_REAL, /* double */
};

struct column {
	const char *name;
	enum column_type type;
	size_t offset; /* in the row */
};

/* Only for what a listing or a sweep asks for: each one is a page more per write. A sorted
 * listing walks an index without sorting when it holds the columns that are compared for
 * equality, then the one sorted by, then the key. */
struct table_index {
	const char *name;
	const char *columns; /* "user_id, started_at, id" */
	bool is_sparse;      /* leaves out rows whose first column has no value */
};

/* A table is described once, in record.c, and every backend works from that. */
struct table {
	const char *name;
	const struct column *columns; /* those of the key first */
	size_t n_columns;             /* at most STORE_COLUMNS_MAX */
	size_t n_keys;                /* how many of them are the key; all COLUMN_TEXT */
	size_t row_size;
	const struct table_index *indexes;
	size_t n_indexes;
};

#define STORE_COLUMNS_MAX 64

/* Free the texts of a row and set all of it to zero. */
void row_fini(const struct table *t, void *row);

/* A deep copy into storage that holds nothing. */
void row_copy(const struct table *t, void *to, const void *from);

/* Open "memory:" or "sqlite:PATH" (made and migrated as needed; one process at a time, -EBUSY
 * otherwise). "trace:URL" logs the calls of what stands behind it, "fault:N:URL" lets the Nth
 * call (commit, get, list or sum) fail with -EIO. 0 with a store the caller must store_free(),
 * or a negative errno. The loop may end while nothing is pending. */
int store_open(
	uv_loop_t *loop, const char *url, bool full_sync, struct store **ret, struct err *err);

/* Finish what was asked for, call every callback from here, and close. NULL is allowed. May be
 * called from any callback. What is asked for meanwhile is answered with -ECANCELED. The loop
 * has to turn once more before uv_loop_close(), as after any uv_close(). */
void store_free(struct store *s);

/* "memory", "sqlite": of what is behind any wrapper. */
const char *store_mode(const struct store *s);

/* Can it be written to? 0, or the negative errno of the last commit if that failed for a
 * reason that is not its own. */
int store_health(const struct store *s);

typedef void store_done_cb(void *ctx, int r);

/* Collect changes, which apply in this order. The rows are copied. A key without a value, a
 * table that is not in `tables` or a column it does not have make the commit fail with -EINVAL. */
struct store_batch *store_batch_new(struct store *s);
void store_batch_free(struct store_batch *b);

void store_batch_put(struct store_batch *b, const struct table *t, const void *row);

/* Fails the whole batch with -EEXIST when a row with this key is there. */
void store_batch_insert(struct store_batch *b, const struct table *t, const void *row);

/* Only the key of `row` is looked at. No such row is no failure. */
void store_batch_delete(struct store_batch *b, const struct table *t, const void *row);

/* Add to an integer column, starting from a row with this key, zeroes and no texts if there is
 * none; never below zero, nor above INT64_MAX. Only the key of `row` is looked at. */
void store_batch_add(struct store_batch *b, const struct table *t, const void *row,
	const char *column, int64_t delta);

/* Write all of it, or nothing. Takes the batch. `done` may be NULL. */
void store_commit(struct store_batch *b, store_done_cb *done, void *ctx);

/* The same when nobody is in a hurry for it: it may stay for STORE_PATIENCE_MS, and is written
 * together with what comes meanwhile. What is asked for after it still sees it. */
#define STORE_PATIENCE_MS 10
void store_commit_patiently(struct store_batch *b, store_done_cb *done, void *ctx);

/* `row` is NULL unless r is 0, and valid during the call. -ENOENT: there is none. */
typedef void store_row_cb(void *ctx, int r, const void *row);

/* The row with the key of `row`. */
void store_get(
	struct store *s, const struct table *t, const void *row, store_row_cb *done, void *ctx);

/* A row without a value in a column passes no filter on it but FILTER_EQ with NULL or
 * STORE_NULL. Texts compare byte by byte. Real columns can not be filtered by. */
enum filter_op {
	FILTER_EQ,
	FILTER_GE,       /* not smaller */
	FILTER_LE,       /* not greater */
	FILTER_CONTAINS, /* text, without regard to case of ASCII letters */
	FILTER_IN,       /* one of a comma-separated list of texts, at most STORE_IN_MAX */
};

#define STORE_IN_MAX 256

struct filter {
	const char *column; /* "a|b" for FILTER_CONTAINS: either of them */
	enum filter_op op;
	const char *text; /* for a text column */
	int64_t number;   /* for an integer column */
};

#define STORE_FILTERS_MAX 16

struct query {
	const struct table *table;
	struct filter filters[STORE_FILTERS_MAX];
	size_t n_filters;
	const char *sort; /* a column; NULL: by key */
	bool descending;
	uint64_t limit; /* 0: none */
	uint64_t offset;
	bool count; /* also say how many there are in all */
};

/* `rows` is an array of n rows of the table, valid during the call; `total` is what
 * query.count asked for. A row without a value sorts as if it were smallest. Equal ones are
 * ordered by key, in the same direction, so that pages neither overlap nor miss one. -EINVAL
 * for a filter or sort column that the table does not have. */
typedef void store_rows_cb(void *ctx, int r, const void *rows, size_t n, uint64_t total);

/* The query is copied. */
void store_list(struct store *s, const struct query *q, store_rows_cb *done, void *ctx);

/* For each group of equal `by` columns: how many rows, and the sums of up to four integer
 * columns, in which no value counts as zero. Used for summaries. -EOVERFLOW for a sum that
 * does not fit. */
#define STORE_SUMS_MAX 4
#define STORE_BY_MAX   2

struct sum_query {
	const struct table *table;
	struct filter filters[STORE_FILTERS_MAX];
	size_t n_filters;
	const char *by; /* up to two text columns, "runtime, phase"; NULL: all is one group */
	const char *sums[STORE_SUMS_MAX]; /* NULL where there are fewer */
	uint64_t limit; /* groups, those with the most rows first, then by `by`; 0: none */
};

struct sum_group {
	const char *by[STORE_BY_MAX]; /* NULL where there is none */
	int64_t n_rows;
	int64_t sums[STORE_SUMS_MAX];
};

/* Groups and their texts are valid during the call. */
typedef void store_sums_cb(void *ctx, int r, const struct sum_group *groups, size_t n);

void store_sum(struct store *s, const struct sum_query *q, store_sums_cb *done, void *ctx);

DEFINE_CLEANUP(struct store, store_free)
DEFINE_CLEANUP(struct store_batch, store_batch_free)
