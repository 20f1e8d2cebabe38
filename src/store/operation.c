#include "store/operation.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "store/store_backend.h"

/* A commit that failed by its own fault says nothing about the store. */
static void note_health(const struct operation *op)
{
	static const int own_faults[] = { -EEXIST, -EINVAL, -ECANCELED, -E2BIG };

	for (size_t i = 0; i < ARRAY_SIZE(own_faults); i++) {
		if (op->r == own_faults[i])
			return;
	}
	op->store->health = op->r;
}

static void answer_commit(struct operation *op)
{
	note_health(op);
	if (op->commit.done)
		op->commit.done(op->ctx, op->r);
	store_batch_free(op->commit.batch);
}

static void answer_get(struct operation *op)
{
	op->get.done(op->ctx, op->r, op->r == 0 ? op->get.row : NULL);
	row_free(op->get.table, op->get.key);
	row_free(op->get.table, op->get.row);
}

static void answer_list(struct operation *op)
{
	if (op->r == 0)
		op->list.done(op->ctx, 0, op->list.rows.data, op->list.rows.n, op->list.total);
	else
		op->list.done(op->ctx, op->r, NULL, 0, 0);
	rows_fini(&op->list.rows);
	listing_fini(&op->list.listing);
}

static void answer_sum(struct operation *op)
{
	uint64_t limit = op->sum.summing.limit;
	size_t n = op->sum.n_groups;

	if (op->r == 0)
		op->sum.done(op->ctx, 0, op->sum.groups, limit && limit < n ? limit : n);
	else
		op->sum.done(op->ctx, op->r, NULL, 0);
	for (size_t i = 0; i < op->sum.n_groups; i++) {
		for (size_t j = 0; j < STORE_BY_MAX; j++)
			free((char *)op->sum.groups[i].by[j]);
	}
	free(op->sum.groups);
	summing_fini(&op->sum.summing);
}

static void (*const answers[OPERATION_KINDS])(struct operation *op) = {
	[OPERATION_COMMIT] = answer_commit,
	[OPERATION_GET] = answer_get,
	[OPERATION_LIST] = answer_list,
	[OPERATION_SUM] = answer_sum,
};

void operation_answer(struct operation *op)
{
	if (op->observe)
		op->observe(op);
	/* The callback may free the store, so `op->store` is not for use behind it. */
	answers[op->kind](op);
	free(op);
}

void operations_add(struct operations *list, struct operation *op)
{
	op->next = NULL;
	if (list->last)
		list->last->next = op;
	else
		list->first = op;
	list->last = op;
}

struct operation *operations_take_first(struct operations *list)
{
	struct operation *op = list->first;

	if (!op)
		return NULL;
	list->first = op->next;
	if (!list->first)
		list->last = NULL;
	op->next = NULL;
	return op;
}

void operations_move(struct operations *to, struct operations *from)
{
	if (!from->first)
		return;
	if (to->last)
		to->last->next = from->first;
	else
		to->first = from->first;
	to->last = from->last;
	*from = (struct operations){ 0 };
}
