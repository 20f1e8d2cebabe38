/* The parameters of a list: one line each for sort, a text, a word and two moments. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/filters.h"
#include "base/date.h"
#include "base/str.h"
#include "core/problem.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct filters_row rows[] = {
	{ "q", "base_image|message", FILTER_CONTAINS, FILTERS_TEXT, NULL },
	{ "word", "phase", FILTER_EQ, FILTERS_WORD, (const char *const[]){ "a", "any", NULL } },
	{ "from", "started_at", FILTER_GE, FILTERS_STAMP, NULL },
	{ "since", "created_ns", FILTER_GE, FILTERS_SECOND, NULL },
	{ 0 },
};

static const struct filters_table table = {
	&run_table,
	rows,
	(const char *const[]){ "started_at", "finished_at", NULL },
};

static const char *const names[] = { "sort", "q", "word", "from", "since" };

static const char *get(void *ctx, const char *name)
{
	char *const *values = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (streq(names[i], name))
			return values[i];
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = xcalloc(1, size + 1);
	char *values[ARRAY_SIZE(names)] = { NULL };
	char *rest = text;
	struct problem problem = { 0 };
	struct filters f;

	memcpy(text, data, size);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		values[i] = strsep(&rest, "\n");
	if (filters_read(&table, get, values, &f, &problem) < 0) {
		assert(problem.status == 422 && problem.details);
	} else {
		assert(f.query.sort && f.query.n_filters <= ARRAY_SIZE(rows));
		for (size_t i = 0; i < f.query.n_filters; i++)
			assert(f.query.filters[i].text);
	}
	problem_fini(&problem);
	return 0;
}
