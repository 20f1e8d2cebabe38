#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/store_memory.h"

/* Rows that match, borrowed from the tree. */
struct matches {
	const struct selection *selection;
	const void **rows;
	size_t n;
	size_t n_room;
};

static void visit(const void *node, VISIT when, void *ctx)
{
	const struct memory_item *item = *(const struct memory_item *const *)node;
	struct matches *found = ctx;

	if ((when != postorder && when != leaf) || !selection_matches(found->selection, item->row))
		return;
	if (found->n == found->n_room) {
		found->n_room = found->n_room ? 2 * found->n_room : 64;
		found->rows = reallocarray(found->rows, found->n_room, sizeof(*found->rows));
		if (!found->rows)
			abort();
	}
	found->rows[found->n++] = item->row;
}

static struct matches find_matches(struct memory *m, const struct selection *s)
{
	struct matches found = { .selection = s };

	twalk_r(m->roots[selection_find_table(s->table)], visit, &found);
	return found;
}

static int compare_listed(const void *a, const void *b, void *ctx)
{
	const struct listing *l = ctx;
	const void *x = *(const void *const *)a;
	const void *y = *(const void *const *)b;
	int r = l->sort ? row_compare(l->sort, x, y) : 0;

	if (r == 0)
		r = row_compare_keys(l->selection.table, x, y);
	return l->descending ? -r : r;
}

int memory_list(struct memory *m, struct operation *op)
{
	struct listing *l = &op->list.listing;
	struct matches found = find_matches(m, &l->selection);
	AUTO_FREE const void **rows = found.rows;

	if (found.n > 1)
		qsort_r(rows, found.n, sizeof(*rows), compare_listed, l);
	uint64_t end = found.n;
	if (l->limit && l->offset < end && end - l->offset > l->limit)
		end = l->offset + l->limit;
	for (uint64_t i = l->offset; i < end; i++)
		row_copy(l->selection.table, rows_add(&op->list.rows), rows[i]);
	op->list.total = l->count ? found.n : 0;
	return 0;
}

static int compare_by(const void *a, const void *b, void *ctx)
{
	const struct summing *s = ctx;
	const void *x = *(const void *const *)a;
	const void *y = *(const void *const *)b;
	int r = 0;

	for (size_t i = 0; i < s->n_by && r == 0; i++)
		r = row_compare(s->by[i], x, y);
	return r;
}

static int add_to_group(const struct summing *s, struct sum_group *g, const void *row)
{
	g->n_rows++;
	for (size_t i = 0; i < STORE_SUMS_MAX; i++) {
		if (!s->sums[i] || row_is_null(s->sums[i], row))
			continue;
		if (__builtin_add_overflow(g->sums[i], *row_int(s->sums[i], row), &g->sums[i]))
			return -EOVERFLOW;
	}
	return 0;
}

static struct sum_group *new_group(struct operation *op, const void *row)
{
	const struct summing *s = &op->sum.summing;
	struct sum_group *g = &op->sum.groups[op->sum.n_groups++];

	for (size_t i = 0; i < s->n_by; i++) {
		const char *text = *row_text(s->by[i], row);
		g->by[i] = text ? xstrdup(text) : NULL;
	}
	return g;
}

static int compare_texts(const char *a, const char *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return strcmp(a, b);
}

static int compare_groups(const void *a, const void *b)
{
	const struct sum_group *x = a;
	const struct sum_group *y = b;
	int r = (x->n_rows < y->n_rows) - (x->n_rows > y->n_rows);

	for (size_t i = 0; i < STORE_BY_MAX && r == 0; i++)
		r = compare_texts(x->by[i], y->by[i]);
	return r;
}

int memory_sum(struct memory *m, struct operation *op)
{
	struct summing *s = &op->sum.summing;
	struct matches found = find_matches(m, &s->selection);
	AUTO_FREE const void **rows = found.rows;
	struct sum_group *g = NULL;
	int r = 0;

	if (found.n > 1)
		qsort_r(rows, found.n, sizeof(*rows), compare_by, s);
	op->sum.groups = xcalloc(found.n, sizeof(*op->sum.groups));
	if (s->n_by == 0)
		g = new_group(op, NULL); /* also when there is no row at all */
	for (size_t i = 0; i < found.n && r == 0; i++) {
		if (!g || (i > 0 && compare_by(&rows[i - 1], &rows[i], s) != 0))
			g = new_group(op, rows[i]);
		r = add_to_group(s, g, rows[i]);
	}
	qsort(op->sum.groups, op->sum.n_groups, sizeof(*op->sum.groups), compare_groups);
	return r;
}
