#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

static int make_below(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static void restrict_self(void *ctx)
{
	struct stage s = { 0 };

	stage_early(&s, ctx);
	if (s.host.landlock_abi == 0)
		CHILD_SKIP("this kernel has no Landlock, or it is off");
	/* A place that the mounts would let us write to. */
	CHILD_CHECK(mount("tmpfs", "/home", "tmpfs", 0, "mode=0777") == 0);
	scratch_write(AT_FDCWD, "/home/there", "x");
	CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	stage_step(&s, landlock_enter);
	CHILD_CHECK(make_below("/home/new") == -EACCES);
	CHILD_CHECK(make_below("/home/there") == -EACCES);
	CHILD_CHECK(unlink("/home/there") < 0 && errno == EACCES);
	CHILD_CHECK(mkdir("/home/dir", 0755) < 0 && errno == EACCES);
	CHILD_CHECK(symlink("x", "/home/link") < 0 && errno == EACCES);
	CHILD_CHECK(scratch_holds(AT_FDCWD, "/home/there", "x")); /* reading is allowed */
	CHILD_CHECK(make_below("/workspace/f") == 0);
	CHILD_CHECK(make_below("/mnt/data/f") == 0);
	CHILD_CHECK(make_below("/tmp/f") == 0);
	CHILD_CHECK(make_below("/dev/shm/f") == 0);
	CHILD_CHECK(make_below("/dev/null") == 0);
	CHILD_CHECK(
		mkdir("/workspace/d", 0755) == 0 && rename("/workspace/f", "/workspace/d/g") == 0);
	CHILD_CHECK(truncate("/workspace/d/g", 5) == 0 && unlink("/workspace/d/g") == 0);
	/* EACCES is Landlock's word; the kernel's own would be EPERM. */
	CHILD_CHECK(mknod("/workspace/dev", S_IFBLK | 0600, makedev(1, 1)) < 0 && errno == EACCES);
}

TEST(writing_is_for_the_boxes_own_directories)
{
	SCRATCH(d);

	IN_CHILD(restrict_self, d.path);
}

static void without(void *ctx)
{
	struct stage s = { 0 };

	(void)ctx;
	s.c.host = &s.host; /* a host whose kernel has none */
	stage_step(&s, landlock_enter);
	CHILD_CHECK(make_below("/dev/null") == 0);
}

TEST(without_landlock_nothing_is_restricted)
{
	CHECK(landlock_abi() >= 0);
	IN_CHILD(without, NULL);
}

TESTS(UNIT(writing_is_for_the_boxes_own_directories), UNIT(without_landlock_nothing_is_restricted))
