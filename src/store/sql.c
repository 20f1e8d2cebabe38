#include "store/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
	FILE *out;
	char *data;
	size_t size;
};

static void text_init(struct text *t)
{
	t->out = open_memstream(&t->data, &t->size);
	if (!t->out)
		abort();
}

static char *text_take(struct text *t)
{
	if (fclose(t->out) != 0)
		abort();
	return t->data;
}

#define add(t, ...) (void)fprintf((t)->out, __VA_ARGS__)

/* The names of n columns, each followed by `suffix`, with `separator` between them. */
static void add_names(struct text *t, const struct column *columns, size_t n, const char *suffix,
	const char *separator)
{
	for (size_t i = 0; i < n; i++)
		add(t, "%s%s%s", i ? separator : "", columns[i].name, suffix);
}

static void add_marks(struct text *t, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(t, i ? ", ?" : "?");
}

static void add_key_condition(struct text *t, const struct table *table)
{
	add(t, " WHERE ");
	add_names(t, table->columns, table->n_keys, " = ?", " AND ");
}

char *sql_create_table(const struct table *t)
{
	static const char *const types[] = {
		[COLUMN_TEXT] = "TEXT",
		[COLUMN_INT] = "INTEGER",
		[COLUMN_REAL] = "REAL",
	};
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "CREATE TABLE %s (", t->name);
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct column *c = &t->columns[i];
		add(&sql, "%s %s%s, ", c->name, types[c->type], i < t->n_keys ? " NOT NULL" : "");
	}
	add(&sql, "PRIMARY KEY (");
	add_names(&sql, t->columns, t->n_keys, "", ", ");
	add(&sql, "))");
	return text_take(&sql);
}

char *sql_create_index(const struct table *t, const struct table_index *index)
{
	int first = (int)strcspn(index->columns, ",");
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "CREATE INDEX %s ON %s (%s)", index->name, t->name, index->columns);
	if (index->is_sparse)
		add(&sql, " WHERE %.*s IS NOT NULL", first, index->columns);
	return text_take(&sql);
}

char *sql_get(const struct table *t)
{
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "SELECT ");
	add_names(&sql, t->columns, t->n_columns, "", ", ");
	add(&sql, " FROM %s", t->name);
	add_key_condition(&sql, t);
	return text_take(&sql);
}

char *sql_insert(const struct table *t)
{
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "INSERT INTO %s (", t->name);
	add_names(&sql, t->columns, t->n_columns, "", ", ");
	add(&sql, ") VALUES (");
	add_marks(&sql, t->n_columns);
	add(&sql, ")");
	return text_take(&sql);
}

char *sql_update(const struct table *t, uint64_t columns)
{
	const char *separator = "";
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "UPDATE %s SET ", t->name);
	for (size_t i = 0; i < t->n_columns; i++) {
		if (!(columns & UINT64_C(1) << i))
			continue;
		add(&sql, "%s%s = ?", separator, t->columns[i].name);
		separator = ", ";
	}
	add_key_condition(&sql, t);
	return text_take(&sql);
}

char *sql_delete(const struct table *t)
{
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "DELETE FROM %s", t->name);
	add_key_condition(&sql, t);
	return text_take(&sql);
}

/* Other numbers of a new row start at zero. */
static void add_zeroes(
	struct text *t, const struct table *table, const struct column *but, const char *what)
{
	for (size_t i = table->n_keys; i < table->n_columns; i++) {
		const struct column *c = &table->columns[i];
		if (c != but && c->type != COLUMN_TEXT)
			add(t, ", %s", what ? what : c->name);
	}
}

char *sql_add(const struct table *t, const struct column *column)
{
	const char *name = column->name;
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "INSERT INTO %s (", t->name);
	add_names(&sql, t->columns, t->n_keys, "", ", ");
	add(&sql, ", %s", name);
	add_zeroes(&sql, t, column, NULL);
	add(&sql, ") VALUES (");
	add_marks(&sql, t->n_keys + 1);
	add_zeroes(&sql, t, column, "0");
	add(&sql, ") ON CONFLICT (");
	add_names(&sql, t->columns, t->n_keys, "", ", ");
	add(&sql,
		") DO UPDATE SET %s = CASE WHEN coalesce(%s, 0) > ? THEN 9223372036854775807"
		" ELSE max(0, coalesce(%s, 0) + ?) END",
		name, name, name);
	return text_take(&sql);
}

static void add_in(struct text *t, const struct condition *c, const char *column)
{
	const char *rest = c->text;
	size_t size = 0;
	size_t n = 0;

	while (selection_next_item(&rest, &size))
		n++;
	add(t, "%s IN (", column);
	add_marks(t, n);
	add(t, ")");
}

static void add_comparison(struct text *t, const struct condition *c, const char *column)
{
	static const char *const ends[] = {
		[FILTER_EQ] = "= ?",
		[FILTER_GE] = ">= ?",
		[FILTER_LE] = "<= ?",
	};

	if (c->is_null)
		add(t, "%s IS NULL", column);
	else if (c->op == FILTER_IN)
		add_in(t, c, column);
	else if (c->op == FILTER_CONTAINS)
		add(t, "instr(lower(%s), ?) > 0", column);
	else
		add(t, "%s %s", column, ends[c->op]);
}

static void add_conditions(struct text *t, const struct selection *s)
{
	for (size_t i = 0; i < s->n_conditions; i++) {
		const struct condition *c = &s->conditions[i];
		add(t, i ? " AND (" : " WHERE (");
		for (size_t j = 0; j < c->n_columns; j++) {
			add(t, "%s", j ? " OR " : "");
			add_comparison(t, c, c->columns[j]->name);
		}
		add(t, ")");
	}
}

char *sql_list(const struct listing *l)
{
	const struct table *t = l->selection.table;
	const char *direction = l->descending ? " DESC" : "";
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "SELECT ");
	add_names(&sql, t->columns, t->n_columns, "", ", ");
	add(&sql, " FROM %s", t->name);
	add_conditions(&sql, &l->selection);
	add(&sql, " ORDER BY ");
	if (l->sort)
		add(&sql, "%s%s, ", l->sort->name, direction);
	add_names(&sql, t->columns, t->n_keys, direction, ", ");
	add(&sql, " LIMIT ? OFFSET ?");
	return text_take(&sql);
}

char *sql_count(const struct selection *s)
{
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "SELECT count(*) FROM %s", s->table->name);
	add_conditions(&sql, s);
	return text_take(&sql);
}

static void add_by(struct text *t, const struct summing *s, const char *before)
{
	for (size_t i = 0; i < s->n_by; i++)
		add(t, "%s%s", i ? ", " : before, s->by[i]->name);
}

char *sql_sum(const struct summing *s)
{
	struct text sql = { 0 };

	text_init(&sql);
	add(&sql, "SELECT count(*)");
	for (size_t i = 0; i < STORE_SUMS_MAX; i++) {
		if (s->sums[i])
			add(&sql, ", coalesce(sum(%s), 0)", s->sums[i]->name);
		else
			add(&sql, ", 0");
	}
	add_by(&sql, s, ", ");
	add(&sql, " FROM %s", s->selection.table->name);
	add_conditions(&sql, &s->selection);
	add_by(&sql, s, " GROUP BY ");
	add(&sql, " ORDER BY count(*) DESC");
	add_by(&sql, s, ", ");
	add(&sql, " LIMIT ?");
	return text_take(&sql);
}
