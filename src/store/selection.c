#include "store/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "store/record.h"
#include "store/row.h"

int selection_find_table(const struct table *t)
{
	for (int i = 0; tables[i]; i++) {
		if (tables[i] == t)
			return i;
	}
	return -EINVAL;
}

/* Not tolower(), which depends on the locale. */
static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static void lower_text(char *text)
{
	for (; *text; text++)
		*text = lower(*text);
}

const char *selection_next_item(const char **rest, size_t *ret_size)
{
	const char *item = *rest;

	if (!item)
		return NULL;
	const char *end = strchrnul(item, ',');
	*ret_size = (size_t)(end - item);
	*rest = *end ? end + 1 : NULL;
	return item;
}

static bool in_is_small(const char *text)
{
	size_t n = 1;

	for (; *text; text++)
		n += *text == ',';
	return n <= STORE_IN_MAX;
}

/* Columns whose names stand between any of `separators`; how many, or -EINVAL. */
static int parse_columns(const struct table *t, const char *names, const char *separators,
	const struct column **columns, size_t max)
{
	size_t n = 0;

	for (;;) {
		names += strspn(names, separators);
		if (!*names)
			return (int)n;
		size_t size = strcspn(names, separators);
		if (n == max || !(columns[n] = row_find_column(t, names, size)))
			return -EINVAL;
		n++;
		names += size;
	}
}

/* Which operators make sense for which type of column. */
static bool is_allowed(const struct condition *c)
{
	static const bool allowed[][FILTER_IN + 1] = {
		[COLUMN_TEXT] = { true, true, true, true, true },
		[COLUMN_INT] = { true, true, true, false, false },
		[COLUMN_REAL] = { false },
	};

	if (c->op > FILTER_IN || c->n_columns == 0)
		return false;
	if (c->n_columns > 1 && c->op != FILTER_CONTAINS)
		return false;
	for (size_t i = 0; i < c->n_columns; i++) {
		if (!allowed[c->columns[i]->type][c->op])
			return false;
	}
	return c->op == FILTER_EQ || !c->is_null;
}

static int condition_init(struct condition *c, const struct table *t, const struct filter *f)
{
	int n = f->column ? parse_columns(t, f->column, "|", c->columns, CONDITION_COLUMNS_MAX)
			  : -EINVAL;

	if (n <= 0)
		return -EINVAL;
	c->n_columns = (size_t)n;
	c->op = f->op;
	c->number = f->number;
	c->is_null = c->columns[0]->type == COLUMN_INT ? f->number == STORE_NULL : !f->text;
	if (!is_allowed(c))
		return -EINVAL;
	if (!f->text)
		return 0; /* is_allowed() saw to it that none is needed */
	c->text = xstrdup(f->text);
	if (c->op == FILTER_CONTAINS)
		lower_text(c->text);
	return c->op == FILTER_IN && !in_is_small(c->text) ? -EINVAL : 0;
}

static int selection_init(
	struct selection *s, const struct table *t, const struct filter *filters, size_t n_filters)
{
	*s = (struct selection){ .table = t };
	if (selection_find_table(t) < 0 || n_filters > STORE_FILTERS_MAX)
		return -EINVAL;
	s->n_conditions = n_filters;
	for (size_t i = 0; i < n_filters; i++) {
		if (condition_init(&s->conditions[i], t, &filters[i]) < 0)
			return -EINVAL;
	}
	return 0;
}

static void selection_fini(struct selection *s)
{
	for (size_t i = 0; i < s->n_conditions; i++)
		free(s->conditions[i].text);
}

int listing_init(struct listing *l, const struct query *q)
{
	*l = (struct listing){
		.descending = q->descending,
		.limit = q->limit,
		.offset = q->offset,
		.count = q->count,
	};
	int r = selection_init(&l->selection, q->table, q->filters, q->n_filters);
	if (r < 0 || !q->sort)
		return r;
	l->sort = row_find_column(q->table, q->sort, strlen(q->sort));
	return l->sort ? 0 : -EINVAL;
}

void listing_fini(struct listing *l)
{
	selection_fini(&l->selection);
}

static int parse_by(struct summing *s, const struct table *t, const char *by)
{
	int n = by ? parse_columns(t, by, ", ", s->by, STORE_BY_MAX) : 0;

	if (n < 0)
		return -EINVAL;
	for (int i = 0; i < n; i++) {
		if (s->by[i]->type != COLUMN_TEXT)
			return -EINVAL;
	}
	s->n_by = (size_t)n;
	return 0;
}

static int parse_sums(struct summing *s, const struct table *t, const char *const *sums)
{
	for (size_t i = 0; i < STORE_SUMS_MAX; i++) {
		if (!sums[i])
			continue;
		s->sums[i] = row_find_column(t, sums[i], strlen(sums[i]));
		if (!s->sums[i] || s->sums[i]->type != COLUMN_INT)
			return -EINVAL;
	}
	return 0;
}

int summing_init(struct summing *s, const struct sum_query *q)
{
	*s = (struct summing){ .limit = q->limit };
	int r = selection_init(&s->selection, q->table, q->filters, q->n_filters);
	if (r == 0)
		r = parse_by(s, q->table, q->by);
	return r < 0 ? r : parse_sums(s, q->table, q->sums);
}

void summing_fini(struct summing *s)
{
	selection_fini(&s->selection);
}

static int compare(const struct condition *c, const struct column *column, const void *row)
{
	if (column->type == COLUMN_TEXT)
		return strcmp(*row_text(column, row), c->text);
	int64_t number = *row_int(column, row);
	return (number > c->number) - (number < c->number);
}

static bool begins(const char *text, const char *small)
{
	while (*small && lower(*text) == *small) {
		text++;
		small++;
	}
	return !*small;
}

static bool contains(const char *text, const char *small)
{
	do {
		if (begins(text, small))
			return true;
	} while (*text++);
	return false;
}

static bool is_in(const char *text, const char *list)
{
	size_t size = 0;

	for (const char *item; (item = selection_next_item(&list, &size));) {
		if (strlen(text) == size && memcmp(text, item, size) == 0)
			return true;
	}
	return false;
}

static bool column_matches(const struct condition *c, const struct column *column, const void *row)
{
	if (row_is_null(column, row) || c->is_null)
		return c->op == FILTER_EQ && c->is_null && row_is_null(column, row);
	switch (c->op) {
	case FILTER_EQ:
		return compare(c, column, row) == 0;
	case FILTER_GE:
		return compare(c, column, row) >= 0;
	case FILTER_LE:
		return compare(c, column, row) <= 0;
	case FILTER_CONTAINS:
		return contains(*row_text(column, row), c->text);
	case FILTER_IN:
		return is_in(*row_text(column, row), c->text);
	}
	return false;
}

static bool condition_matches(const struct condition *c, const void *row)
{
	for (size_t i = 0; i < c->n_columns; i++) {
		if (column_matches(c, c->columns[i], row))
			return true;
	}
	return false;
}

bool selection_matches(const struct selection *s, const void *row)
{
	for (size_t i = 0; i < s->n_conditions; i++) {
		if (!condition_matches(&s->conditions[i], row))
			return false;
	}
	return true;
}
