#include "base/glob.h"

#include <string.h>

#include "lib/test.h"

static const struct {
	const char *pattern;
	const char *path;
	bool matches;
} rows[] = {
	{ "a", "a", true },
	{ "a", "b", false },
	{ "*.png", "plot.png", true },
	{ "*.png", "deep/er/plot.png", true },
	{ "*.png", "plot.png.txt", false },
	{ "out/*.csv", "out/a.csv", true },
	{ "out/*.csv", "out/x/a.csv", false },
	{ "out/*", "out", false },
	{ "out/**", "out/x/a.csv", true },
	{ "**", "any/thing", true },
	{ "**/a.csv", "a.csv", true },
	{ "**/a.csv", "x/y/a.csv", true },
	{ "x/**/a.csv", "x/a.csv", true },
	{ "x/**/a.csv", "x/y/z/a.csv", true },
	{ "x/**/a.csv", "y/a.csv", false },
	{ "**/b/**/d", "a/b/c/b/d", true },
	{ "**/b/*/d", "b/x/b/c/d", true },
	{ "a/b", "a/b/c", false },
	{ "a/b/c", "a/b", false },
	{ "?.t", "a.t", true },
	{ "?.t", "/.t", false },
	{ "[a-c]x", "bx", true },
	{ "[!a-c]x", "bx", false },
	{ "[]]x", "]x", true },
	{ "[ax", "[ax", true },
	{ "\\*x", "*x", true },
	{ "\\*x", "ax", false },
	{ "", "a", false },
};

TEST(patterns_match_as_the_table_says)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (glob_match(rows[i].pattern, rows[i].path) != rows[i].matches)
			fail_msg("'%s' on '%s'", rows[i].pattern, rows[i].path);
	}
}

TEST(many_stars_take_no_exponential_time)
{
	char path[2048];

	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	CHECK(!glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", path));
	for (size_t i = 1; i < sizeof(path) - 1; i += 2)
		path[i] = '/';
	CHECK(!glob_match("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", path));
}

TESTS(UNIT(patterns_match_as_the_table_says), UNIT(many_stars_take_no_exponential_time))
