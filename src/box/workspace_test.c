#include "box/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define ID    "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"

/* Write to a file of the workspace through a clone of its mount. */
static int write_file(int fd, const char *name, size_t size)
{
	static char much[1 << 20];
	AUTO_FD file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return file < 0 ? -errno : fd_write_full(file, much, size);
}

/* It holds more than that: nothing can be added, until something is taken away. */
static void check_shrinks(struct workspace_home *home, int fd)
{
	struct err err = { 0 };
	uint64_t bytes = 0;

	CHILD_CHECK(workspace_shrink(home, ID, 128 << 10, &bytes, &err) == 0);
	CHILD_CHECK(bytes > 256 << 10 && bytes < 512 << 10);
	CHILD_CHECK(write_file(fd, "added", bytes - (256 << 10)) == -ENOSPC);
	CHILD_CHECK(unlinkat(fd, "added", 0) == 0 && unlinkat(fd, "more", 0) == 0);
	CHILD_CHECK(workspace_shrink(home, ID, 128 << 10, &bytes, &err) == 0);
	CHILD_CHECK(bytes == 128 << 10);
	CHILD_CHECK(write_file(fd, "added", 128 << 10) == -ENOSPC);
	CHILD_CHECK(unlinkat(fd, "added", 0) == 0);
}

static void is_kept_and_sized(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct workspace_home home;
	AUTO_FD fd = -1;
	AUTO_FD again = -1;
	struct stat st;

	stage_host(&s, ctx);
	workspace_home_init(&home, &s.host, ctx);
	CHILD_CHECK(workspace_make(&home, ID, geteuid(), 128 << 10, &err) == 0);
	CHILD_CHECK(workspace_make(&home, ID, geteuid(), 128 << 10, &err) == -EEXIST);
	CHILD_CHECK(workspace_clone(&home, ID, &fd, &err) == 0);
	CHILD_CHECK(write_file(fd, "kept", 64 << 10) == 0);
	CHILD_CHECK(write_file(fd, "more", 128 << 10) == -ENOSPC);
	CHILD_CHECK(unlinkat(fd, "more", 0) == 0);

	CHILD_CHECK(workspace_clone(&home, ID, &again, &err) == 0);
	CHILD_CHECK(fstatat(again, "kept", &st, 0) == 0 && st.st_size == 64 << 10);
	CHILD_CHECK(workspace_resize(&home, ID, 32 << 10, &err) == -EBUSY);
	CHILD_CHECK(workspace_resize(&home, ID, 512 << 10, &err) == 0);
	CHILD_CHECK(write_file(again, "more", 256 << 10) == 0);

	check_shrinks(&home, fd);

	AUTO_FD last = -1;
	CHILD_CHECK(workspace_remove(&home, ID, &last, &err) == 0);
	CHILD_CHECK(fstatat(last, "kept", &st, 0) == 0);
	CHILD_CHECK(workspace_remove(&home, ID, &last, &err) == -ENOENT);
	CHILD_CHECK(workspace_clone(&home, OTHER, &fd, &err) == -ENOENT);
	workspace_home_fini(&home);
}

TEST(a_workspace_keeps_files_and_has_a_size_of_its_own)
{
	SCRATCH(d);

	IN_CHILD(is_kept_and_sized, d.path);
}

static void serves_a_box(void *ctx)
{
	struct stage s = { 0 };
	struct err err = { 0 };
	struct workspace_home home;
	struct statvfs fs;

	/* As a keeper does it: made before the box, and handed to it. */
	stage_host(&s, ctx);
	workspace_home_init(&home, &s.host, ctx);
	CHILD_CHECK(workspace_make(&home, ID, geteuid(), 1 << 20, &err) == 0);
	AUTO_FD fd = -1;
	CHILD_CHECK(workspace_clone(&home, ID, &fd, &err) == 0);
	stage_enter_host(&s);
	s.c.workspace_fd = fd;
	stage_step(&s, user_enter);
	stage_step(&s, mount_enter);
	stage_step(&s, workspace_enter);
	scratch_write(AT_FDCWD, "/workspace/a", "1");
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/mnt/data/a", "1"));
	CHILD_CHECK(scratch_holds(fd, "a", "1"));
	CHILD_CHECK(statvfs("/workspace", &fs) == 0);
	CHILD_CHECK((uint64_t)fs.f_blocks * (uint64_t)fs.f_frsize == 1 << 20);
	CHILD_CHECK(fs.f_flag & ST_NOEXEC);
}

TEST(a_box_takes_it_in_place_of_its_own)
{
	SCRATCH(d);

	IN_CHILD(serves_a_box, d.path);
}

TESTS(UNIT(a_workspace_keeps_files_and_has_a_size_of_its_own),
	UNIT(a_box_takes_it_in_place_of_its_own))
