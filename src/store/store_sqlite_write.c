#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "store/store_sqlite.h"

static int bind_text(sqlite3_stmt *s, int number, const struct column *c, const void *row)
{
	const char *text = *row_text(c, row);

	return sqlite3_bind_text64(s, number, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8);
}

static int bind_int(sqlite3_stmt *s, int number, const struct column *c, const void *row)
{
	return sqlite3_bind_int64(s, number, *row_int(c, row));
}

static int bind_real(sqlite3_stmt *s, int number, const struct column *c, const void *row)
{
	return sqlite3_bind_double(s, number, *row_real(c, row));
}

static bool equal_text(sqlite3_stmt *s, int i, const struct column *c, const void *row)
{
	const char *text = *row_text(c, row);
	size_t size = strlen(text);
	const void *stored = sqlite3_column_text(s, i);

	return stored && (size_t)sqlite3_column_bytes(s, i) == size &&
	       memcmp(stored, text, size) == 0;
}

static bool equal_int(sqlite3_stmt *s, int i, const struct column *c, const void *row)
{
	return sqlite3_column_int64(s, i) == *row_int(c, row);
}

static bool equal_real(sqlite3_stmt *s, int i, const struct column *c, const void *row)
{
	/* Neither greater nor smaller: what is there is a number, and so is what is put. */
	double stored = sqlite3_column_double(s, i);
	double put = *row_real(c, row);

	return !(stored < put) && !(stored > put);
}

/* For values that are there. */
static const struct type {
	int (*bind)(sqlite3_stmt *s, int number, const struct column *c, const void *row);
	bool (*equal)(sqlite3_stmt *s, int i, const struct column *c, const void *row);
} types[] = {
	[COLUMN_TEXT] = { bind_text, equal_text },
	[COLUMN_INT] = { bind_int, equal_int },
	[COLUMN_REAL] = { bind_real, equal_real },
};

int sqlite_bind(sqlite3_stmt *s, int number, const struct column *c, const void *row)
{
	if (row_is_null(c, row))
		return sqlite3_bind_null(s, number);
	return types[c->type].bind(s, number, c, row);
}

int sqlite_bind_key(sqlite3_stmt *s, int first_number, const struct table *t, const void *row)
{
	int code = SQLITE_OK;

	for (size_t i = 0; i < t->n_keys && code == SQLITE_OK; i++)
		code = sqlite_bind(s, first_number + (int)i, &t->columns[i], row);
	return code;
}

/* Execute a statement that was bound with this result and gives no rows. */
static int finish(struct database *d, sqlite3_stmt *s, int code)
{
	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	int r = code == SQLITE_DONE ? 0 : database_failed(d, code);
	(void)sqlite3_reset(s);
	return r;
}

static int change_insert(struct database *d, const struct change *c)
{
	const struct table *t = c->table;
	sqlite3_stmt *s = database_find(d, t, STATEMENT_INSERT, 0);
	int code = SQLITE_OK;

	if (!s)
		return -EIO;
	for (size_t i = 0; i < t->n_columns && code == SQLITE_OK; i++)
		code = sqlite_bind(s, (int)i + 1, &t->columns[i], c->row);
	return finish(d, s, code);
}

static bool is_equal(sqlite3_stmt *s, int i, const struct column *c, const void *row)
{
	bool is_null = sqlite3_column_type(s, i) == SQLITE_NULL;

	if (is_null || row_is_null(c, row))
		return is_null == row_is_null(c, row);
	return types[c->type].equal(s, i, c, row);
}

/* Which columns of the stored row are not as in the new one; -ENOENT when none is stored. */
static int find_changed(struct database *d, const struct change *c, uint64_t *ret)
{
	const struct table *t = c->table;
	sqlite3_stmt *s = database_find(d, t, STATEMENT_GET, 0);
	uint64_t changed = 0;

	if (!s)
		return -EIO;
	int code = sqlite_bind_key(s, 1, t, c->row);
	if (code == SQLITE_OK)
		code = sqlite3_step(s);
	for (size_t i = t->n_keys; i < t->n_columns && code == SQLITE_ROW; i++) {
		if (!is_equal(s, (int)i, &t->columns[i], c->row))
			changed |= UINT64_C(1) << i;
	}
	int r = code == SQLITE_ROW ? 0 : code == SQLITE_DONE ? -ENOENT : database_failed(d, code);
	(void)sqlite3_reset(s);
	if (r == 0)
		*ret = changed;
	return r;
}

