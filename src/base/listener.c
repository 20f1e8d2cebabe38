#include "base/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* The owner of /proc/PID would not do: that of a process which gave up rights is root. */
static bool belongs_to(pid_t pid, uid_t uid)
{
	char path[40];
	char text[8192];
	unsigned effective = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	const char *line = strstr(text, "\nUid:");
	return line && sscanf(line, " Uid: %*u %u", &effective) == 1 && effective == uid;
}

int listener_open(int socket, int *ret_fd, pid_t *ret_pid)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	if (peer.pid <= 1)
		return -EXDEV;
	/* In this order: who is looked at is the one that is held, or that one is dead. */
	AUTO_FD fd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (fd < 0)
		return -errno;
	if (!belongs_to(peer.pid, peer.uid))
		return -ESRCH;
	*ret_fd = take_fd(&fd);
	*ret_pid = peer.pid;
	return 0;
}
