/* For the tests of src/store: a store on a loop of its own, calls that wait for their answer,
 * and a way to run a test against every backend. */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store/record.h"
#include "store/row.h"
#include "store/store.h"

/* Rows own their texts; those of tests are constants. */
#define T(text) ((char *)(text))

struct harness {
	uv_loop_t loop;
	struct store *store;
	struct scratch dir;
	char url[128];
};

static inline void harness_open(struct harness *h)
{
	struct err err = { 0 };

	if (store_open(&h->loop, h->url, false, &h->store, &err) < 0)
		fail_msg("%s", err.text);
}

/* `kind` is a URL in which '@' stands for the directory. */
static inline struct harness *harness_new(const char *kind)
{
	struct harness *h = xnew(struct harness);
	const char *at = strchr(kind, '@');

	scratch_make(&h->dir);
	if (at)
		(void)snprintf(h->url, sizeof(h->url), "%.*s%s%s", (int)(at - kind), kind,
			h->dir.path, at + 1);
	else
		(void)snprintf(h->url, sizeof(h->url), "%s", kind);
	CHECK_EQ(uv_loop_init(&h->loop), 0);
	harness_open(h);
	return h;
}

static inline void harness_close(struct harness *h)
{
	store_free(TAKE(h->store));
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
}

static inline void harness_free(struct harness *h)
{
	harness_close(h);
	CHECK_EQ(uv_loop_close(&h->loop), 0);
	scratch_remove(&h->dir);
	free(h);
}

static inline void harness_freep(struct harness **h)
{
	harness_free(*h);
}

/* What a callback was told, with copies of the rows. */
struct answer {
	int n_calls;
	int r;
	struct rows rows;
	uint64_t total;
	struct sum_group groups[16];
	char texts[16][STORE_BY_MAX][64];
	size_t n_groups;
};

static inline void answer_fini(struct answer *a)
{
	if (a->rows.table)
		rows_fini(&a->rows);
}

#define ANSWER(name, table_)                                                                       \
	CLEANUP(answer_fini) struct answer name = { .r = 1, .rows.table = (table_) }

static inline void on_done(void *ctx, int r)
{
	struct answer *a = ctx;

	a->n_calls++;
	a->r = r;
}

static inline void on_row(void *ctx, int r, const void *row)
{
	struct answer *a = ctx;

	on_done(ctx, r);
	CHECK_EQ(r == 0, row != NULL);
	if (row)
		row_copy(a->rows.table, rows_add(&a->rows), row);
}

static inline void on_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	struct answer *a = ctx;

	on_done(ctx, r);
	a->total = total;
	for (size_t i = 0; i < n; i++)
		row_copy(a->rows.table, rows_add(&a->rows),
			(const char *)rows + i * a->rows.table->row_size);
}

static inline void on_sums(void *ctx, int r, const struct sum_group *groups, size_t n)
{
	struct answer *a = ctx;

	on_done(ctx, r);
	CHECK(n <= ARRAY_SIZE(a->groups));
	a->n_groups = n;
	for (size_t i = 0; i < n; i++) {
		a->groups[i] = groups[i];
		for (size_t j = 0; j < STORE_BY_MAX; j++) {
			const char *by = groups[i].by[j];
			(void)snprintf(a->texts[i][j], sizeof(a->texts[i][j]), "%s", by ? by : "-");
		}
	}
}

/* Runs until nothing is pending, and checks that the answer came, once. */
static inline int harness_wait(struct harness *h, const struct answer *a)
{
	CHECK_EQ(a->n_calls, 0);
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
	CHECK_EQ(a->n_calls, 1);
	return a->r;
}

static inline int harness_commit(struct harness *h, struct store_batch *b)
{
	struct answer a = { .r = 1 };

	store_commit(b, on_done, &a);
	return harness_wait(h, &a);
}

static inline int harness_put(struct harness *h, const struct table *t, const void *row)
{
	struct store_batch *b = store_batch_new(h->store);

	store_batch_put(b, t, row);
	return harness_commit(h, b);
}

/* The row is the first of a->rows. */
static inline int harness_get(
	struct harness *h, const struct table *t, const void *key, struct answer *a)
{
	store_get(h->store, t, key, on_row, a);
	return harness_wait(h, a);
}

static inline int harness_list(struct harness *h, const struct query *q, struct answer *a)
{
	store_list(h->store, q, on_rows, a);
	return harness_wait(h, a);
}

static inline int harness_sum(struct harness *h, const struct sum_query *q, struct answer *a)
{
	store_sum(h->store, q, on_sums, a);
	return harness_wait(h, a);
}

/* "a b c": the first part of the key of each row, in order. */
static inline const char *answer_keys(const struct answer *a, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < a->rows.n && used < size; i++) {
		const char *row = (const char *)a->rows.data + i * a->rows.table->row_size;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "",
			*row_text(&a->rows.table->columns[0], row));
	}
	return buf;
}

/* Every number without a value. */
static inline struct run_row harness_run(const char *id)
{
	return (struct run_row){
		.id = T(id),
		.exit_code = STORE_NULL,
		.signal = STORE_NULL,
		.expires_sec = STORE_NULL,
	};
}

struct harness_case {
	const char *name;
	CMUnitTestFunction run;
};

#define HARNESS_CASE(name)                                                                         \
	{                                                                                          \
#name, name                                                                        \
	}
#define HARNESS_CASES_MAX 64

static const char *const harness_urls[] = {
	"memory:",
	"sqlite:@/store.db",
	"trace:memory:",
	"trace:sqlite:@/store.db",
};

static inline int harness_set_up(void **state)
{
	*state = harness_new(*state);
	return 0;
}

static inline int harness_tear_down(void **state)
{
	harness_free(*state);
	return 0;
}

/* Run every case against every backend; `*state` is the harness. */
static inline int harness_main(const struct harness_case *cases, size_t n_cases)
{
	static struct CMUnitTest tests[HARNESS_CASES_MAX];
	static char names[HARNESS_CASES_MAX][128];
	int n_failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(harness_urls); i++) {
		for (size_t j = 0; j < n_cases; j++) {
			(void)snprintf(names[j], sizeof(names[j]), "%s %s", harness_urls[i],
				cases[j].name);
			tests[j] = (struct CMUnitTest){ names[j], cases[j].run, harness_set_up,
				harness_tear_down, (void *)harness_urls[i] };
		}
		n_failed += _cmocka_run_group_tests(harness_urls[i], tests, n_cases, NULL, NULL);
	}
	return n_failed;
}
