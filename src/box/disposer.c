#include "box/disposer.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "box/program.h"

#define CONTROL_FD 3
#define NICENESS   10 /* runs need the processor more */

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* The descriptor that comes, or -1 when nobody can send one any more. */
static int take(void)
{
	char byte;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	union control control;
	struct msghdr m = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	int fd = -1;

	if (recvmsg(CONTROL_FD, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static _Noreturn void serve(int socket)
{
	int fd;

	/* The disposer has a name of its own, so that a search for the keeper's arguments does not
	 * find it. */
	(void)program_forget_arguments(NULL);
	(void)prctl(PR_SET_NAME, "belljar-disposer");
	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	if ((socket != CONTROL_FD && dup3(socket, CONTROL_FD, O_CLOEXEC) < 0) ||
		syscall(SYS_close_range, CONTROL_FD + 1, ~0u, 0u) < 0)
		_exit(1);
	while ((fd = take()) >= 0)
		(void)close(fd);
	_exit(0);
}

static int start(struct disposer *d)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	AUTO_FD theirs = ends[1];
	pid_t pid = fork();
	if (pid == 0)
		serve(theirs);
	if (pid < 0) {
		(void)close(ends[0]);
		return -1;
	}
	*d = (struct disposer){ .pid = pid, .socket = ends[0] };
	return 0;
}

static int send_fd(const struct disposer *d, int fd)
{
	char byte = 0;
	struct iovec data = { .iov_base = &byte, .iov_len = 1 };
	union control control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
					  .cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS } };
	struct msghdr m = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	return sendmsg(d->socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* One that was killed has closed its end. */
static bool is_gone(const struct disposer *d)
{
	return d->pid && waitpid(d->pid, NULL, WNOHANG) == d->pid;
}

void disposer_close(struct disposer *d, int *fd)
{
	if (*fd < 0)
		return;
	if (is_gone(d)) {
		(void)close(d->socket);
		d->pid = 0;
	}
	/* Else it has more to do than it can hear of: then the keeper has to. */
	if ((!d->pid && start(d) < 0) || send_fd(d, *fd) < 0)
		log_warn("event=no_disposer, freeing without it");
	close_fdp(fd);
}

void disposer_fini(struct disposer *d)
{
	if (!d->pid)
		return;
	(void)close(d->socket);
	d->pid = 0;
}
