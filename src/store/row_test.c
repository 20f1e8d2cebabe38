#include "store/row.h"

#include <string.h>

#include "lib/test.h"
#include "store/record.h"

#define T(text) ((char *)(text))

static const struct column *column(const struct table *t, const char *name)
{
	return row_find_column(t, name, strlen(name));
}

TEST(a_copy_has_texts_of_its_own)
{
	char text[] = "x";
	struct session_row row = { .id = text, .cpu_limit = 2, .uid = 3 };
	struct session_row copy = { 0 };

	row_copy(&session_table, &copy, &row);
	text[0] = 'y';
	CHECK_STR(copy.id, "x");
	CHECK(copy.user_id == NULL);
	CHECK(copy.cpu_limit == 2);
	CHECK_EQ(copy.uid, 3);
	row_fini(&session_table, &copy);
	CHECK(copy.id == NULL);
	CHECK_EQ(copy.uid, 0);
	row_fini(&session_table, &copy);
}

TEST(a_copy_of_the_key_has_nothing_else)
{
	struct daily_row row = { .user_id = T("u"), .day = T("d"), .cpu_us = 5 };
	struct daily_row *key = row_dup_key(&daily_table, &row);

	CHECK_STR(key->user_id, "u");
	CHECK_STR(key->day, "d");
	CHECK_EQ(key->cpu_us, 0);
	row_free(&daily_table, key);
	row_free(&daily_table, NULL);
}

TEST(no_value_is_smallest)
{
	struct session_row none = { .cpu_limit = NAN, .uid = STORE_NULL };
	struct session_row some = { .user_id = T(""), .cpu_limit = -1e300, .uid = INT64_MIN + 1 };
	static const char *const names[] = { "user_id", "cpu_limit", "uid" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct column *c = column(&session_table, names[i]);
		CHECK(row_is_null(c, &none));
		CHECK(!row_is_null(c, &some));
		CHECK(row_compare(c, &none, &some) < 0);
		CHECK(row_compare(c, &some, &none) > 0);
		CHECK_EQ(row_compare(c, &none, &none), 0);
		CHECK_EQ(row_compare(c, &some, &some), 0);
	}
}

TEST(texts_compare_by_unsigned_bytes)
{
	struct run_row a = { .id = T("z") };
	struct run_row b = { .id = T("\xc3\xa4") };

	CHECK(row_compare_keys(&run_table, &a, &b) < 0);
}

TEST(keys_compare_part_by_part)
{
	struct daily_row a = { .user_id = T("a"), .day = T("2") };
	struct daily_row b = { .user_id = T("b"), .day = T("1") };
	struct daily_row c = { .user_id = T("b"), .day = NULL };

	CHECK(row_compare_keys(&daily_table, &a, &b) < 0);
	CHECK(row_compare_keys(&daily_table, &b, &c) > 0);
	CHECK_EQ(row_compare_keys(&daily_table, &b, &b), 0);
	CHECK(row_has_key(&daily_table, &a));
	CHECK(!row_has_key(&daily_table, &c));
}

TEST(a_column_is_found_by_its_whole_name)
{
	CHECK(row_find_column(&run_table, "id", 2) == &run_table.columns[0]);
	CHECK(row_find_column(&run_table, "id, x", 2) == &run_table.columns[0]);
	CHECK(row_find_column(&run_table, "i", 1) == NULL);
	CHECK(row_find_column(&run_table, "idx", 3) == NULL);
	CHECK(row_find_column(&run_table, "", 0) == NULL);
}

TEST(an_array_of_rows_grows)
{
	struct rows rows = { .table = &usage_table };
	struct usage_row from = { .user_id = T("u") };

	for (int64_t i = 0; i < 1000; i++) {
		from.log_bytes = i;
		row_copy(&usage_table, rows_add(&rows), &from);
	}
	CHECK_EQ(rows.n, 1000);
	for (int64_t i = 0; i < 1000; i++)
		CHECK_EQ(((struct usage_row *)rows.data)[i].log_bytes, i);
	rows_fini(&rows);
	CHECK_EQ(rows.n, 0);
}

TESTS(UNIT(a_copy_has_texts_of_its_own), UNIT(a_copy_of_the_key_has_nothing_else),
	UNIT(no_value_is_smallest), UNIT(texts_compare_by_unsigned_bytes),
	UNIT(keys_compare_part_by_part), UNIT(a_column_is_found_by_its_whole_name),
	UNIT(an_array_of_rows_grows))
