/* Replacing all files, by somebody who is killed before each of the calls that change something. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/commit.h"
#include "lib/child.h"
#include "lib/fault.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define PLENTY (UINT64_C(1) << 60)
#define KILLED 9
#define DIGITS "0123456789abcdef"

#define DIES (_exit(KILLED), -1)
/* clang-format off */
FAULT_AS(DIES, int, chmod, (const char *path, mode_t mode), (path, mode))
FAULT_AS(DIES, int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT_AS(DIES, int, renameat, (int from, const char *a, int to, const char *b), (from, a, to, b))
FAULT_AS(DIES, int, renameat2, (int from, const char *a, int to, const char *b, unsigned flags),
	(from, a, to, b, flags))
FAULT_AS(DIES, int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
/* clang-format on */

static void fill_old(int dir)
{
	scratch_write(dir, "both", "old");
	scratch_write(dir, "old", "old");
	CHECK_EQ(mkdirat(dir, "dir", 0755), 0);
	scratch_write(dir, "dir/old", "old");
	CHECK_EQ(mkdirat(dir, "swapped", 0755), 0);
	scratch_write(dir, "swapped/old", "old");
}

static void fill_new(int dir)
{
	scratch_write(dir, "both", "new");
	scratch_write(dir, "new", "new");
	scratch_write(dir, "swapped", "new");
	CHECK_EQ(mkdirat(dir, "dir", 0755), 0);
	scratch_write(dir, "dir/new", "new");
}

static unsigned count_names(int dir_fd)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(dir_fd);
	unsigned n = 0;

	while (readdir(dir))
		n++;
	return n - 2; /* . and .. */
}

static bool is_old(int d)
{
	return scratch_holds(d, "both", "old") && scratch_holds(d, "old", "old") &&
	       scratch_holds(d, "dir/old", "old") && !scratch_has(d, "dir/new") &&
	       scratch_holds(d, "swapped/old", "old") && count_names(d) == 4;
}

static bool is_new(int d)
{
	return scratch_holds(d, "both", "new") && scratch_holds(d, "new", "new") &&
	       scratch_holds(d, "dir/new", "new") && !scratch_has(d, "dir/old") &&
	       scratch_holds(d, "swapped", "new") && count_names(d) == 4;
}

typedef int change_fn(int dir, const char *name);

/* Does it in a child that is killed at its nth change. False when that is never. */
static bool die_at(int n, change_fn *change, int dir, const char *name)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)fault_arm(1, 0);
		fault.countdown = n;
		_exit(change(dir, name) < 0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED));
	return WEXITSTATUS(status) == KILLED;
}

static int replace(int dir, const char *name)
{
	return commit_end(dir, name, true, PLENTY, NULL);
}

static int recover(int dir, const char *name)
{
	(void)name;
	return commit_recover(dir, DIGITS, NULL);
}

/* Killed at the nth change, and then at the kth of making it good. False when there is no such. */
static bool is_whole_after(int n, int k, bool *ret_died)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = -1;

	fill_old(d.fd);
	CHECK_EQ(commit_begin(d.fd, DIGITS, name, &fresh, NULL), 0);
	fill_new(fresh);
	*ret_died = die_at(n, replace, d.fd, name);
	bool again = die_at(k, recover, d.fd, name);
	CHECK_EQ(commit_recover(d.fd, DIGITS, NULL), 0);
	CHECK(*ret_died || is_new(d.fd));
	CHECK(is_old(d.fd) || is_new(d.fd));
	return again;
}

TEST(who_is_killed_leaves_the_old_files_or_the_new_ones)
{
	bool died = true;
	int n = 0, n_recoveries = 0;

	while (died) {
		n++;
		for (int k = 1; is_whole_after(n, k, &died); k++)
			n_recoveries++;
	}
	CHECK(n > 12); /* four away, one between, four in, and what is removed */
	CHECK(n_recoveries > n);
}

TEST(new_files_of_who_was_killed_go)
{
	SCRATCH(d);
	char left[COMMIT_NAME_SIZE], other[COMMIT_NAME_SIZE];
	AUTO_FD gone = -1, fresh = -1, again = -1;

	CHECK_EQ(commit_begin(d.fd, DIGITS, left, &gone, NULL), 0);
	scratch_write(gone, "file", "1");
	CHECK_EQ(commit_begin(d.fd, "fedcba9876543210fedc", other, &fresh, NULL), 0);
	CHECK_STR(other, ".incoming-fedcba9876543210");
	scratch_write(fresh, "file", "1");
	CHECK_EQ(commit_begin(d.fd, DIGITS, left, &again, NULL), 0);
	CHECK_EQ(count_names(again), 0);
	CHECK_EQ(commit_recover(d.fd, DIGITS, NULL), 0);
	CHECK(!scratch_has(d.fd, left));
	CHECK_EQ(count_names(fresh), 1); /* somebody else's */
}

