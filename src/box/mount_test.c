#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

/* Whether the file system at `path` has this size and no more rights than wanted. */
static bool is_capped(const char *path, uint64_t bytes)
{
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return false;
	return st.f_blocks * st.f_frsize == bytes && (st.f_flag & ST_NOSUID) &&
	       (st.f_flag & ST_NODEV) && (st.f_flag & ST_NOEXEC) && st.f_files <= bytes / 1024 &&
	       st.f_files > 0;
}

static void look(void *ctx)
{
	struct stage s = { 0 };
	char byte;

	stage_early(&s, ctx);
	CHILD_CHECK(is_capped("/workspace", s.spec.limits.workspace_bytes));
	CHILD_CHECK(is_capped("/tmp", s.spec.limits.tmp_bytes));
	CHILD_CHECK(is_capped("/dev/shm", s.spec.limits.tmp_bytes));
	scratch_write(AT_FDCWD, "/workspace/f", "same");
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/mnt/data/f", "same"));
	scratch_write(AT_FDCWD, "/tmp/f", "x");
	CHILD_CHECK(open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC) < 0);
	/* Masked entries read as nothing. */
	int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	CHILD_CHECK(fd < 0 || read(fd, &byte, 1) == 0);
	fd = open("/proc/keys", O_RDONLY | O_CLOEXEC);
	CHILD_CHECK(fd < 0 || read(fd, &byte, 1) == 0);
	CHILD_CHECK(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0);
}

TEST(what_can_be_written_is_capped_and_proc_is_masked)
{
	SCRATCH(d);

	IN_CHILD(look, d.path);
}

static void resize(void *ctx)
{
	struct stage s = { 0 };

	stage_early(&s, ctx);
	s.spec.limits.workspace_bytes = 1 << 20;
	s.spec.limits.tmp_bytes = 2 << 20;
	stage_step(&s, workspace_enter);
	CHILD_CHECK(is_capped("/workspace", 1 << 20));
	CHILD_CHECK(is_capped("/mnt/data", 1 << 20));
	CHILD_CHECK(is_capped("/tmp", 2 << 20));
	CHILD_CHECK(is_capped("/dev/shm", 2 << 20));
	int fd = open("/workspace/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static char block[1 << 16];
	int r = 0;
	for (int i = 0; i < 100 && r == 0; i++)
		r = fd_write_full(fd, block, sizeof(block));
	CHILD_CHECK(r == -ENOSPC);
}

TEST(a_run_gets_the_sizes_it_asked_for)
{
	SCRATCH(d);

	IN_CHILD(resize, d.path);
}

TESTS(UNIT(what_can_be_written_is_capped_and_proc_is_masked),
	UNIT(a_run_gets_the_sizes_it_asked_for))
