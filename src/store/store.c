#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "store/store_backend.h"

static const struct store_ops *const backends[] = {
	&store_memory,
	&store_sqlite,
	&store_trace,
	&store_fault,
};

int store_open(
	uv_loop_t *loop, const char *url, bool full_sync, struct store **ret, struct err *err)
{
	size_t size = strcspn(url, ":");

	for (size_t i = 0; i < ARRAY_SIZE(backends) && url[size]; i++) {
		const char *name = backends[i]->name;
		if (strlen(name) == size && memcmp(name, url, size) == 0)
			return backends[i]->open(loop, url + size + 1, full_sync, ret, err);
	}
	return err_set(err, -EINVAL, "unknown store '%.*s': use memory: or sqlite:PATH",
		(int)(size < 64 ? size : 64), url);
}

void store_free(struct store *s)
{
	if (!s)
		return;
	s->is_closing = true;
	s->ops->free(s);
}

const char *store_mode(const struct store *s)
{
	while (s->inner)
		s = s->inner;
	return s->ops->name;
}

int store_health(const struct store *s)
{
	return s->health;
}

struct store_batch *store_batch_new(struct store *s)
{
	struct store_batch *b = xnew(struct store_batch);

	b->store = s;
	return b;
}

void store_batch_free(struct store_batch *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n_changes; i++)
		row_free(b->changes[i].table, b->changes[i].row);
	free(b->changes);
	free(b);
}

/* NULL, and the batch is spoiled, when the row has no key or the table is unknown. */
static struct change *add_change(
	struct store_batch *b, enum change_kind kind, const struct table *t, const void *row)
{
	if (selection_find_table(t) < 0 || !row_has_key(t, row)) {
		b->r = -EINVAL;
		return NULL;
	}
	if (b->n_changes == b->n_room) {
		b->n_room = b->n_room ? 2 * b->n_room : 4;
		b->changes = reallocarray(b->changes, b->n_room, sizeof(*b->changes));
		if (!b->changes)
			abort();
	}
	bool is_whole = kind == CHANGE_PUT || kind == CHANGE_INSERT;
	b->changes[b->n_changes] = (struct change){
		.kind = kind,
		.table = t,
		.row = is_whole ? row_dup(t, row) : row_dup_key(t, row),
	};
	return &b->changes[b->n_changes++];
}

void store_batch_put(struct store_batch *b, const struct table *t, const void *row)
{
	(void)add_change(b, CHANGE_PUT, t, row);
}

void store_batch_insert(struct store_batch *b, const struct table *t, const void *row)
{
	(void)add_change(b, CHANGE_INSERT, t, row);
}

void store_batch_delete(struct store_batch *b, const struct table *t, const void *row)
{
	(void)add_change(b, CHANGE_DELETE, t, row);
}

void store_batch_add(struct store_batch *b, const struct table *t, const void *row,
	const char *column, int64_t delta)
{
	struct change *c = add_change(b, CHANGE_ADD, t, row);

	if (!c)
		return;
	c->delta = delta;
	c->column = row_find_column(t, column, strlen(column));
	if (!c->column || c->column->type != COLUMN_INT)
		b->r = -EINVAL;
}

static struct operation *make(struct store *s, enum operation_kind kind, void *ctx)
{
	struct operation *op = xnew(struct operation);

	op->store = s;
	op->kind = kind;
	op->ctx = ctx;
	return op;
}

static void submit(struct operation *op, int r)
{
	op->r = op->store->is_closing ? -ECANCELED : r;
	op->store->ops->submit(op->store, op);
}

static void commit(struct store_batch *b, bool is_patient, store_done_cb *done, void *ctx)
{
	struct operation *op = make(b->store, OPERATION_COMMIT, ctx);

	op->is_patient = is_patient;
	op->commit.batch = b;
	op->commit.done = done;
	submit(op, b->r);
}

void store_commit(struct store_batch *b, store_done_cb *done, void *ctx)
{
	commit(b, false, done, ctx);
}

void store_commit_patiently(struct store_batch *b, store_done_cb *done, void *ctx)
{
	commit(b, true, done, ctx);
}

void store_get(
	struct store *s, const struct table *t, const void *row, store_row_cb *done, void *ctx)
{
	struct operation *op = make(s, OPERATION_GET, ctx);
	bool is_sound = selection_find_table(t) >= 0 && row_has_key(t, row);

	op->get.table = t;
	op->get.key = row_dup_key(t, row);
	op->get.done = done;
	submit(op, is_sound ? 0 : -EINVAL);
}

void store_list(struct store *s, const struct query *q, store_rows_cb *done, void *ctx)
{
	struct operation *op = make(s, OPERATION_LIST, ctx);

	op->list.rows.table = q->table;
	op->list.done = done;
	submit(op, listing_init(&op->list.listing, q));
}

void store_sum(struct store *s, const struct sum_query *q, store_sums_cb *done, void *ctx)
{
	struct operation *op = make(s, OPERATION_SUM, ctx);

	op->sum.done = done;
	submit(op, summing_init(&op->sum.summing, q));
}
