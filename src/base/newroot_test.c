#include "base/newroot.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* A user namespace can be made, as for a box. */
static bool can_make_user_namespace(void)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0);
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void enter_chroot(const char *dir)
{
	CHILD_CHECK(chdir(dir) == 0);
	CHILD_CHECK(mkdir("proc", 0755) == 0 && mkdir("sub", 0755) == 0);
	CHILD_CHECK(unshare(CLONE_NEWNS) == 0);
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHILD_CHECK(mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) == 0);
	CHILD_CHECK(chroot(".") == 0 && chdir("/") == 0);
}

static void becomes_the_root(void *ctx)
{
	struct err err = { 0 };

	if (geteuid() != 0)
		CHILD_SKIP("only root can leave a chroot");
	enter_chroot(ctx);
	CHILD_CHECK(!can_make_user_namespace());
	CHILD_CHECK(newroot_if_chrooted(&err) == 1);
	CHILD_CHECK(can_make_user_namespace());
	CHILD_CHECK(is_there("/sub") && is_there("/proc/self/ns/mnt") && !is_there("/usr"));
	/* Also from where a namespace's root is, there is no way out. */
	int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	CHILD_CHECK(ns >= 0 && setns(ns, CLONE_NEWNS) == 0);
	CHILD_CHECK(is_there("/sub") && !is_there("/usr"));
	CHILD_CHECK(newroot_if_chrooted(&err) == 0);
}

/* The root of the chroot may be a mount of its own, or a directory. */
TEST(what_is_the_root_of_a_chroot_becomes_the_root)
{
	SCRATCH(d);

	IN_CHILD(becomes_the_root, d.path);
}

static void on_a_mount(void *ctx)
{
	if (geteuid() != 0)
		CHILD_SKIP("only root can leave a chroot");
	CHILD_CHECK(unshare(CLONE_NEWNS) == 0);
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHILD_CHECK(mount("tmpfs", ctx, "tmpfs", 0, NULL) == 0);
	becomes_the_root(ctx);
}

TEST(so_does_a_mount)
{
	SCRATCH(d);

	IN_CHILD(on_a_mount, d.path);
}

static void stays(void *ctx)
{
	struct err err = { 0 };
	struct stat before;
	struct stat after;

	CHILD_CHECK(chdir(ctx) == 0 && stat(".", &before) == 0);
	CHILD_CHECK(newroot_if_chrooted(&err) == 0);
	CHILD_CHECK(stat(".", &after) == 0);
	CHILD_CHECK(before.st_dev == after.st_dev && before.st_ino == after.st_ino);
}

TEST(who_is_in_no_chroot_stays_where_he_is)
{
	SCRATCH(d);

	IN_CHILD(stays, d.path);
}

TESTS(UNIT(what_is_the_root_of_a_chroot_becomes_the_root), UNIT(so_does_a_mount),
	UNIT(who_is_in_no_chroot_stays_where_he_is))
