#include "box/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/bind.h"
#include "box/box.h"
#include "box/clone.h"
#include "box/user.h"

/* Since Linux 6.11; our headers are older. */
#ifndef PIDFD_GET_USER_NAMESPACE
#define PIDFD_GET_USER_NAMESPACE _IO(0xFF, 9)
#endif

/* Whom we try it with: below all users of boxes, and nobody else's either. */
#define STAND_IN_UID (BOX_UID_TEMPLATE - 1)

/* Its number, which the kernel tells of any descriptor for a process. */
static int read_pid(int pid_fd)
{
	char path[48];
	char text[512];

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pid_fd);
	const char *line = fd_read_text(AT_FDCWD, path, text, sizeof(text)) > 0
				   ? strstr(text, "\nPid:")
				   : NULL;
	return line ? (int)strtol(line + 5, NULL, 10) : -1;
}

static int open_user_namespace(const struct box *box)
{
	struct pollfd gone = { .fd = box->pid_fd, .events = POLLIN };
	char path[32];
	AUTO_FD fd = ioctl(box->pid_fd, PIDFD_GET_USER_NAMESPACE, 0);

	if (fd >= 0)
		return take_fd(&fd);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", read_pid(box->pid_fd));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* As long as it lives, nobody else has its number. */
	if (fd >= 0 && poll(&gone, 1, 0) != 0) {
		errno = ESRCH;
		return -1;
	}
	return take_fd(&fd);
}

int idmap_mount(int mount_fd, const struct box *box, struct err *err)
{
	AUTO_FD user_fd = open_user_namespace(box);

	if (user_fd < 0)
		return err_errno(err, "open the user namespace of a box");
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user_fd };
	if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0)
		return 0;
	/* The kernel copies the maps of users and groups, and takes no empty one. */
	if (errno == EINVAL)
		return err_set(err, -EAGAIN, "the box has no user yet");
	return err_errno(err, "give the mount to the user of a box");
}

/* What the keeper and the init of a box do together, for a process that does nothing else. */
static int become_somebody(void)
{
	const uid_t uid = STAND_IN_UID;

	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
		unshare(CLONE_NEWUSER) < 0 || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -errno;
	return user_map_self(BOX_UID, uid, BOX_GID, uid, NULL);
}

static _Noreturn void stand_in(int fd)
{
	char byte = 0;

	if (become_somebody() == 0 && fd_write_full(fd, &byte, 1) == 0)
		(void)fd_read_full(fd, &byte, 1); /* until we have been looked at */
	_exit(0);
}

/* A mount of which the top belongs to BOX_UID is seen as the other user's. */
static bool is_shown_as_theirs(const struct box *box)
{
	AUTO_FD mount_fd = -1;
	struct stat st;

	return bind_tmpfs("0700", "64k", &mount_fd, NULL) == 0 &&
	       fchownat(mount_fd, "", BOX_UID, BOX_GID, AT_EMPTY_PATH) == 0 &&
	       idmap_mount(mount_fd, box, NULL) == 0 && fstat(mount_fd, &st) == 0 &&
	       st.st_uid == STAND_IN_UID && st.st_gid == STAND_IN_UID;
}

bool idmap_works(void)
{
	struct box box = { .pid_fd = -1 };
	char byte;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return false;
	AUTO_FD ours = ends[0];
	AUTO_FD theirs = ends[1];
	box.pid = clone_process(0, -1, &box.pid_fd);
	if (box.pid == 0) {
		close_fdp(&ours);
		stand_in(theirs);
	}
	if (box.pid < 0)
		return false;
	close_fdp(&theirs);
	bool works = fd_read_full(ours, &byte, 1) == 1 && is_shown_as_theirs(&box);
	close_fdp(&ours);
	(void)waitpid(box.pid, NULL, 0);
	close_fdp(&box.pid_fd);
	return works;
}
