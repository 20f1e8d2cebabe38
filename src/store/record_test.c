#include "store/record.h"

#include <string.h>

#include "base/str.h"
#include "lib/test.h"
#include "store/row.h"

/* Every field is as wide as a pointer, so a field that a description forgot leaves a hole. */
TEST(every_field_is_described_once)
{
	for (size_t i = 0; tables[i]; i++) {
		const struct table *t = tables[i];
		bool seen[STORE_COLUMNS_MAX] = { false };
		CHECK_EQ(t->row_size, t->n_columns * 8);
		CHECK(t->n_columns <= STORE_COLUMNS_MAX);
		for (size_t j = 0; j < t->n_columns; j++) {
			size_t place = t->columns[j].offset / 8;
			CHECK_EQ(t->columns[j].offset % 8, 0);
			CHECK(place < t->n_columns && !seen[place]);
			seen[place] = true;
		}
	}
}

TEST(keys_are_texts)
{
	for (size_t i = 0; tables[i]; i++) {
		CHECK(tables[i]->n_keys > 0);
		for (size_t j = 0; j < tables[i]->n_keys; j++)
			CHECK_EQ(tables[i]->columns[j].type, COLUMN_TEXT);
	}
}

TEST(names_differ)
{
	for (size_t i = 0; tables[i]; i++) {
		const struct table *t = tables[i];
		for (size_t j = 0; j < t->n_columns; j++)
			CHECK(row_find_column(t, t->columns[j].name, strlen(t->columns[j].name)) ==
				&t->columns[j]);
		for (size_t j = 0; j < i; j++)
			CHECK(!streq(t->name, tables[j]->name));
	}
}

/* An index that does not end with the key could not give the order of a listing. */
static void check_index(const struct table *t, const struct table_index *index)
{
	const char *names = index->columns;
	size_t n_keys = 0;

	CHECK(strncmp(index->name, "idx_", 4) == 0);
	for (; *names; names += strspn(names, ", ")) {
		size_t size = strcspn(names, ", ");
		const struct column *c = row_find_column(t, names, size);

		CHECK(c != NULL);
		n_keys += (size_t)(c - t->columns) < t->n_keys;
		names += size;
	}
	CHECK_EQ(n_keys, t->n_keys);
}

TEST(indexes_are_of_columns_and_end_with_the_key)
{
	for (size_t i = 0; tables[i]; i++) {
		for (size_t j = 0; j < tables[i]->n_indexes; j++)
			check_index(tables[i], &tables[i]->indexes[j]);
	}
}

static bool has_index(const char *name)
{
	for (size_t i = 0; tables[i]; i++) {
		for (size_t j = 0; j < tables[i]->n_indexes; j++) {
			if (streq(tables[i]->indexes[j].name, name))
				return true;
		}
	}
	return false;
}

TEST(the_documented_indexes_are_there)
{
	static const char *const names[] = {
		"idx_runs_started_at",
		"idx_runs_finished_at",
		"idx_runs_phase",
		"idx_runs_runtime",
		"idx_runs_image_digest",
		"idx_runs_base_image",
		"idx_runs_user_started_at",
		"idx_runs_user_phase",
		"idx_idem_created_at",
		"idx_idem_user_key",
		"idx_usage_artifact_bytes",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK(has_index(names[i]));
}

TESTS(UNIT(every_field_is_described_once), UNIT(keys_are_texts), UNIT(names_differ),
	UNIT(indexes_are_of_columns_and_end_with_the_key), UNIT(the_documented_indexes_are_there))
