/* Replacing all files, by somebody who is killed before each of the calls that change something. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/commit.h"
#include "lib/fault.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define PLENTY (UINT64_C(1) << 60)
#define KILLED 9

#define DIES (_exit(KILLED), -1)
/* clang-format off */
FAULT_AS(DIES, int, fchmodat, (int fd, const char *path, mode_t m, int flags), (fd, path, m, flags))
FAULT_AS(DIES, int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT_AS(DIES, int, renameat, (int from, const char *a, int to, const char *b), (from, a, to, b))
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
	return commit_recover(dir, NULL);
}

/* Killed at the nth change, and then at the kth of making it good. False when there is no such. */
static bool is_whole_after(int n, int k, bool *ret_died)
{
	SCRATCH(d);
	char name[COMMIT_NAME_SIZE];
	AUTO_FD fresh = -1;

	fill_old(d.fd);
	CHECK_EQ(commit_begin(d.fd, name, &fresh, NULL), 0);
	fill_new(fresh);
	close_fdp(&fresh); /* who was killed has nothing open */
	*ret_died = die_at(n, replace, d.fd, name);
	bool again = die_at(k, recover, d.fd, name);
	CHECK_EQ(commit_recover(d.fd, NULL), 0);
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

TEST(new_files_go_unless_somebody_holds_them)
{
	SCRATCH(d);
	char held[COMMIT_NAME_SIZE], left[COMMIT_NAME_SIZE];
	AUTO_FD fresh = -1, gone = -1;

	CHECK_EQ(commit_begin(d.fd, held, &fresh, NULL), 0);
	CHECK_EQ(commit_begin(d.fd, left, &gone, NULL), 0);
	scratch_write(gone, "file", "1");
	close_fdp(&gone);
	CHECK_EQ(commit_recover(d.fd, NULL), 0);
	CHECK(scratch_has(d.fd, held));
	CHECK(!scratch_has(d.fd, left));
}

TEST(a_guest_that_uses_the_names_loses_nothing)
{
	SCRATCH(d);

	scratch_write(d.fd, ".outgoing-0123456789abcdef", "a file");
	CHECK_EQ(symlinkat("/tmp", d.fd, ".arriving-0123456789abcdef"), 0);
	CHECK_EQ(mkdirat(d.fd, ".outgoing-mine", 0755), 0);
	CHECK_EQ(mkdirat(d.fd, ".outgoing-00000000000000ff", 0755), 0);
	scratch_write(d.fd, ".outgoing-00000000000000ff/kept", "1");
	CHECK_EQ(commit_recover(d.fd, NULL), 0);
	CHECK(scratch_holds(d.fd, ".outgoing-0123456789abcdef", "a file"));
	CHECK(scratch_has(d.fd, ".arriving-0123456789abcdef"));
	CHECK(scratch_has(d.fd, ".outgoing-mine"));
	CHECK(scratch_holds(d.fd, "kept", "1"));
}

TESTS(UNIT(who_is_killed_leaves_the_old_files_or_the_new_ones),
	UNIT(new_files_go_unless_somebody_holds_them),
	UNIT(a_guest_that_uses_the_names_loses_nothing))