static int update(struct database *d, const struct change *c, uint64_t columns)
{
	const struct table *t = c->table;
	sqlite3_stmt *s = database_find(d, t, STATEMENT_UPDATE, columns);
	int number = 1;
	int code = SQLITE_OK;

	if (!s)
		return -EIO;
	for (size_t i = t->n_keys; i < t->n_columns && code == SQLITE_OK; i++) {
		if (columns & UINT64_C(1) << i)
			code = sqlite_bind(s, number++, &t->columns[i], c->row);
	}
	if (code == SQLITE_OK)
		code = sqlite_bind_key(s, number, t, c->row);
	return finish(d, s, code);
}

/* Only what differs is written: SQLite rewrites every index of a column that is set, equal or
 * not, and the step from one state of a run to the next concerns few of them. */
static int change_put(struct database *d, const struct change *c)
{
	uint64_t columns = 0;
	int r = find_changed(d, c, &columns);

	if (r == -ENOENT)
		return change_insert(d, c);
	return r < 0 || columns == 0 ? r : update(d, c, columns);
}

static int change_delete(struct database *d, const struct change *c)
{
	sqlite3_stmt *s = database_find(d, c->table, STATEMENT_DELETE, 0);

	if (!s)
		return -EIO;
	return finish(d, s, sqlite_bind_key(s, 1, c->table, c->row));
}

static int bind_add(sqlite3_stmt *s, const struct change *c)
{
	int number = (int)c->table->n_keys + 1;
	int64_t most = c->delta > 0 ? INT64_MAX - c->delta : INT64_MAX;
	int code = sqlite_bind_key(s, 1, c->table, c->row);

	if (code == SQLITE_OK)
		code = sqlite3_bind_int64(s, number++, c->delta > 0 ? c->delta : 0);
	if (code == SQLITE_OK)
		code = sqlite3_bind_int64(s, number++, most);
	if (code == SQLITE_OK)
		code = sqlite3_bind_int64(s, number, c->delta);
	return code;
}

static int change_add(struct database *d, const struct change *c)
{
	uint64_t column = UINT64_C(1) << (c->column - c->table->columns);
	sqlite3_stmt *s = database_find(d, c->table, STATEMENT_ADD, column);

	return s ? finish(d, s, bind_add(s, c)) : -EIO;
}

static int apply(struct database *d, const struct store_batch *b)
{
	static int (*const changers[CHANGE_KINDS])(struct database * d, const struct change *c) = {
		[CHANGE_PUT] = change_put,
		[CHANGE_INSERT] = change_insert,
		[CHANGE_DELETE] = change_delete,
		[CHANGE_ADD] = change_add,
	};
	int r = 0;

	for (size_t i = 0; i < b->n_changes && r == 0; i++)
		r = changers[b->changes[i].kind](d, &b->changes[i]);
	return r;
}

/* 0 when the transaction may go on, whatever came of this one. */
static int write_one(struct database *d, struct operation *op)
{
	int r = database_step(d, DATABASE_SAVE);

	if (r < 0)
		return r;
	op->r = apply(d, op->commit.batch);
	if (op->r == 0)
		return database_step(d, DATABASE_RELEASE);
	/* Some failures, such as a full disk, take back everything. */
	return database_is_in_transaction(d) ? database_step(d, DATABASE_UNDO) : op->r;
}

static int write_all(struct database *d, const struct operations *commits)
{
	int r = database_step(d, DATABASE_BEGIN);

	for (struct operation *op = commits->first; op && r == 0; op = op->next) {
		if (op->r == 0)
			r = write_one(d, op);
	}
	return r < 0 ? r : database_step(d, DATABASE_COMMIT);
}

void sqlite_write(struct database *d, const struct operations *commits)
{
	int r = write_all(d, commits);

	if (r == 0)
		return;
	if (database_is_in_transaction(d))
		(void)database_step(d, DATABASE_ROLLBACK);
	/* Also for one that failed by itself: what it ran into may be gone now. */
	for (struct operation *op = commits->first; op; op = op->next)
		op->r = r;
}
