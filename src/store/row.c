#include "store/row.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static void copy_text(const struct column *c, void *to, const void *from)
{
	const char *text = *row_text(c, from);

	*row_text(c, to) = text ? xstrdup(text) : NULL;
}

static void copy_int(const struct column *c, void *to, const void *from)
{
	*row_int(c, to) = *row_int(c, from);
}

static void copy_real(const struct column *c, void *to, const void *from)
{
	*row_real(c, to) = *row_real(c, from);
}

static bool is_null_text(const struct column *c, const void *row)
{
	return *row_text(c, row) == NULL;
}

static bool is_null_int(const struct column *c, const void *row)
{
	return *row_int(c, row) == STORE_NULL;
}

static bool is_null_real(const struct column *c, const void *row)
{
	return isnan(*row_real(c, row));
}

static int compare_text(const struct column *c, const void *a, const void *b)
{
	return strcmp(*row_text(c, a), *row_text(c, b));
}

static int compare_int(const struct column *c, const void *a, const void *b)
{
	return (*row_int(c, a) > *row_int(c, b)) - (*row_int(c, a) < *row_int(c, b));
}

static int compare_real(const struct column *c, const void *a, const void *b)
{
	return (*row_real(c, a) > *row_real(c, b)) - (*row_real(c, a) < *row_real(c, b));
}

static const struct type {
	void (*copy)(const struct column *c, void *to, const void *from);
	bool (*is_null)(const struct column *c, const void *row);
	int (*compare)(const struct column *c, const void *a, const void *b); /* neither is null */
} types[] = {
	[COLUMN_TEXT] = { copy_text, is_null_text, compare_text },
	[COLUMN_INT] = { copy_int, is_null_int, compare_int },
	[COLUMN_REAL] = { copy_real, is_null_real, compare_real },
};

const struct column *row_find_column(const struct table *t, const char *name, size_t size)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *known = t->columns[i].name;
		if (strlen(known) == size && memcmp(known, name, size) == 0)
			return &t->columns[i];
	}
	return NULL;
}

bool row_is_null(const struct column *c, const void *row)
{
	return types[c->type].is_null(c, row);
}

bool row_has_key(const struct table *t, const void *row)
{
	for (size_t i = 0; i < t->n_keys; i++) {
		if (row_is_null(&t->columns[i], row))
			return false;
	}
	return true;
}

int row_compare(const struct column *c, const void *a, const void *b)
{
	bool a_is_null = row_is_null(c, a);
	bool b_is_null = row_is_null(c, b);

	if (a_is_null || b_is_null)
		return (int)b_is_null - (int)a_is_null;
	return types[c->type].compare(c, a, b);
}

int row_compare_keys(const struct table *t, const void *a, const void *b)
{
	int r = 0;

	for (size_t i = 0; i < t->n_keys && r == 0; i++)
		r = row_compare(&t->columns[i], a, b);
	return r;
}

static void copy_columns(const struct table *t, size_t n, void *to, const void *from)
{
	for (size_t i = 0; i < n; i++)
		types[t->columns[i].type].copy(&t->columns[i], to, from);
}

void row_copy(const struct table *t, void *to, const void *from)
{
	copy_columns(t, t->n_columns, to, from);
}

void row_fini(const struct table *t, void *row)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		if (t->columns[i].type == COLUMN_TEXT)
			free(*row_text(&t->columns[i], row));
	}
	memset(row, 0, t->row_size);
}

void *row_dup(const struct table *t, const void *row)
{
	void *copy = xcalloc(1, t->row_size);

	row_copy(t, copy, row);
	return copy;
}

void *row_dup_key(const struct table *t, const void *row)
{
	void *copy = xcalloc(1, t->row_size);

	copy_columns(t, t->n_keys, copy, row);
	return copy;
}

void row_free(const struct table *t, void *row)
{
	if (!row)
		return;
	row_fini(t, row);
	free(row);
}

void *rows_add(struct rows *rows)
{
	size_t row_size = rows->table->row_size;

	if (rows->n == rows->n_room) {
		rows->n_room = rows->n_room ? 2 * rows->n_room : 16;
		rows->data = reallocarray(rows->data, rows->n_room, row_size);
		if (!rows->data)
			abort();
	}
	void *row = (char *)rows->data + rows->n++ * row_size;
	memset(row, 0, row_size);
	return row;
}

void rows_fini(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		row_fini(rows->table, (char *)rows->data + i * rows->table->row_size);
	free(rows->data);
	rows->data = NULL;
	rows->n = 0;
	rows->n_room = 0;
}
