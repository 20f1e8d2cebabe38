#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"

static int new_socket(struct err *err)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	return fd < 0 ? err_errno(err, "make a socket") : fd;
}

/* Only who may be our keeper gets to see what we run: ourselves, or root. */
static int check_peer(int fd, bool root_is_fine, struct err *err)
{
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return err_errno(err, "ask who the keeper is");
	if (peer.uid == geteuid() || (root_is_fine && peer.uid == 0))
		return 0;
	return err_set(err, -EPERM, "uid %u answers in place of the keeper", (unsigned)peer.uid);
}

int connection_open_running(const char *root, int *ret, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_FD dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "open %s", root);
	AUTO_FD fd = new_socket(err);
	if (fd < 0)
		return fd;
	/* Through the descriptor, since the path itself may be too long for connect. */
	(void)snprintf(
		address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/keeper.sock", dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, "connect to %s/keeper.sock", root);
	int r = check_peer(fd, true, err);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}

/* In the forked child: only async-signal-safe calls, the caller may have threads. */
static _Noreturn void exec_keeper(
	const char *program, const char *root, int listen_fd, int lifeline_fd)
{
	const char *argv[] = { "belljar", "keeper", "--root", root, "--listen-fd", "3",
		"--lifeline-fd", "4", NULL };
	sigset_t none;
	/* Out of the way of 3 and 4 first, whatever they are. */
	int listen_copy = fcntl(listen_fd, F_DUPFD, 10);
	int lifeline_copy = fcntl(lifeline_fd, F_DUPFD, 10);
	int null_fd = open("/dev/null", O_RDWR);

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* A keeper that shares the terminal's group would be hit by its Ctrl-C. */
	(void)setsid();
	/* Of what the caller holds open it gets nothing but where to log to: it would
	 * keep pipes open whose other end waits for that. */
	if (null_fd >= 0 && dup2(listen_copy, 3) == 3 && dup2(lifeline_copy, 4) == 4 &&
		dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
		syscall(SYS_close_range, 5u, ~0u, 0u) == 0)
		(void)execv(program, (char *const *)argv);
	_exit(127);
}

int connection_start_keeper(
	const char *program, const char *root, struct own_keeper *ret, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(address);
	AUTO_FD listen_fd = new_socket(err);
	AUTO_FD lifeline_read = -1;
	AUTO_FD lifeline_write = -1;

	if (listen_fd < 0)
		return listen_fd;
	/* An address of the kernel's choice; who else connects is turned away by uid. */
	if (bind(listen_fd, (struct sockaddr *)&address, sizeof(sa_family_t)) < 0 ||
		listen(listen_fd, 64) < 0 ||
		getsockname(listen_fd, (struct sockaddr *)&address, &size) < 0)
		return err_errno(err, "make a socket for a keeper");
	int r = fd_pipe(&lifeline_read, &lifeline_write);
	if (r < 0)
		return err_set(err, r, "make a pipe");
	if (access(program, X_OK) < 0)
		return err_errno(err, "execute %s", program);
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start a keeper");
	if (pid == 0)
		exec_keeper(program, root, listen_fd, lifeline_read);
	/* Our copy of the socket goes: with the keeper's death it must be dead, or a
	 * connection would wait for ever. */
	*ret = (struct own_keeper){ .pid = pid, .address = address, .address_size = size };
	ret->lifeline_fd = take_fd(&lifeline_write);
	return 0;
}

int connection_open_own(const struct own_keeper *keeper, int *ret, struct err *err)
{
	AUTO_FD fd = new_socket(err);

	if (fd < 0)
		return fd;
	if (connect(fd, (const struct sockaddr *)&keeper->address, keeper->address_size) < 0) {
		/* Sooner or later than that, its death is the same failure. */
		if (errno == ECONNREFUSED)
			return err_set(err, -ECONNRESET, "the keeper could not start, or is gone");
		return err_errno(err, "connect to the keeper");
	}
	/* Its address is free for anybody once it has died. */
	int r = check_peer(fd, false, err);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}

void connection_stop_keeper(struct own_keeper *keeper)
{
	if (keeper->pid <= 0)
		return;
	close_fdp(&keeper->lifeline_fd);
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		;
	keeper->pid = 0;
}

int connection_greet(int fd, uint8_t *buffer, uint64_t *ret_facets, struct err *err)
{
	struct frame f;
	struct cur c;
	int r = frame_send(fd, MESSAGE_HELLO, NULL, NULL, 0);

	if (r == 0)
		r = frame_recv(fd, buffer, &f);
	if (r == 0 || r == -ECONNRESET || r == -EPIPE)
		return err_set(err, -ECONNRESET, "the keeper could not start, or turned us away");
	if (r < 0)
		return err_set(err, r, "talk to the keeper: %s",
			r == -EPROTO ? "it is of another version" : strerror(-r));
	frame_close_fds(&f);
	cur_init(&c, f.data, f.size);
	uint64_t facets = cur_u64(&c);
	char keeper[KEEPER_ID_SIZE + 1];
	cur_str_into(&c, keeper, sizeof(keeper));
	if (f.type != MESSAGE_WELCOME || cur_end(&c) < 0)
		return err_set(err, -EBADMSG, "the keeper does not answer as it should");
	*ret_facets = facets;
	return 0;
}
