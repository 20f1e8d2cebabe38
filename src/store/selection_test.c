/* Checking and copying; what the operators mean is in store_query_test.c. */
#include "store/selection.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"
#include "store/record.h"

TEST(a_listing_owns_what_it_needs)
{
	char column[] = "message|phase";
	char text[] = "ABC";
	char sort[] = "started_at";
	struct query q = {
		.table = &run_table,
		.filters = { { column, FILTER_CONTAINS, text, 0 } },
		.n_filters = 1,
		.sort = sort,
	};
	struct run_row row = { .phase = (char *)"xabcx" };
	struct listing l;

	CHECK_EQ(listing_init(&l, &q), 0);
	memset(column, '?', sizeof(column) - 1);
	memset(text, '?', sizeof(text) - 1);
	memset(sort, '?', sizeof(sort) - 1);
	CHECK_STR(l.sort->name, "started_at");
	CHECK_EQ(l.selection.conditions[0].n_columns, 2);
	CHECK(selection_matches(&l.selection, &row));
	row.phase = (char *)"xab";
	CHECK(!selection_matches(&l.selection, &row));
	listing_fini(&l);
}

TEST(a_refused_one_can_be_released)
{
	struct query q = {
		.table = &run_table,
		.filters = { { "phase", FILTER_EQ, "x", 0 }, { "none", FILTER_EQ, "x", 0 } },
		.n_filters = 2,
	};
	struct sum_query sum = {
		.table = &run_table,
		.filters = { { "phase", FILTER_EQ, "x", 0 } },
		.n_filters = 1,
		.by = "none",
	};
	struct listing l;
	struct summing s;

	CHECK_EQ(listing_init(&l, &q), -EINVAL);
	listing_fini(&l);
	CHECK_EQ(summing_init(&s, &sum), -EINVAL);
	summing_fini(&s);
}

TEST(a_list_falls_into_its_items)
{
	static const char *const items[] = { "a", "", "bc", "" };
	const char *rest = "a,,bc,";
	size_t size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
		const char *item = selection_next_item(&rest, &size);
		CHECK(item != NULL);
		CHECK_EQ(size, strlen(items[i]));
		CHECK_MEM(item, items[i], size);
	}
	CHECK(selection_next_item(&rest, &size) == NULL);
	CHECK(selection_next_item(&rest, &size) == NULL);
}

TEST(only_known_tables_have_a_place)
{
	struct table copy = run_table;

	CHECK_EQ(selection_find_table(&run_table), 0);
	CHECK_EQ(selection_find_table(&copy), -EINVAL);
	CHECK_EQ(selection_find_table(NULL), -EINVAL);
}

TESTS(UNIT(a_listing_owns_what_it_needs), UNIT(a_refused_one_can_be_released),
	UNIT(a_list_falls_into_its_items), UNIT(only_known_tables_have_a_place))
