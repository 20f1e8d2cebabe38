#include "core/manifest.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

/* `names` separated by blanks; one that ends with a slash is a directory. */
static void fill(struct manifest *m, const char *names)
{
	AUTO_FREE char *copy = strdup(names);
	char *rest = NULL;

	for (char *p = strtok_r(copy, " ", &rest); p; p = strtok_r(NULL, " ", &rest)) {
		size_t n = strlen(p);
		struct manifest_entry e = { .name = p, .is_dir = p[n - 1] == '/' };

		if (e.is_dir)
			p[n - 1] = '\0';
		CHECK_EQ(manifest_add(m, &e, NULL), 0);
	}
}

static const struct row {
	const char *names;
	const char *kept; /* one letter each: + or - */
	size_t n_lost;
} rows[] = {
	{ "", "", 0 },
	{ "a b", "++", 0 },
	{ "a a", "-+", 0 },
	{ "a b a a", "-+-+", 0 },
	{ "a a/b", "+-", 1 },
	{ "a/b a", "-+", 1 },
	{ "a/ a/b a/c/", "+++", 0 },
	{ "a a/ a/b", "-++", 0 },
	{ "a/ a/b a/b/ a", "---+", 0 },
	{ "a/ a/b a", "--+", 1 },
	{ "a a-b a/c", "++-", 1 },
	{ "a a.txt a/b/c/d a/b", "++--", 2 },
};

TEST(conflicts_are_settled)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(manifest_fini) struct manifest m = { 0 };

		fill(&m, rows[i].names);
		CHECK_EQ(m.n, strlen(rows[i].kept));
		CHECK_EQ(manifest_settle(&m), rows[i].n_lost);
		for (size_t j = 0; j < m.n; j++)
			if (m.at[j].dropped != (rows[i].kept[j] == '-'))
				fail_msg("'%s': number %zu", rows[i].names, j);
	}
}

TEST(cutting_forgets)
{
	CLEANUP(manifest_fini) struct manifest m = { 0 };

	fill(&m, "a b c");
	manifest_cut(&m, 1);
	CHECK_EQ(m.n, 1);
	CHECK_EQ(m.names_bytes, 2);
	fill(&m, "d");
	CHECK_STR(m.at[1].name, "d");
}

TEST(names_are_limited)
{
	CLEANUP(manifest_fini) struct manifest m = { 0 };
	static char name[1 << 20];
	struct manifest_entry e = { .name = name };
	struct err err = { 0 };
	int r = 0;

	memset(name, 'a', sizeof(name) - 1);
	for (int i = 0; i < 100 && r == 0; i++)
		r = manifest_add(&m, &e, &err);
	CHECK_EQ(r, -E2BIG);
	CHECK_EQ(m.n, 16);
	CHECK(strstr(err.text, "names"));
}

TEST(entries_are_limited)
{
	CLEANUP(manifest_fini) struct manifest m = { 0 };
	char name[] = "a";
	struct manifest_entry e = { .name = name };

	for (unsigned i = 0; i < MANIFEST_ENTRIES_MAX; i++)
		CHECK_EQ(manifest_add(&m, &e, NULL), 0);
	CHECK_EQ(manifest_add(&m, &e, NULL), -E2BIG);
	CHECK_EQ(manifest_settle(&m), 0);
	CHECK(!m.at[m.n - 1].dropped && m.at[0].dropped);
}

TEST(depth_counts_directories)
{
	CHECK_EQ(manifest_depth("a"), 0);
	CHECK_EQ(manifest_depth("a/b/c"), 2);
}

TESTS(UNIT(conflicts_are_settled), UNIT(cutting_forgets), UNIT(names_are_limited),
	UNIT(entries_are_limited), UNIT(depth_counts_directories))
