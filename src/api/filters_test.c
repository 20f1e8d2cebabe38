#include "api/filters.h"

#include <string.h>

#include "base/str.h"
#include "core/problem.h"
#include "lib/test.h"
#include "store/record.h"

static const char *const words[] = { "runs", "sessions", "any", NULL };
static const char *const sorts[] = { "started_at", "finished_at", NULL };

static const struct filters_row rows[] = {
	{ "user_id", "user_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "q", "base_image|message", FILTER_CONTAINS, FILTERS_TEXT, NULL },
	{ "endpoint", "phase", FILTER_EQ, FILTERS_WORD, words },
	{ "from", "started_at", FILTER_GE, FILTERS_STAMP, NULL },
	{ "to", "started_at", FILTER_LE, FILTERS_STAMP, NULL },
	{ "since", "created_ns", FILTER_GE, FILTERS_SECOND, NULL },
	{ "until", "created_ns", FILTER_LE, FILTERS_SECOND, NULL },
	{ 0 },
};

static const struct filters_table table = { &run_table, rows, sorts };

/* "a=b" texts, ends with NULL. */
static const char *get(void *ctx, const char *name)
{
	for (const char *const *pair = ctx; *pair; pair++) {
		const char *value = str_after(*pair, name);

		if (value && value[0] == '=')
			return value + 1;
	}
	return NULL;
}

#define READ(f, p, ...)                                                                            \
	filters_read(&table, get, (void *)(const char *const[]){ __VA_ARGS__, NULL }, (f), (p))

TEST(without_parameters_it_is_all_and_the_newest_first)
{
	struct problem p = { 0 };
	struct filters f;

	CHECK_EQ(filters_read(&table, get, (void *)(const char *const[]){ NULL }, &f, &p), 0);
	CHECK_EQ(f.query.n_filters, 0);
	CHECK_STR(f.query.sort, "started_at");
	CHECK(f.query.descending);
	CHECK(f.query.count);
	CHECK(f.query.table == &run_table);
}

TEST(texts_and_words_become_filters)
{
	struct problem p = { 0 };
	struct filters f;

	CHECK_EQ(READ(&f, &p, "user_id=ann", "q=py%", "endpoint=runs"), 0);
	CHECK_EQ(f.query.n_filters, 3);
	CHECK_STR(f.query.filters[0].text, "ann");
	CHECK_EQ(f.query.filters[1].op, FILTER_CONTAINS);
	CHECK_STR(f.query.filters[1].column, "base_image|message");
	CHECK_STR(f.query.filters[2].text, "runs");
	CHECK_EQ(READ(&f, &p, "endpoint=any", "user_id="), 0);
	CHECK_EQ(f.query.n_filters, 0);
}

TEST(moments_have_the_form_that_is_stored)
{
	struct problem p = { 0 };
	struct filters f;

	CHECK_EQ(READ(&f, &p, "from=2026-01-31", "to=2026-01-31T13:00:00+01:00"), 0);
	CHECK_STR(f.query.filters[0].text, "2026-01-31T00:00:00.000000Z");
	CHECK_STR(f.query.filters[1].text, "2026-01-31T12:00:00.000000Z");
	CHECK_EQ(READ(&f, &p, "since=1970-01-01T00:00:09.5Z", "until=1970-01-01T00:00:09.5Z"), 0);
	CHECK_EQ(f.query.filters[0].number, 10);
	CHECK_EQ(f.query.filters[1].number, 9);
	CHECK_EQ(READ(&f, &p, "since=1970-01-01T00:00:09Z"), 0);
	CHECK_EQ(f.query.filters[0].number, 9);
}

TEST(every_spelling_of_an_order_is_understood)
{
	static const struct {
		const char *text, *column;
		bool descending;
	} cases[] = {
		{ "sort=asc", "started_at", false },
		{ "sort=desc", "started_at", true },
		{ "sort=finished_at", "finished_at", true },
		{ "sort=finished_at:asc", "finished_at", false },
		{ "sort=started_at:desc", "started_at", true },
	};
	struct problem p = { 0 };
	struct filters f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(READ(&f, &p, cases[i].text), 0);
		CHECK_STR(f.query.sort, cases[i].column);
		CHECK_EQ(f.query.descending, cases[i].descending);
	}
}

TEST(what_is_wrong_is_named)
{
	static const struct {
		const char *text, *field;
	} cases[] = {
		{ "sort=bogus", "sort" },
		{ "sort=", "sort" },
		{ "sort=started_at:", "sort" },
		{ "sort=started_at:up", "sort" },
		{ "sort=asc:desc", "sort" },
		{ "sort=message", "sort" },
		{ "endpoint=files", "endpoint" },
		{ "from=yesterday", "from" },
		{ "to=2026-02-30", "to" },
		{ "until=1e9", "until" },
	};
	struct problem p = { 0 };
	struct filters f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(READ(&f, &p, cases[i].text), -1);
		CHECK_EQ(p.status, 422);
		CHECK_STR(json_string_value(json_object_get(p.details, "field")), cases[i].field);
		problem_fini(&p);
	}
}

TEST(a_value_has_a_limit)
{
	char text[FILTERS_TEXT_MAX + 16] = "q=";
	struct problem p = { 0 };
	struct filters f;

	memset(text + 2, 'x', FILTERS_TEXT_MAX);
	CHECK_EQ(READ(&f, &p, text), 0);
	text[2 + FILTERS_TEXT_MAX] = 'x';
	CHECK_EQ(READ(&f, &p, text), -1);
	CHECK_EQ(p.status, 422);
	problem_fini(&p);
}

TESTS(UNIT(without_parameters_it_is_all_and_the_newest_first), UNIT(texts_and_words_become_filters),
	UNIT(moments_have_the_form_that_is_stored), UNIT(every_spelling_of_an_order_is_understood),
	UNIT(what_is_wrong_is_named), UNIT(a_value_has_a_limit))
