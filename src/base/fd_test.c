#include "base/fd.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/str.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Far deeper than there are descriptors for. */
#define DEEP 2000

TEST(a_pipe_carries_all_or_ends)
{
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	char buf[16];

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	CHECK(fcntl(read_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(write_fd, F_GETFD) & FD_CLOEXEC);
	CHECK_EQ(fd_write_full(write_fd, "hello", 5), 0);
	CHECK_EQ(fd_write_full(write_fd, " you", 4), 0);
	close_fdp(&write_fd);
	CHECK_EQ(fd_read_full(read_fd, buf, sizeof(buf)), 9);
	CHECK_MEM(buf, "hello you", 9);
	CHECK_EQ(fd_read_full(read_fd, buf, sizeof(buf)), 0);
	CHECK_EQ(fd_read_full(-1, buf, sizeof(buf)), -EBADF);
	CHECK_EQ(fd_write_full(read_fd, "x", 1), -EBADF);
}

TEST(a_file_is_read_from_anywhere)
{
	AUTO_FD fd = memfd_create("file", MFD_CLOEXEC);
	char buf[16];

	CHECK_EQ(fd_write_full(fd, "hello you", 9), 0);
	CHECK_EQ(fd_pread_full(fd, buf, 5, 0), 5);
	CHECK_MEM(buf, "hello", 5);
	CHECK_EQ(fd_pread_full(fd, buf, sizeof(buf), 6), 3);
	CHECK_MEM(buf, "you", 3);
	CHECK_EQ(fd_pread_full(fd, buf, sizeof(buf), 9), 0);
	CHECK_EQ(fd_pread_full(-1, buf, sizeof(buf), 0), -EBADF);
}

TEST(nonblock_goes_on_and_off)
{
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	char byte;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	CHECK_EQ(fd_set_nonblock(read_fd, true), 0);
	CHECK_EQ(fd_read_full(read_fd, &byte, 1), -EAGAIN);
	CHECK_EQ(fd_set_nonblock(read_fd, false), 0);
	CHECK(!(fcntl(read_fd, F_GETFL) & O_NONBLOCK));
	CHECK_EQ(fd_set_nonblock(-1, true), -EBADF);
}

static size_t count_entries(int dir_fd)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(dir_fd);
	size_t n = 0;

	if (!dir)
		abort();
	CHECK(dirfd(dir) != dir_fd);
	while (readdir(dir))
		n++;
	return n;
}

TEST(a_directory_is_read_from_its_first_entry_each_time)
{
	SCRATCH(s);
	size_t n_fds = scratch_count_fds();

	scratch_write(s.fd, "file", "");
	CHECK_EQ(count_entries(s.fd), 3);
	CHECK_EQ(count_entries(s.fd), 3);
	AUTO_FD file = openat(s.fd, "file", O_RDONLY | O_CLOEXEC);
	CHECK(fd_open_dir(file) == NULL && errno == ENOTDIR);
	CHECK(fd_open_dir(-1) == NULL && errno == EBADF);
	CHECK_EQ(scratch_count_fds(), n_fds + 1);
}

TEST(text_is_trimmed_and_must_fit)
{
	SCRATCH(s);
	char buf[8] = "before";

	scratch_write(s.fd, "seven", "1234567");
	scratch_write(s.fd, "eight", "12345678");
	scratch_write(s.fd, "lines", "ab\n\n\n");
	scratch_write(s.fd, "empty", "");
	CHECK_EQ(fd_read_text(s.fd, "nobody", buf, sizeof(buf)), -ENOENT);
	CHECK_STR(buf, "before");
	CHECK_EQ(fd_read_text(s.fd, "seven", buf, sizeof(buf)), 7);
	CHECK_STR(buf, "1234567");
	CHECK_EQ(fd_read_text(s.fd, "eight", buf, sizeof(buf)), -EFBIG);
	CHECK_EQ(fd_read_text(s.fd, "lines", buf, sizeof(buf)), 2);
	CHECK_STR(buf, "ab");
	CHECK_EQ(fd_read_text(s.fd, "empty", buf, sizeof(buf)), 0);
	CHECK_STR(buf, "");
	CHECK_EQ(fd_read_text(s.fd, ".", buf, sizeof(buf)), -EISDIR);
}

