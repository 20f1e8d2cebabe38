#include "api/filters.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/str.h"
#include "core/problem.h"

#define NS_PER_SEC UINT64_C(1000000000)

_Static_assert(
	DATE_SIZE < sizeof(((struct filters *)0)->texts[0]), "a moment does not fit its place");

/* "a, b or c" */
static void join(const char *const *words, char *ret, size_t size)
{
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; words[i] && at < size; i++) {
		const char *before = i == 0 ? "" : words[i + 1] ? ", " : " or ";
		at += (size_t)snprintf(ret + at, size - at, "%s%s", before, words[i]);
	}
}

static bool is_one_of(const char *const *words, const char *text)
{
	while (*words && !streq(*words, text))
		words++;
	return *words;
}

/* --- filters --- */

static int read_word(const struct filters_row *row, const char *text, struct filter *filter,
	struct problem *problem)
{
	char all[160];

	if (is_one_of(row->words, text)) {
		filter->text = streq(text, "any") ? NULL : text;
		return 0;
	}
	join(row->words, all, sizeof(all));
	return problem_field(problem, row->name, "must be %s", all);
}

/* Both ends count: of a moment between two seconds, the one inside. */
static int read_moment(const struct filters_row *row, const char *text, char stamp[32],
	struct filter *filter, struct problem *problem)
{
	uint64_t ns = 0;

	if (date_parse(text, &ns) < 0)
		return problem_field(
			problem, row->name, "must be a moment like 2026-01-31T12:00:00Z");
	date_format(ns, stamp);
	filter->text = stamp;
	filter->number = (int64_t)(ns / NS_PER_SEC);
	if (row->op == FILTER_GE && ns % NS_PER_SEC > 0)
		filter->number++;
	return 0;
}

static int read_filter(
	const struct filters_row *row, const char *text, struct filters *f, struct problem *problem)
{
	struct filter filter = { .column = row->column, .op = row->op, .text = text };
	int r = 0;

	if (strlen(text) > FILTERS_TEXT_MAX)
		return problem_field(
			problem, row->name, "must not be longer than %u bytes", FILTERS_TEXT_MAX);
	if (row->kind == FILTERS_WORD)
		r = read_word(row, text, &filter, problem);
	else if (row->kind != FILTERS_TEXT)
		r = read_moment(row, text, f->texts[f->query.n_filters], &filter, problem);
	if (r == 0 && filter.text)
		f->query.filters[f->query.n_filters++] = filter;
	return r;
}

/* --- order --- */

static const char *find_sort(const char *const *sorts, const char *text, size_t size)
{
	for (; *sorts; sorts++) {
		if (strlen(*sorts) == size && memcmp(*sorts, text, size) == 0)
			return *sorts;
	}
	return NULL;
}

static int read_sort(const struct filters_table *table, const char *text, struct filters *f,
	struct problem *problem)
{
	char all[160];

	f->query.sort = table->sorts[0];
	f->query.descending = true;
	if (!text)
		return 0;
	size_t size = strcspn(text, ":");
	const char *way = text[size] == ':' ? text + size + 1 : "desc";
	if (streq(text, "asc") || streq(text, "desc"))
		way = text;
	else
		f->query.sort = find_sort(table->sorts, text, size);
	f->query.descending = streq(way, "desc");
	if (f->query.sort && (f->query.descending || streq(way, "asc")))
		return 0;
	join(table->sorts, all, sizeof(all));
	return problem_field(
		problem, "sort", "must be asc, desc, or one of %s with :asc or :desc", all);
}

int filters_read(const struct filters_table *table, filters_get_fn *get, void *ctx,
	struct filters *ret, struct problem *problem)
{
	*ret = (struct filters){ .query = { .table = table->table, .count = true } };
	for (const struct filters_row *row = table->rows; row->name; row++) {
		const char *text = get(ctx, row->name);

		if (text && text[0] && read_filter(row, text, ret, problem) < 0)
			return -1;
	}
	return read_sort(table, get(ctx, "sort"), ret, problem);
}

void filters_list_names(const struct filters_table *table, const char *ret[FILTERS_NAMES_MAX + 1])
{
	static const char *const others[] = { "sort", "limit", "offset" };
	size_t n = 0;

	for (const struct filters_row *row = table->rows; row->name && n < STORE_FILTERS_MAX; row++)
		ret[n++] = row->name;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		ret[n++] = others[i];
	ret[n] = NULL;
}
