#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/sql.h"
#include "store/store_sqlite.h"

static void finalizep(sqlite3_stmt **s)
{
	(void)sqlite3_finalize(*s);
}

static char *read_text(sqlite3_stmt *s, int i)
{
	const char *text = (const char *)sqlite3_column_text(s, i);

	return text ? xstrdup(text) : NULL;
}

static void column_text(sqlite3_stmt *s, int i, const struct column *c, void *row)
{
	*row_text(c, row) = read_text(s, i);
}

static void column_int(sqlite3_stmt *s, int i, const struct column *c, void *row)
{
	bool is_null = sqlite3_column_type(s, i) == SQLITE_NULL;

	*row_int(c, row) = is_null ? STORE_NULL : sqlite3_column_int64(s, i);
}

static void column_real(sqlite3_stmt *s, int i, const struct column *c, void *row)
{
	bool is_null = sqlite3_column_type(s, i) == SQLITE_NULL;

	*row_real(c, row) = is_null ? (double)NAN : sqlite3_column_double(s, i);
}

/* The row a statement stands on, all columns in the table's order. */
static void read_row(sqlite3_stmt *s, const struct table *t, void *row)
{
	static void (*const readers[])(
		sqlite3_stmt * s, int i, const struct column *c, void *row) = {
		[COLUMN_TEXT] = column_text,
		[COLUMN_INT] = column_int,
		[COLUMN_REAL] = column_real,
	};

	for (size_t i = 0; i < t->n_columns; i++)
		readers[t->columns[i].type](s, (int)i, &t->columns[i], row);
}

int sqlite_get(struct database *d, struct operation *op)
{
	const struct table *t = op->get.table;
	sqlite3_stmt *s = database_find(d, t, STATEMENT_GET, 0);

	if (!s)
		return -EIO;
	int code = sqlite_bind_key(s, 1, t, op->get.key);
	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	int r = code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? -ENOENT : database_failed(d, code);
	if (r == 0) {
		op->get.row = xcalloc(1, t->row_size);
		read_row(s, t, op->get.row);
	}
	(void)sqlite3_reset(s);
	return r;
}

static int bind_piece(sqlite3_stmt *s, int *number, const char *text, size_t size)
{
	return sqlite3_bind_text64(s, (*number)++, text, size, SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_list(sqlite3_stmt *s, int *number, const char *list)
{
	int code = SQLITE_OK;
	size_t size = 0;

	for (const char *item; code == SQLITE_OK && (item = selection_next_item(&list, &size));)
		code = bind_piece(s, number, item, size);
	return code;
}

static int bind_value(sqlite3_stmt *s, int *number, const struct condition *c)
{
	if (c->is_null)
		return SQLITE_OK;
	if (c->op == FILTER_IN)
		return bind_list(s, number, c->text);
	if (c->columns[0]->type == COLUMN_INT)
		return sqlite3_bind_int64(s, (*number)++, c->number);
	return bind_piece(s, number, c->text, strlen(c->text));
}

static int bind_conditions(sqlite3_stmt *s, int *number, const struct selection *selection)
{
	int code = SQLITE_OK;

	for (size_t i = 0; i < selection->n_conditions; i++) {
		const struct condition *c = &selection->conditions[i];
		for (size_t j = 0; j < c->n_columns && code == SQLITE_OK; j++)
			code = bind_value(s, number, c);
	}
	return code;
}

/* Prepare `sql`, which is freed, and bind the conditions; `*ret_number` is that of the next
 * value. These are as many as there are combinations of filters, so they are not kept. */
static int prepare(struct database *d, char *sql, const struct selection *selection,
	sqlite3_stmt **ret, int *ret_number)
{
	AUTO_FREE char *text = sql;

	*ret_number = 1;
	int code = sqlite3_prepare_v2(database_handle(d), text, -1, ret, NULL);
	return code == SQLITE_OK ? bind_conditions(*ret, ret_number, selection) : code;
}

static int64_t clamp(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* SQLite's word for no limit is -1. */
static int bind_limit(sqlite3_stmt *s, int number, uint64_t limit)
{
	return sqlite3_bind_int64(s, number, limit ? clamp(limit) : -1);
}

static int read_rows(struct database *d, struct operation *op)
{
	const struct listing *l = &op->list.listing;
	CLEANUP(finalizep) sqlite3_stmt *s = NULL;
	int number = 0;
	int code = prepare(d, sql_list(l), &l->selection, &s, &number);

	if (code == SQLITE_OK)
		code = bind_limit(s, number, l->limit);
	if (code == SQLITE_OK)
		code = sqlite3_bind_int64(s, number + 1, clamp(l->offset));
	if (code != SQLITE_OK)
		return database_failed(d, code);
	while ((code = sqlite3_step(s)) == SQLITE_ROW)
		read_row(s, l->selection.table, rows_add(&op->list.rows));
	return code == SQLITE_DONE ? 0 : database_failed(d, code);
}

static int count_rows(struct database *d, struct operation *op)
{
	const struct selection *selection = &op->list.listing.selection;
	CLEANUP(finalizep) sqlite3_stmt *s = NULL;
	int number = 0;
	int code = prepare(d, sql_count(selection), selection, &s, &number);

	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	if (code != SQLITE_ROW)
		return database_failed(d, code);
	op->list.total = (uint64_t)sqlite3_column_int64(s, 0);
	return 0;
}

int sqlite_list(struct database *d, struct operation *op)
{
	int r = read_rows(d, op);

	return r < 0 || !op->list.listing.count ? r : count_rows(d, op);
}

static void read_group(sqlite3_stmt *s, struct operation *op)
{
	size_t n = op->sum.n_groups;

	/* Room doubles whenever it is used up, which is at each power of two. */
	if ((n & (n - 1)) == 0) {
		op->sum.groups =
			reallocarray(op->sum.groups, n ? 2 * n : 1, sizeof(*op->sum.groups));
		if (!op->sum.groups)
			abort();
	}
	struct sum_group *g = &op->sum.groups[op->sum.n_groups++];
	*g = (struct sum_group){ .n_rows = sqlite3_column_int64(s, 0) };
	for (int i = 0; i < STORE_SUMS_MAX; i++)
		g->sums[i] = sqlite3_column_int64(s, 1 + i);
	for (int i = 0; i < (int)op->sum.summing.n_by; i++)
		g->by[i] = read_text(s, 1 + STORE_SUMS_MAX + i);
}

int sqlite_sum(struct database *d, struct operation *op)
{
	const struct summing *summing = &op->sum.summing;
	CLEANUP(finalizep) sqlite3_stmt *s = NULL;
	int number = 0;
	int code = prepare(d, sql_sum(summing), &summing->selection, &s, &number);

	if (code == SQLITE_OK)
		code = bind_limit(s, number, summing->limit);
	if (code != SQLITE_OK)
		return database_failed(d, code);
	while ((code = sqlite3_step(s)) == SQLITE_ROW)
		read_group(s, op);
	if (code == SQLITE_DONE)
		return 0;
	/* The one thing that such a statement can fail by once it was prepared. */
	return code == SQLITE_ERROR ? -EOVERFLOW : database_failed(d, code);
}