TEST(text_of_an_open_file_is_that_of_now)
{
	SCRATCH(s);
	char buf[8] = "before";

	scratch_write(s.fd, "file", "1\n");
	AUTO_FD fd = openat(s.fd, "file", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(fd_reread_text(fd, buf, sizeof(buf)), 1);
	CHECK_STR(buf, "1");
	CHECK_EQ(fd_reread_text(fd, buf, sizeof(buf)), 1);
	scratch_write(s.fd, "file", "1234567");
	CHECK_EQ(fd_reread_text(fd, buf, sizeof(buf)), 7);
	CHECK_STR(buf, "1234567");
	scratch_write(s.fd, "file", "12345678");
	CHECK_EQ(fd_reread_text(fd, buf, sizeof(buf)), -EFBIG);
	CHECK_EQ(fd_reread_text(-1, buf, sizeof(buf)), -EBADF);
	CHECK_EQ(fd_reread_text(s.fd, buf, sizeof(buf)), -EISDIR);
}

TEST(a_small_part_of_all_descriptors_is_spare)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	CHECK(fd_count_spare() <= limit.rlim_cur / 10);
	CHECK(limit.rlim_cur < 1024 || fd_count_spare() >= 32);
}

TEST(text_is_written_to_files_that_are_there)
{
	SCRATCH(s);

	CHECK_EQ(fd_write_text(s.fd, "limit", "100"), -ENOENT);
	CHECK(!scratch_has(s.fd, "limit"));
	scratch_write(s.fd, "limit", "");
	CHECK_EQ(fd_write_text(s.fd, "limit", "100"), 0);
	CHECK(scratch_holds(s.fd, "limit", "100"));
}

/* Sizes around where the buffer grows, and around the limit. */
TEST(a_whole_file_is_read_up_to_the_limit)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 8192, 20000 };
	SCRATCH(s);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO_FREE char *text = xcalloc(sizes[i] + 1, 1);
		AUTO_FREE char *data = NULL;
		char *untouched = NULL;
		size_t size = 77;

		memset(text, 'x', sizes[i]);
		scratch_write(s.fd, "f", text);
		AUTO_FD fd = openat(s.fd, "f", O_RDONLY | O_CLOEXEC);
		CHECK_EQ(fd_read_all(fd, sizes[i], &data, &size), 0);
		CHECK_EQ(size, sizes[i]);
		CHECK_STR(data, text);
		if (sizes[i] == 0)
			continue;
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK_EQ(fd_read_all(fd, sizes[i] - 1, &untouched, &size), -EFBIG);
		CHECK(untouched == NULL);
		CHECK_EQ(size, sizes[i]);
	}
}

TEST(a_tree_that_never_was_is_gone)
{
	SCRATCH(s);

	CHECK_EQ(fd_remove_tree(s.fd, "nobody"), 0);
	scratch_write(s.fd, "file", "x");
	CHECK_EQ(fd_remove_tree(s.fd, "file"), 0);
	CHECK(!scratch_has(s.fd, "file"));
	CHECK_EQ(fd_remove_tree(s.fd, "nobody/x"), 0);
}

TEST(links_are_removed_and_not_followed)
{
	SCRATCH(s);

	CHECK_EQ(mkdirat(s.fd, "outside", 0755), 0);
	scratch_write(s.fd, "outside/keep", "x");
	CHECK_EQ(mkdirat(s.fd, "tree", 0755), 0);
	CHECK_EQ(symlinkat("/", s.fd, "tree/root"), 0);
	CHECK_EQ(symlinkat("../outside", s.fd, "tree/dir"), 0);
	CHECK_EQ(symlinkat("../outside/keep", s.fd, "tree/file"), 0);
	CHECK_EQ(symlinkat("loop", s.fd, "tree/loop"), 0);
	CHECK_EQ(symlinkat("outside", s.fd, "top"), 0);
	CHECK_EQ(mkfifoat(s.fd, "tree/fifo", 0600), 0);
	CHECK_EQ(fd_remove_tree(s.fd, "tree"), 0);
	CHECK_EQ(fd_remove_tree(s.fd, "top"), 0);
	CHECK(!scratch_has(s.fd, "tree"));
	CHECK(!scratch_has(s.fd, "top"));
	CHECK(scratch_holds(s.fd, "outside/keep", "x"));
}

static void make_deep(int dir_fd, const char *name)
{
	AUTO_FD at = dup(dir_fd);

	for (int i = 0; i < DEEP; i++) {
		CHECK_EQ(mkdirat(at, name, 0755), 0);
		int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		(void)close(at);
		at = next;
	}
	scratch_write(at, "file", "x");
}

TEST(depth_is_no_obstacle)
{
	SCRATCH(s);
	size_t n_before = scratch_count_fds();

	make_deep(s.fd, "d");
	/* Names that are in the way of those which deep parts are moved to. */
	scratch_write(s.fd, "d/.moved-0", "");
	CHECK_EQ(mkdirat(s.fd, "d/.moved-1", 0755), 0);
	scratch_write(s.fd, "d/.moved-1/file", "");
	CHECK_EQ(mkdirat(s.fd, "d/.moved-2", 0755), 0);
	CHECK_EQ(fd_remove_tree(s.fd, "d"), 0);
	CHECK(!scratch_has(s.fd, "d"));
	CHECK_EQ(scratch_count_fds(), n_before);
}

