/* Logs what passes through, when it is answered. Keys and names only: rows hold code,
 * environments and answers, which no log shall hold. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "store/store_backend.h"

/* "a, b" of a key; too long a one is cut. */
static void format_key(const struct table *t, const void *row, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < t->n_keys && used < size; i++) {
		const char *text = *row_text(&t->columns[i], row);
		used += (size_t)snprintf(
			buf + used, size - used, "%s%s", i ? ", " : "", text ? text : "(none)");
	}
}

static void log_keyed(const char *what, const struct table *t, const void *row, int r)
{
	char key[256];

	format_key(t, row, key, sizeof(key));
	log_debug("store %s table=%s key=%s r=%d", what, t->name, key, r);
}

static void log_commit(const struct operation *op)
{
	static const char *const names[CHANGE_KINDS] = {
		[CHANGE_PUT] = "put",
		[CHANGE_INSERT] = "insert",
		[CHANGE_DELETE] = "delete",
		[CHANGE_ADD] = "add",
	};
	const struct store_batch *b = op->commit.batch;

	for (size_t i = 0; i < b->n_changes; i++)
		log_keyed(names[b->changes[i].kind], b->changes[i].table, b->changes[i].row, op->r);
	log_debug("store commit changes=%zu r=%d", b->n_changes, op->r);
}

static void log_get(const struct operation *op)
{
	log_keyed("get", op->get.table, op->get.key, op->r);
}

/* The columns that are asked about, without what they are compared with. */
static void format_filters(const struct selection *s, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < s->n_conditions && used < size; i++) {
		const struct condition *c = &s->conditions[i];
		const char *name = c->n_columns ? c->columns[0]->name : "?";
		used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? "," : "", name);
	}
}

static void log_selection(const char *what, const struct selection *s, size_t n, int r)
{
	char filters[256];

	format_filters(s, filters, sizeof(filters));
	log_debug(
		"store %s table=%s filters=%s found=%zu r=%d", what, s->table->name, filters, n, r);
}

static void log_list(const struct operation *op)
{
	log_selection("list", &op->list.listing.selection, op->list.rows.n, op->r);
}

static void log_sum(const struct operation *op)
{
	log_selection("sum", &op->sum.summing.selection, op->sum.n_groups, op->r);
}

static void observe(const struct operation *op)
{
	static void (*const loggers[OPERATION_KINDS])(const struct operation *op) = {
		[OPERATION_COMMIT] = log_commit,
		[OPERATION_GET] = log_get,
		[OPERATION_LIST] = log_list,
		[OPERATION_SUM] = log_sum,
	};

	loggers[op->kind](op);
}

static void trace_submit(struct store *s, struct operation *op)
{
	op->observe = observe;
	s->inner->ops->submit(s->inner, op);
}

static int trace_open(
	uv_loop_t *loop, const char *rest, bool full_sync, struct store **ret, struct err *err)
{
	struct store *inner = NULL;
	int r = store_open(loop, rest, full_sync, &inner, err);

	if (r < 0)
		return r;
	struct store *s = xnew(struct store);
	*s = (struct store){ .ops = &store_trace, .inner = inner };
	*ret = s;
	return 0;
}

static void trace_free(struct store *s)
{
	store_free(s->inner);
	free(s);
}

const struct store_ops store_trace = {
	.name = "trace",
	.open = trace_open,
	.free = trace_free,
	.submit = trace_submit,
};
