#include "core/git_files.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/str.h"
#include "core/git_sample.h"

/* The files of the first commit, with the patch. */
static void fetch_patched(const struct sample *s, const char *patch, const struct scratch *into)
{
	char commit[GIT_COMMIT_SIZE + 1];
	struct err err = { 0 };

	if (fetch(s, "main", patch, into, commit, &err) < 0)
		fail_msg("%s", err.text);
	CHECK_STR(commit, s->first);
}

TEST(a_patch_is_applied)
{
	static const char patch[] = "diff --git a/text b/text\n"
				    "--- a/text\n+++ b/text\n"
				    "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
				    "diff --git a/new/file b/new/file\n"
				    "new file mode 100755\n--- /dev/null\n+++ b/new/file\n"
				    "@@ -0,0 +1 @@\n+fresh\n"
				    "diff --git a/link b/link\n"
				    "new file mode 120000\n--- /dev/null\n+++ b/link\n"
				    "@@ -0,0 +1 @@\n+new/file\n\\ No newline at end of file\n";
	SAMPLE(s);
	SCRATCH(into);

	fetch_patched(&s, patch, &into);
	CHECK(scratch_holds(into.fd, "text", "one\n2\nthree\n"));
	CHECK(scratch_holds(into.fd, "new/file", "fresh\n"));
	CHECK(scratch_has(into.fd, "link"));
}

/* What a repository has of these is left out. */
TEST(a_patch_may_not_make_what_is_left_out)
{
	static const char *const patches[] = {
		"diff --git a/bad b/bad\nnew file mode 120000\n--- /dev/null\n+++ b/bad\n"
		"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n",
		"diff --git a/bad b/bad\nnew file mode 120000\n--- /dev/null\n+++ b/bad\n"
		"@@ -0,0 +1 @@\n+../outside\n\\ No newline at end of file\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(patches); i++) {
		SAMPLE(s);
		SCRATCH(into);
		char commit[GIT_COMMIT_SIZE + 1] = "";
		struct err err = { 0 };

		CHECK_EQ(fetch(&s, "main", patches[i], &into, commit, &err), -EINVAL);
		CHECK(strstr(err.text, "'bad' a link that leads out") != NULL);
	}
}

/* As `diff -u` writes them, or somebody by hand. */
TEST(a_patch_without_headers_of_git_is_applied)
{
	static const char patch[] = "Only in b: something\n"
				    "--- a/text\t2023-11-14 22:13:20.000000000 +0000\n"
				    "+++ b/text\t2023-11-14 22:13:21.000000000 +0000\n"
				    "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+++ x\n three\n"
				    "--- /dev/null\n+++ b/new/file one\n"
				    "@@ -0,0 +1 @@\n+fresh\n"
				    "--- a/src/main.c\n+++ /dev/null\n"
				    "@@ -1 +0,0 @@\n-int main;\n"
				    "--- run.sh.orig\n+++ run.sh\n"
				    "@@ -1 +1 @@\n-#!/bin/sh\n+#!/bin/bash\n";
	SAMPLE(s);
	SCRATCH(into);
	struct stat st;

	fetch_patched(&s, patch, &into);
	CHECK(scratch_holds(into.fd, "text", "one\n2\n++ x\nthree\n"));
	CHECK(scratch_holds(into.fd, "new/file one", "fresh\n"));
	CHECK(!scratch_has(into.fd, "src/main.c"));
	CHECK(scratch_holds(into.fd, "run.sh", "#!/bin/bash\n"));
	CHECK_EQ(fstatat(into.fd, "run.sh", &st, 0), 0);
	CHECK(st.st_mode & 0100);
}

/* Its mode does not stand in such a patch. */
TEST(a_program_can_be_deleted_by_any_patch)
{
	static const char patch[] = "--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-#!/bin/sh\n";
	SAMPLE(s);
	SCRATCH(into);

	fetch_patched(&s, patch, &into);
	CHECK(!scratch_has(into.fd, "run.sh"));
	CHECK(scratch_has(into.fd, "text"));
}

TEST(a_bad_patch_is_an_error_that_says_where)
{
	static const char *const rows[][2] = {
		{ "diff --git a/text b/text\n--- a/text\n+++ b/text\n"
		  "@@ -1,3 +1,3 @@\n one\n-zwei\n+2\n three\n",
			"file 'text', hunk 1" },
		{ "diff --git a/gone b/gone\n--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a\n+b\n",
			"gone" },
		{ "this is no patch", "the patch" },
		{ "diff --git a/text b/text\n--- a/text\n+++ b/text\n@@ -1,3 +1,9 @@\n one\n",
			"can not be read" },
		{ "diff --git a/.git/x b/.git/x\nnew file mode 100644\n--- /dev/null\n"
		  "+++ b/.git/x\n@@ -0,0 +1 @@\n+bad\n",
			".git/x" },
		{ "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n"
		  "+++ b/../x\n@@ -0,0 +1 @@\n+bad\n",
			"../x" },
		{ "--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-zwei\n+2\n three\n",
			"file 'text', hunk 1" },
		{ "--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+bad\n", ".git/x" },
		{ "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+bad\n", "../x" },
		{ "--- /dev/null\n+++ b/text\n@@ -0,0 +1 @@\n+bad\n", "text" },
		{ "--- a/text\n+++ b/text\n@@ -1,3 +1,9 @@\n one\n", "line 5 is no line" },
		{ "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "line 2 names no" },
	};
	SAMPLE(s);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		SCRATCH(into);
		char commit[GIT_COMMIT_SIZE + 1];
		struct err err = { 0 };
		int r = fetch(&s, NULL, rows[i][0], &into, commit, &err);

		if (r != -EINVAL || !strstr(err.text, rows[i][1]))
			fail_msg("row %zu gave %d, %s", i, r, err.text);
	}
}

TEST(links_are_judged_by_where_they_lead)
{
	CHECK(git_files_link_stays("a", "b"));
	CHECK(git_files_link_stays("a/b", "../c"));
	CHECK(git_files_link_stays("a/b", ".."));
	CHECK(git_files_link_stays("a/b/c", "../../d/e"));
	CHECK(git_files_link_stays("a", "b..c"));
	CHECK(git_files_link_stays("a", "."));
	CHECK(!git_files_link_stays("a", ".."));
	CHECK(!git_files_link_stays("a", "../b"));
	CHECK(!git_files_link_stays("a/b", "../../c"));
	CHECK(!git_files_link_stays("a", "/etc"));
	CHECK(!git_files_link_stays("a", ""));
	CHECK(!git_files_link_stays("a", "b/../../c"));
	CHECK(!git_files_link_stays("a/b/c", "d/../e"));
	CHECK(!git_files_link_stays("a/b/c", "./../e"));
}

TESTS(UNIT(a_patch_is_applied), UNIT(a_patch_may_not_make_what_is_left_out),
	UNIT(a_patch_without_headers_of_git_is_applied),
	UNIT(a_program_can_be_deleted_by_any_patch), UNIT(a_bad_patch_is_an_error_that_says_where),
	UNIT(links_are_judged_by_where_they_lead))