/* As a user whom modes mean something to. */
static void remove_closed(void *ctx)
{
	int dir_fd = *(int *)ctx;

	if (geteuid() == 0)
		CHILD_CHECK(
			setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	CHILD_CHECK(mkdirat(dir_fd, "tree", 0755) == 0);
	CHILD_CHECK(mkdirat(dir_fd, "tree/readonly", 0755) == 0);
	CHILD_CHECK(mkdirat(dir_fd, "tree/closed", 0755) == 0);
	CHILD_CHECK(mkdirat(dir_fd, "tree/closed/inner", 0755) == 0);
	scratch_write(dir_fd, "tree/readonly/f", "x");
	scratch_write(dir_fd, "tree/closed/f", "x");
	CHILD_CHECK(fchmodat(dir_fd, "tree/readonly", 0555, 0) == 0);
	CHILD_CHECK(fchmodat(dir_fd, "tree/closed/inner", 0, 0) == 0);
	CHILD_CHECK(fchmodat(dir_fd, "tree/closed", 0, 0) == 0);
	CHILD_CHECK(fchmodat(dir_fd, "tree", 0555, 0) == 0);
	CHILD_CHECK(fd_remove_tree(dir_fd, "tree") == 0);
	CHILD_CHECK(!scratch_has(dir_fd, "tree"));
	/* In a directory of somebody else's, nothing can be done. */
	CHILD_CHECK(geteuid() != 65534 || fd_remove_tree(AT_FDCWD, "/usr/bin/env") == -EACCES);
}

TEST(closed_and_readonly_directories_go_too)
{
	SCRATCH(s);

	CHECK_EQ(fchmod(s.fd, 0777), 0);
	IN_CHILD(remove_closed, &s.fd);
}

static void remove_mounted(void *ctx)
{
	const char *path = ctx;

	if (unshare(CLONE_NEWNS) < 0)
		CHILD_SKIP("needs the right to mount");
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	/* Opened here: a descriptor of before belongs to the other namespace. */
	int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHILD_CHECK(dir_fd >= 0 && fchdir(dir_fd) == 0);
	CHILD_CHECK(mount("tmpfs", "tree/tmpfs", "tmpfs", 0, NULL) == 0);
	scratch_write(dir_fd, "tree/tmpfs/keep", "x");
	/* Of the same file system: only the mount tells them apart. */
	CHILD_CHECK(mount("outside", "tree/bound", NULL, MS_BIND, NULL) == 0);
	int r = fd_remove_tree(dir_fd, "tree");
	CHILD_CHECK(r == -EXDEV);
	CHILD_CHECK(scratch_has(dir_fd, "outside/keep"));
	CHILD_CHECK(scratch_has(dir_fd, "tree/tmpfs/keep"));
	CHILD_CHECK(umount2("tree/tmpfs", 0) == 0);
	CHILD_CHECK(fd_remove_tree(dir_fd, "tree") == -EXDEV);
	CHILD_CHECK(scratch_has(dir_fd, "outside/keep"));
	CHILD_CHECK(umount2("tree/bound", 0) == 0);
	CHILD_CHECK(fd_remove_tree(dir_fd, "tree") == 0);
}

TEST(what_is_mounted_inside_is_not_entered)
{
	SCRATCH(s);

	CHECK_EQ(mkdirat(s.fd, "outside", 0755), 0);
	scratch_write(s.fd, "outside/keep", "x");
	CHECK_EQ(mkdirat(s.fd, "tree", 0755), 0);
	CHECK_EQ(mkdirat(s.fd, "tree/tmpfs", 0755), 0);
	CHECK_EQ(mkdirat(s.fd, "tree/bound", 0755), 0);
	IN_CHILD(remove_mounted, s.path);
}

TESTS(UNIT(a_pipe_carries_all_or_ends), UNIT(a_file_is_read_from_anywhere),
	UNIT(nonblock_goes_on_and_off), UNIT(a_directory_is_read_from_its_first_entry_each_time),
	UNIT(text_is_trimmed_and_must_fit), UNIT(text_of_an_open_file_is_that_of_now),
	UNIT(a_small_part_of_all_descriptors_is_spare),
	UNIT(text_is_written_to_files_that_are_there), UNIT(a_whole_file_is_read_up_to_the_limit),
	UNIT(a_tree_that_never_was_is_gone), UNIT(links_are_removed_and_not_followed),
	UNIT(depth_is_no_obstacle), UNIT(closed_and_readonly_directories_go_too),
	UNIT(what_is_mounted_inside_is_not_entered))
