#include "core/git_patch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "lib/test.h"

static int complete(const char *patch, char **ret, struct err *err)
{
	size_t size = 0;

	return git_patch_complete(patch, strlen(patch), ret, &size, err);
}

static void check_same(const char *patch)
{
	AUTO_FREE char *text = NULL;

	CHECK_EQ(complete(patch, &text, NULL), 0);
	CHECK_STR(text, patch);
}

TEST(what_has_its_headers_stays_as_it_is)
{
	check_same("");
	check_same("words\n--- \n+++ \n");
	check_same("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n"
		   "@@ -1,2 +1,2 @@ words\n--- a\n-+++ b\n+c\n+@@ -1 +1 @@\n"
		   "diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b");
	check_same("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,2 @@\nno line of it\n");
}

TEST(a_line_of_a_hunk_is_no_header)
{
	AUTO_FREE char *text = NULL;

	CHECK_EQ(complete("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n+++ b/y\n"
			  "@@ -1 +1 @@\n-a\n+b\n",
			 &text, NULL),
		-EINVAL);
	CHECK_EQ(complete("--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- a/y\n+++ b/y\n"
			  "@@ -9 +9 @@\n-a\n+b\n\\ No newline at end of file\n",
			 &text, NULL),
		0);
	CHECK_STR(text, "diff --git \"a/x\" \"b/x\"\n--- \"a/x\"\n+++ \"b/x\"\n"
			"@@ -1 +1 @@\n--- a/y\n+++ b/y\n"
			"@@ -9 +9 @@\n-a\n+b\n\\ No newline at end of file\n");
}

static const struct row {
	const char *old, *new;
	const char *name;
} rows[] = {
	{ "a/x", "b/x", "x" },
	{ "a/x/y", "b/x/y\t2023-11-14 22:13:20 +0000", "x/y" },
	{ "x", "x", "x" },
	{ "x\r", "x\r", "x" },
	{ "old/src/x", "new/src/x", "src/x" },
	{ "src/x\t(revision 1)", "src/x\t(working copy)", "src/x" },
	{ "a/x", "a/x", "x" },
	{ "src/x.orig", "src/x", "x" },
	{ "x~", "x", "x" },
	{ "\"a/\\303\\244\\\"\"", "b/x", "\\303\\244\\\"" },
	{ "a/with blanks", "b/with blanks\t", "with blanks" },
	{ "a/q\"\\\x01", "b/q\"\\\x01", "q\\\"\\\\\\001" },
	{ "/tmp/x", "/tmp/x", "/tmp/x" },
};

TEST(names_are_taken_as_git_does)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *text = NULL;
		char patch[256], want[256];

		(void)snprintf(patch, sizeof(patch), "--- %s\n+++ %s\n@@ -1 +1 @@\n-a\n+b\n",
			rows[i].old, rows[i].new);
		(void)snprintf(want, sizeof(want),
			"diff --git \"a/%s\" \"b/%s\"\n--- \"a/%s\"\n+++ \"b/%s\"\n"
			"@@ -1 +1 @@\n-a\n+b\n",
			rows[i].name, rows[i].name, rows[i].name, rows[i].name);
		CHECK_EQ(complete(patch, &text, NULL), 0);
		CHECK_STR(text, want);
	}
}

static void check_new(const char *old, const char *new, const char *name)
{
	AUTO_FREE char *text = NULL;
	char patch[256], want[256];

	(void)snprintf(patch, sizeof(patch), "--- %s\n+++ %s\n@@ -0,0 +1 @@\n+a\n", old, new);
	(void)snprintf(want, sizeof(want),
		"diff --git \"a/%s\" \"b/%s\"\nnew file mode 100644\n--- /dev/null\n"
		"+++ \"b/%s\"\n@@ -0,0 +1 @@\n+a\n",
		name, name, name);
	CHECK_EQ(complete(patch, &text, NULL), 0);
	CHECK_STR(text, want);
}

static void check_deleted(const char *old, const char *new, const char *name)
{
	AUTO_FREE char *text = NULL;
	char patch[256], want[256];

	(void)snprintf(patch, sizeof(patch), "--- %s\n+++ %s\n@@ -1 +0,0 @@\n-a\n", old, new);
	(void)snprintf(want, sizeof(want),
		"diff --git \"a/%s\" \"b/%s\"\ndeleted file mode 100644\n--- \"a/%s\"\n"
		"+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
		name, name, name);
	CHECK_EQ(complete(patch, &text, NULL), 0);
	CHECK_STR(text, want);
}

TEST(a_file_may_be_new_or_deleted)
{
	check_new("/dev/null", "b/x/y", "x/y");
	check_new("/dev/null\t1970-01-01", "b/x", "x");
	check_new("/dev/null", "src/x", "src/x");
	check_new("old/x\t1970-01-01 00:00:00 +0000", "new/x\t2023-11-14", "x");
	check_new("old/x\t1969-12-31 19:00:00 -0500", "new/x\t2023-11-14", "x");
	check_deleted("a/x/y", "/dev/null", "x/y");
	check_deleted("src/x", "/dev/null", "src/x");
	check_deleted("old/x\t2023-11-14", "new/x\t1970-01-01 00:00:00 +0000", "x");
}

TEST(what_is_wrong_is_said_with_its_line)
{
	static const char *const bad[][2] = {
		{ "\n--- \"a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "line 2 names no file" },
		{ "--- a/x\n+++ \t\n@@ -1 +1 @@\n-a\n+b\n", "line 2 names no file" },
		{ "--- a/x\n+++ b/x\n@@ -1 @@\n-a\n", "line 3 is no head of a hunk" },
		{ "--- a/x\n+++ b/x\n@@ -1,99999999999999999999 +1 @@\n-a\n", "line 3 is no head" },
		{ "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n", "line 5 is no line of its hunk" },
		{ "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n", "line 5 is no line of its hunk" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *text = NULL;
		struct err err = { 0 };

		CHECK_EQ(complete(bad[i][0], &text, &err), -EINVAL);
		CHECK(text == NULL);
		if (!strstr(err.text, bad[i][1]))
			fail_msg("row %zu: %s", i, err.text);
	}
}

/* Each of its names stands four times in a header. */
TEST(it_does_not_grow_without_end)
{
	static const char file[] = "--- a/%0*d\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
	size_t size = 16u << 20;
	AUTO_FREE char *patch = calloc(1, size + 8192);
	AUTO_FREE char *text = NULL;
	size_t n = 0;
	char one[4200];
	struct err err = { 0 };

	int n_one = snprintf(one, sizeof(one), file, 4000, 1);
	memset(one + 6, '"', 4000); /* which is escaped, too */
	while (n < size) {
		memcpy(patch + n, one, (size_t)n_one);
		n += (size_t)n_one;
	}
	CHECK_EQ(complete(patch, &text, &err), -E2BIG);
}

TESTS(UNIT(what_has_its_headers_stays_as_it_is), UNIT(a_line_of_a_hunk_is_no_header),
	UNIT(names_are_taken_as_git_does), UNIT(a_file_may_be_new_or_deleted),
	UNIT(what_is_wrong_is_said_with_its_line), UNIT(it_does_not_grow_without_end))
