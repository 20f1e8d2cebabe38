#include "base/newroot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

struct place {
	dev_t device;
	ino_t inode;
	uint64_t mount;
};

static int look_at_root(struct place *ret)
{
	struct statx st;

	if (statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &st) < 0)
		return -errno;
	*ret = (struct place){ .device = makedev(st.stx_dev_major, st.stx_dev_minor),
		.inode = st.stx_ino,
		.mount = st.stx_mnt_id };
	return 0;
}

/* To enter a mount namespace is to be at its root. */
static int go_to_root(void)
{
	AUTO_FD ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	return ns < 0 || setns(ns, CLONE_NEWNS) < 0 ? -errno : 0;
}

/* The tree of the chroot becomes the root, and what was there before goes. */
static int exchange(int tree, struct err *err)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "detach from the mounts outside");
	if (syscall(SYS_move_mount, tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, "mount the root of the chroot");
	if (fchdir(tree) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, "make it the root");
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_errno(err, "leave the root outside");
	return 0;
}

static int make_own(int root, struct err *err)
{
	if (fchdir(root) < 0 || chroot(".") < 0)
		return err_errno(err, "go back into the chroot");
	if (unshare(CLONE_NEWNS) < 0)
		return err_errno(err, "make a mount namespace");
	AUTO_FD tree = (int)syscall(
		SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	if (tree < 0)
		return err_errno(err, "clone the root of the chroot");
	int r = go_to_root();
	return r < 0 ? err_set(err, r, "enter the mount namespace") : exchange(tree, err);
}

int newroot_if_chrooted(struct err *err)
{
	struct place before;
	struct place after;
	AUTO_FD root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (root < 0 || look_at_root(&before) < 0 || go_to_root() < 0)
		return 0; /* not even moved */
	int r = look_at_root(&after);
	if (r < 0)
		return err_set(err, r, "look at /");
	if (before.device == after.device && before.inode == after.inode &&
		before.mount == after.mount) {
		return cwd >= 0 && fchdir(cwd) < 0 ? err_errno(err, "go back to where we were") : 0;
	}
	r = make_own(root, err);
	return r < 0 ? err_wrap(err, r, "in a chroot") : 1;
}
