#include "box/bind.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

int bind_attach(int mount_fd, int dir_fd, const char *path, struct err *err)
{
	if (syscall(SYS_move_mount, mount_fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, "mount on /%s", path);
	return 0;
}

int bind_clone(int dir_fd, const char *path, uint64_t attributes, int *ret, struct err *err)
{
	struct mount_attr attr = { .attr_set = attributes };
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;

	if (!path[0])
		flags |= AT_EMPTY_PATH;
	AUTO_FD tree = (int)syscall(SYS_open_tree, dir_fd, path, flags);
	if (tree < 0)
		return err_errno(err, "open the tree %s", path);
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
		    sizeof(attr)) < 0)
		return err_errno(err, "protect the tree %s", path);
	*ret = take_fd(&tree);
	return 0;
}

int bind_tmpfs(const char *mode, const char *size, int *ret, struct err *err)
{
	AUTO_FD fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0)
		return err_errno(err, "open a tmpfs");
	if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", mode, 0) < 0 ||
		syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
		syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "configure a tmpfs");
	int mount = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID);
	if (mount < 0)
		return err_errno(err, "make a tmpfs");
	*ret = mount;
	return 0;
}

int bind_read_only(const char *from, int dir_fd, const char *path, struct err *err)
{
	AUTO_FD tree = -1;
	int r = bind_clone(AT_FDCWD, from, BIND_READ_ONLY, &tree, err);

	return r < 0 ? r : bind_attach(tree, dir_fd, path, err);
}