/* Whatever a guest has of such names is nobody's but its own. */
TEST(only_what_has_the_digits_is_touched)
{
	SCRATCH(d);

	CHECK_EQ(mkdirat(d.fd, "a", 0755), 0);
	scratch_write(d.fd, "a/x", "1");
	scratch_write(d.fd, "data", "mine");
	CHECK_EQ(mkdirat(d.fd, ".outgoing-00000000000000ff", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".outgoing-00000000000000ff/a", 0755), 0);
	scratch_write(d.fd, ".outgoing-00000000000000ff/a/y", "1");
	scratch_write(d.fd, ".outgoing-00000000000000ff/data", "other");
	CHECK_EQ(mkdirat(d.fd, ".incoming-00000000000000ff", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".arriving-00000000000000fe", 0755), 0);
	scratch_write(d.fd, ".arriving-00000000000000fe/q", "1");
	CHECK_EQ(commit_recover(d.fd, DIGITS, NULL), 0);
	CHECK(scratch_holds(d.fd, "data", "mine"));
	CHECK(scratch_holds(d.fd, ".outgoing-00000000000000ff/data", "other"));
	CHECK(scratch_has(d.fd, ".incoming-00000000000000ff"));
	CHECK(scratch_has(d.fd, ".arriving-00000000000000fe/q"));
	CHECK_EQ(count_names(d.fd), 5);
}

TEST(nothing_is_replaced_by_what_goes_back)
{
	SCRATCH(d);
	struct err err = { 0 };

	scratch_write(d.fd, "data", "now");
	CHECK_EQ(mkdirat(d.fd, ".outgoing-" DIGITS, 0755), 0);
	scratch_write(d.fd, ".outgoing-" DIGITS "/data", "before");
	CHECK_EQ(commit_recover(d.fd, DIGITS, &err), -EEXIST);
	CHECK(strstr(err.text, "'data'") != NULL);
	CHECK(scratch_holds(d.fd, "data", "now"));
	CHECK(scratch_holds(d.fd, ".outgoing-" DIGITS "/data", "before"));
}

/* As a user whom shut directories keep out; root goes everywhere. */
static void recover_shut(void *ctx)
{
	int d = *(const int *)ctx;

	if (geteuid() == 0)
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	CHILD_CHECK(mkdirat(d, ".outgoing-" DIGITS, 0755) == 0);
	scratch_write(d, ".outgoing-" DIGITS "/old", "1");
	CHILD_CHECK(mkdirat(d, ".arriving-" DIGITS, 0) == 0);
	CHILD_CHECK(commit_recover(d, DIGITS, NULL) == -EACCES);
	CHILD_CHECK(scratch_has(d, ".outgoing-" DIGITS "/old") && !scratch_has(d, "old"));
}

TEST(who_can_not_look_does_not_go_back)
{
	SCRATCH(d);

	CHECK_EQ(fchmod(d.fd, 0777), 0);
	IN_CHILD(recover_shut, &d.fd);
}

static void recover_link(void *ctx)
{
	int d = *(const int *)ctx;
	struct stat st;

	if (geteuid() == 0)
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	CHILD_CHECK(mkdirat(d, "target", 0755) == 0);
	CHILD_CHECK(mkdirat(d, ".outgoing-" DIGITS, 0755) == 0);
	CHILD_CHECK(symlinkat("../target", d, ".outgoing-" DIGITS "/link") == 0);
	CHILD_CHECK(fchmodat(d, ".outgoing-" DIGITS, 0500, 0) == 0);
	CHILD_CHECK(commit_recover(d, DIGITS, NULL) == -EACCES);
	CHILD_CHECK(fstatat(d, "target", &st, 0) == 0 && (st.st_mode & 0777) == 0755);
}

TEST(nothing_is_opened_up_by_way_of_a_link)
{
	SCRATCH(d);

	CHECK_EQ(fchmod(d.fd, 0777), 0);
	IN_CHILD(recover_link, &d.fd);
}

TESTS(UNIT(who_is_killed_leaves_the_old_files_or_the_new_ones),
	UNIT(new_files_of_who_was_killed_go), UNIT(only_what_has_the_digits_is_touched),
	UNIT(nothing_is_replaced_by_what_goes_back), UNIT(who_can_not_look_does_not_go_back),
	UNIT(nothing_is_opened_up_by_way_of_a_link))
