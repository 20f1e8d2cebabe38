/* Rows in trees, one per table: nothing outlives the process. This is the reference, which
 * shows by the shortest way what store.h promises. Operations are executed when they are
 * submitted, and answered by the loop. */
#include "store/store_memory.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/str.h"
#include "store/post.h"

static int compare_items(const void *a, const void *b)
{
	const struct memory_item *x = a;
	const struct memory_item *y = b;

	return row_compare_keys(x->table, x->row, y->row);
}

static void **find_root(struct memory *m, const struct table *t)
{
	return &m->roots[selection_find_table(t)];
}

static struct memory_item *find_item(struct memory *m, const struct table *t, const void *key)
{
	struct memory_item probe = { t, (void *)key };
	struct memory_item **node = tfind(&probe, find_root(m, t), compare_items);

	return node ? *node : NULL;
}

static void insert_item(struct memory *m, const struct table *t, void *row)
{
	struct memory_item *item = xnew(struct memory_item);

	*item = (struct memory_item){ t, row };
	if (!tsearch(item, find_root(m, t), compare_items))
		abort();
}

static void remove_item(struct memory *m, struct memory_item *item)
{
	(void)tdelete(item, find_root(m, item->table), compare_items);
	free(item);
}

/* Put `row`, which is taken, into the place of `key`, or remove what is there if it is NULL.
 * What was there before, now the caller's. */
static void *replace(struct memory *m, const struct table *t, const void *key, void *row)
{
	struct memory_item *item = find_item(m, t, key);
	void *old = item ? item->row : NULL;

	if (item && row)
		item->row = row;
	else if (item)
		remove_item(m, item);
	else if (row)
		insert_item(m, t, row);
	return old;
}

static int change_put(const struct change *c, const void *old, void **ret)
{
	(void)old;
	*ret = row_dup(c->table, c->row);
	return 0;
}

static int change_insert(const struct change *c, const void *old, void **ret)
{
	return old ? -EEXIST : change_put(c, old, ret);
}

static int change_delete(const struct change *c, const void *old, void **ret)
{
	(void)c;
	(void)old;
	*ret = NULL;
	return 0;
}

static int64_t add(int64_t value, int64_t delta)
{
	int64_t sum = 0;

	if (value == STORE_NULL)
		value = 0;
	if (__builtin_add_overflow(value, delta, &sum))
		sum = delta > 0 ? INT64_MAX : 0;
	return sum < 0 ? 0 : sum;
}

static int change_add(const struct change *c, const void *old, void **ret)
{
	void *row = row_dup(c->table, old ? old : c->row);
	int64_t *value = row_int(c->column, row);

	*value = add(*value, c->delta);
	*ret = row;
	return 0;
}

/* What takes the place of `old`, which may be NULL; NULL for nothing. */
static int (*const changers[CHANGE_KINDS])(const struct change *c, const void *old, void **ret) = {
	[CHANGE_PUT] = change_put,
	[CHANGE_INSERT] = change_insert,
	[CHANGE_DELETE] = change_delete,
	[CHANGE_ADD] = change_add,
};

static int apply(struct memory *m, const struct change *c, void **ret_old)
{
	struct memory_item *item = find_item(m, c->table, c->row);
	void *row = NULL;
	int r = changers[c->kind](c, item ? item->row : NULL, &row);

	if (r == 0)
		*ret_old = replace(m, c->table, c->row, row);
	return r;
}

/* All of it or nothing. */
static int run_commit(struct memory *m, struct operation *op)
{
	const struct store_batch *b = op->commit.batch;
	AUTO_FREE void **olds = xcalloc(b->n_changes, sizeof(*olds));
	size_t n = 0;
	int r = 0;

	while (n < b->n_changes && r == 0) {
		r = apply(m, &b->changes[n], &olds[n]);
		if (r == 0)
			n++;
	}
	/* After a failure what was done is taken back, the last first. */
	while (n-- > 0) {
		const struct change *c = &b->changes[n];
		if (r < 0)
			olds[n] = replace(m, c->table, c->row, olds[n]);
		row_free(c->table, olds[n]);
	}
	return r;
}

static int run_get(struct memory *m, struct operation *op)
{
	struct memory_item *item = find_item(m, op->get.table, op->get.key);

	if (!item)
		return -ENOENT;
	op->get.row = row_dup(op->get.table, item->row);
	return 0;
}

static int (*const runners[OPERATION_KINDS])(struct memory *m, struct operation *op) = {
	[OPERATION_COMMIT] = run_commit,
	[OPERATION_GET] = run_get,
	[OPERATION_LIST] = memory_list,
	[OPERATION_SUM] = memory_sum,
};

static void memory_submit(struct store *s, struct operation *op)
{
	struct memory *m = (struct memory *)s;
	struct operations done = { 0 };

	if (op->r == 0)
		op->r = runners[op->kind](m, op);
	operations_add(&done, op);
	post_expect(m->post);
	post_send(m->post, &done);
}

static int memory_open(
	uv_loop_t *loop, const char *rest, bool full_sync, struct store **ret, struct err *err)
{
	(void)full_sync;
	if (*rest)
		return err_set(err, -EINVAL, "nothing may follow in 'memory:%.64s'", rest);
	struct memory *m = xnew(struct memory);
	m->store.ops = &store_memory;
	int r = post_open(loop, &m->post);
	if (r < 0) {
		free(m);
		return err_set(err, r, "cannot watch the store in memory");
	}
	*ret = &m->store;
	return 0;
}

static void free_item(void *node)
{
	struct memory_item *item = node;

	row_free(item->table, item->row);
	free(item);
}

static void memory_free(struct store *s)
{
	struct memory *m = (struct memory *)s;

	post_close(m->post);
	for (size_t i = 0; i < MEMORY_TABLES_MAX; i++)
		tdestroy(m->roots[i], free_item);
	free(m);
}

const struct store_ops store_memory = {
	.name = "memory",
	.open = memory_open,
	.free = memory_free,
	.submit = memory_submit,
};
