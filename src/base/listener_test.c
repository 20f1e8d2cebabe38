#include "base/listener.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "lib/test.h"

#define OTHER_UID 64243

/* A process that listens, and then may become another user's. */
struct other {
	pid_t pid;
	int socket; /* connected to it */
};

static _Noreturn void listen_and_wait(int fd, int ready_fd, uid_t uid)
{
	if (listen(fd, 1) < 0 || (uid && setresuid(uid, uid, uid) < 0) ||
		write(ready_fd, "", 1) != 1)
		_exit(1);
	for (;;)
		(void)pause();
}

static struct other begin(uid_t uid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = sizeof(address);
	struct other o;
	char byte;
	int ready[2];
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	CHECK_EQ(pipe(ready), 0);
	o.pid = fork();
	if (o.pid == 0)
		listen_and_wait(fd, ready[1], uid);
	(void)close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	o.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(connect(o.socket, (struct sockaddr *)&address, size), 0);
	return o;
}

static void end(const struct other *o)
{
	(void)kill(o->pid, SIGKILL);
	(void)waitpid(o->pid, NULL, 0);
}

TEST(who_listens_can_be_ended)
{
	struct other o = begin(0);
	AUTO_FD socket = o.socket;
	AUTO_FD fd = -1;
	pid_t pid = 0;
	int status;

	CHECK_EQ(listener_open(socket, &fd, &pid), 0);
	CHECK_EQ(pid, o.pid);
	CHECK_EQ(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0), 0);
	CHECK_EQ(waitpid(o.pid, &status, 0), o.pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(one_that_is_gone_is_not_found)
{
	struct other o = begin(0);
	AUTO_FD socket = o.socket;
	int fd = -1;
	pid_t pid;

	end(&o);
	CHECK_EQ(listener_open(socket, &fd, &pid), -ESRCH);
	CHECK_EQ(fd, -1);
}

/* As one that got the number of the process that listened. */
TEST(somebody_elses_process_is_not_it)
{
	if (geteuid() != 0)
		SKIP("only root can become another user");
	struct other o = begin(OTHER_UID);
	AUTO_FD socket = o.socket;
	int fd = -1;
	pid_t pid;

	CHECK_EQ(listener_open(socket, &fd, &pid), -ESRCH);
	CHECK_EQ(fd, -1);
	end(&o);
}

TESTS(UNIT(who_listens_can_be_ended), UNIT(one_that_is_gone_is_not_found),
	UNIT(somebody_elses_process_is_not_it))
