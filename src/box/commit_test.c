#include "box/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define PLENTY (UINT64_C(1) << 60)

static int begin(int dir_fd, char *name)
{
	int fd = -1;

	CHECK_EQ(commit_begin(dir_fd, "0123456789abcdef", name, &fd, NULL), 0);
	return fd;
}

TEST(new_files_join_the_old_ones)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = begin(d.fd, name);

	scratch_write(d.fd, "old", "1");
	scratch_write(d.fd, "both", "1");
	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(d.fd, "dir/old", "1");
	scratch_write(fresh, "both", "2");
	CHECK_EQ(mkdirat(fresh, "dir", 0755), 0);
	scratch_write(fresh, "dir/new", "2");
	CHECK_EQ(mkdirat(fresh, "other", 0755), 0);
	scratch_write(fresh, "other/new", "2");
	CHECK_EQ(commit_end(d.fd, name, false, PLENTY, NULL), 0);
	CHECK(scratch_holds(d.fd, "old", "1"));
	CHECK(scratch_holds(d.fd, "both", "2"));
	CHECK(scratch_holds(d.fd, "dir/old", "1"));
	CHECK(scratch_holds(d.fd, "dir/new", "2"));
	CHECK(scratch_holds(d.fd, "other/new", "2"));
	CHECK(!scratch_has(d.fd, name));
}

TEST(clearing_leaves_only_what_is_new)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = begin(d.fd, name);

	scratch_write(d.fd, "old", "1");
	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(d.fd, "dir/old", "1");
	CHECK_EQ(symlinkat("/nowhere", d.fd, "link"), 0);
	scratch_write(fresh, "dir", "now a file");
	CHECK_EQ(commit_end(d.fd, name, true, PLENTY, NULL), 0);
	CHECK(!scratch_has(d.fd, "old"));
	CHECK(!scratch_has(d.fd, "link"));
	CHECK(scratch_holds(d.fd, "dir", "now a file"));
	CHECK(!scratch_has(d.fd, name));
}

TEST(a_file_does_not_take_the_place_of_a_directory)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	struct err err = { 0 };
	AUTO_FD fresh = begin(d.fd, name);

	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(fresh, "aaa", "2");
	scratch_write(fresh, "dir", "2");
	CHECK_EQ(commit_end(d.fd, name, false, PLENTY, &err), -EEXIST);
	CHECK(strstr(err.text, "'dir' is a directory") != NULL);
	CHECK(!scratch_has(d.fd, "aaa")); /* nothing was moved */
	CHECK(!scratch_has(d.fd, name));
}

TEST(nothing_is_moved_when_it_would_be_too_much)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	struct err err = { 0 };
	AUTO_FD fresh = begin(d.fd, name);

	scratch_write(d.fd, "old", "1");
	scratch_write(fresh, "old", "2");
	CHECK_EQ(commit_end(d.fd, name, false, 0, &err), -EDQUOT);
	CHECK(scratch_holds(d.fd, "old", "1"));
	CHECK(!scratch_has(d.fd, name));
	AUTO_FD again = begin(d.fd, name);
	scratch_write(again, "new", "2");
	CHECK_EQ(commit_end(d.fd, name, true, 0, &err), -EDQUOT);
	CHECK(scratch_holds(d.fd, "old", "1"));
	CHECK(!scratch_has(d.fd, name));
}

TEST(links_are_replaced_not_followed)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = begin(d.fd, name);

	CHECK_EQ(mkdirat(d.fd, "target", 0755), 0);
	CHECK_EQ(symlinkat("target", d.fd, "link"), 0);
	scratch_write(fresh, "link", "2");
	CHECK_EQ(commit_end(d.fd, name, false, PLENTY, NULL), 0);
	CHECK(scratch_holds(d.fd, "link", "2"));
	CHECK(!scratch_has(d.fd, "target/link"));
}

TEST(aborting_leaves_nothing)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = begin(d.fd, name);

	scratch_write(fresh, "a", "1");
	commit_abort(d.fd, name);
	CHECK(!scratch_has(d.fd, name));
}

/* As a user whom shut directories keep out; root goes everywhere. */
static void replace_shut(void *ctx)
{
	int d = *(const int *)ctx;
	char name[COMMIT_NAME_SIZE];

	if (geteuid() == 0)
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	AUTO_FD fresh = begin(d, name);
	CHILD_CHECK(mkdirat(d, "shut", 0755) == 0);
	scratch_write(d, "shut/old", "1");
	CHILD_CHECK(fchmodat(d, "shut", 0, 0) == 0);
	scratch_write(fresh, "new", "2");
	CHILD_CHECK(commit_end(d, name, true, PLENTY, NULL) == 0);
	CHILD_CHECK(!scratch_has(d, "shut"));
	CHILD_CHECK(!scratch_has(d, name));
	CHILD_CHECK(scratch_holds(d, "new", "2"));
}

TEST(clearing_opens_what_is_shut)
{
	SCRATCH(d);

	CHECK_EQ(fchmod(d.fd, 0777), 0);
	IN_CHILD(replace_shut, &d.fd);
}

/* Another user's directory can not be moved away. */
static void keep_foreign(void *ctx)
{
	int d = *(const int *)ctx;
	char name[COMMIT_NAME_SIZE];
	struct err err = { 0 };

	CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	AUTO_FD fresh = begin(d, name);
	scratch_write(d, "a", "1");
	scratch_write(d, "z", "1");
	scratch_write(fresh, "new", "2");
	CHILD_CHECK(commit_end(d, name, true, PLENTY, &err) < 0);
	CHILD_CHECK(strstr(err.text, "foreign") != NULL);
	CHILD_CHECK(scratch_holds(d, "a", "1") && scratch_holds(d, "z", "1"));
	CHILD_CHECK(!scratch_has(d, "new") && !scratch_has(d, name));
}

TEST(what_can_not_be_cleared_leaves_all_as_it_was)
{
	SCRATCH(d);

	if (geteuid() != 0)
		SKIP("only root has files of two users");
	CHECK_EQ(fchmod(d.fd, 0777), 0);
	CHECK_EQ(mkdirat(d.fd, "foreign", 0755), 0);
	scratch_write(d.fd, "foreign/file", "x");
	IN_CHILD(keep_foreign, &d.fd);
}

TEST(a_file_of_two_names_is_counted_once)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	static char much[64 << 10];
	AUTO_FD fresh = begin(d.fd, name);

	memset(much, 'x', sizeof(much) - 1);
	scratch_write(fresh, "a", much);
	CHECK_EQ(linkat(fresh, "a", fresh, "b", 0), 0);
	CHECK_EQ(commit_end(d.fd, name, true, sizeof(much) + (4 << 10), NULL), 0);
	CHECK(scratch_has(d.fd, "a") && scratch_has(d.fd, "b"));
}

TESTS(UNIT(new_files_join_the_old_ones), UNIT(clearing_leaves_only_what_is_new),
	UNIT(a_file_does_not_take_the_place_of_a_directory),
	UNIT(nothing_is_moved_when_it_would_be_too_much), UNIT(links_are_replaced_not_followed),
	UNIT(clearing_opens_what_is_shut), UNIT(what_can_not_be_cleared_leaves_all_as_it_was),
	UNIT(a_file_of_two_names_is_counted_once), UNIT(aborting_leaves_nothing))
