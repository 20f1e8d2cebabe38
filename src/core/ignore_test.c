#include "core/ignore.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "lib/test.h"

static const struct row {
	const char *patterns;
	const char *path;
	int ignored;
} rows[] = {
	{ "", "a", 0 },
	{ "a", "a", 1 },
	{ "a", "b", 0 },
	{ "a", "ab", 0 },
	{ "ab", "a", 0 },
	/* anchored at the top, other than .gitignore */
	{ "a", "x/a", 0 },
	{ "*.png", "x/a.png", 0 },
	{ "*.png", "a.png", 1 },
	{ "/a", "a", 1 },
	{ "./a", "a", 1 },
	{ "a/", "a", 1 },
	{ "a//b", "a/b", 1 },
	{ "  a\t", "a", 1 },
	{ "a\r", "a", 1 },
	/* a directory takes what is below it */
	{ "node_modules", "node_modules/x/y.js", 1 },
	{ "node_modules/", "node_modules/x", 1 },
	{ "a/b", "a/b/c", 1 },
	{ "a/b", "a/bc", 0 },
	{ "*", "a/b/c", 1 },
	{ "a/*", "a/b/c", 1 },
	{ "a/*", "a", 0 },
	/* two stars */
	{ "**/a", "a", 1 },
	{ "**/a", "x/y/a", 1 },
	{ "**/a", "x/ya", 0 },
	{ "**/a", "ba", 0 },
	{ "**/*.pyc", "x/y/z.pyc", 1 },
	{ "**/*.pyc", "z.pyc", 1 },
	{ "**.pyc", "x/z.pyc", 1 },
	{ "a/**", "a/b", 1 },
	{ "a/**", "a", 0 },
	{ "a/**/b", "a/b", 1 },
	{ "a/**/b", "a/x/y/b", 1 },
	{ "a/**/b", "a/x/yb", 0 },
	{ "**", "a/b", 1 },
	{ "a**b", "a/x/b", 1 },
	/* characters */
	{ "?.c", "a.c", 1 },
	{ "?.c", "ab.c", 0 },
	{ "a?b", "a/b", 0 },
	{ "a*b", "a/b", 0 },
	{ "[a-c]x", "bx", 1 },
	{ "[a-c]x", "dx", 0 },
	{ "[^a-c]x", "dx", 1 },
	{ "a[^x]b", "a/b", 0 },
	{ "[\\]]", "]", 1 },
	{ "\\*", "*", 1 },
	{ "\\*", "a", 0 },
	{ "\\#a", "#a", 1 },
	{ "#a", "#a", 0 },
	{ "\\!a", "!a", 1 },
	/* the last one decides */
	{ "*.md\n!README.md", "README.md", 0 },
	{ "*.md\n!README.md", "NEWS.md", 1 },
	{ "!README.md\n*.md", "README.md", 1 },
	{ "a\n!a/keep", "a/keep/x", 0 },
	{ "a\n!a/keep", "a/other", 1 },
	{ "a\n! a/keep", "a/keep", 0 },
	{ "# words\n\n   \n/\n.\n!\na", "a", 1 },
	{ "# words\n\n   \n/\n.\n!\na", "b", 0 },
	{ "\xef\xbb\xbf"
	  "a",
		"a", 1 },
};

TEST(patterns_match_as_in_a_dockerignore)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CLEANUP(ignore_freep) struct ignore *g = ignore_new();
		const char *text = rows[i].patterns;

		CHECK_EQ(ignore_add_text(g, text, strlen(text), NULL), 0);
		int r = ignore_match(g, rows[i].path, NULL);
		if (r != rows[i].ignored)
			fail_msg("'%s' on '%s' gave %d", text, rows[i].path, r);
	}
}

TEST(a_malformed_line_is_named)
{
	static const char *const bad[] = { "[", "a[", "[]", "[b-a]", "[a-]", "a\\", "[a", "..",
		"a/../b", "[a/b]" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CLEANUP(ignore_freep) struct ignore *g = ignore_new();
		struct err err = { 0 };
		char text[64];
		int n = snprintf(text, sizeof(text), "good\n%s\n", bad[i]);

		if (ignore_add_text(g, text, (size_t)n, &err) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		CHECK(strstr(err.text, "line 2: ") == err.text);
		CHECK_EQ(ignore_match(g, "good", NULL), 1);
	}
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();
	CHECK_EQ(ignore_add_text(g, "a\0b", 3, NULL), -EINVAL);
}

TEST(number_and_length_are_limited)
{
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();
	char text[IGNORE_PATTERN_MAX + 2];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	CHECK_EQ(ignore_add(g, text, NULL), -E2BIG);
	text[IGNORE_PATTERN_MAX - 1] = '\0';
	CHECK_EQ(ignore_add(g, text, NULL), 0);
	for (unsigned i = 1; i < IGNORE_PATTERNS_MAX; i++)
		CHECK_EQ(ignore_add(g, "x", NULL), 0);
	CHECK_EQ(ignore_add(g, "x", NULL), -E2BIG);
	CHECK_EQ(ignore_match(g, "x", NULL), 1);
}

TEST(hostile_patterns_end)
{
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();
	char pattern[IGNORE_PATTERN_MAX + 1];
	char path[4096];
	struct err err = { 0 };
	int r = 0;

	for (size_t i = 0; i < IGNORE_PATTERN_MAX - 1; i++)
		pattern[i] = i % 2 ? '?' : '*';
	pattern[IGNORE_PATTERN_MAX - 1] = '\0';
	for (unsigned i = 0; i < 100; i++)
		CHECK_EQ(ignore_add(g, pattern, NULL), 0);
	memset(path, 'a', sizeof(path) - 1);
	for (size_t i = 200; i < sizeof(path); i += 200)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	uint64_t start = clock_monotonic_ns();
	for (unsigned i = 0; i < 1000000 && r >= 0; i++)
		r = ignore_match(g, path, &err);
	CHECK_EQ(r, -E2BIG);
	CHECK(err.text[0]);
	CHECK(clock_monotonic_ns() - start < UINT64_C(60000000000));
}

TESTS(UNIT(patterns_match_as_in_a_dockerignore), UNIT(a_malformed_line_is_named),
	UNIT(number_and_length_are_limited), UNIT(hostile_patterns_end))
