#include "box/clone.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>

#include "lib/test.h"

TEST(the_child_returns_0_and_the_parent_gets_a_pidfd)
{
	int pid_fd = -1;
	siginfo_t info = { 0 };

	pid_t pid = clone_process(0, -1, &pid_fd);
	if (pid == 0)
		_exit(7);
	CHECK(pid > 0 && pid_fd >= 0);
	CHECK(fcntl(pid_fd, F_GETFD) & FD_CLOEXEC);
	struct pollfd p = { .fd = pid_fd, .events = POLLIN };
	CHECK_EQ(poll(&p, 1, 5000), 1);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
	CHECK_EQ(info.si_code, CLD_EXITED);
	CHECK_EQ(info.si_status, 7);
	(void)close(pid_fd);
}

TEST(namespaces_are_made_with_it)
{
	int status = 0;
	pid_t pid = clone_process(CLONE_NEWUSER | CLONE_NEWPID, -1, NULL);

	if (pid == 0)
		_exit(getpid() == 1 ? 0 : 1);
	if (pid < 0)
		SKIP("needs user namespaces");
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TEST(a_failure_leaves_the_output_alone)
{
	int pid_fd = 77;

	CHECK_EQ(clone_process(0, 12345, &pid_fd), -1); /* no such cgroup */
	CHECK_EQ(errno, EBADF);
	CHECK_EQ(clone_process(CLONE_THREAD, -1, &pid_fd), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(pid_fd, 77);
}

TESTS(UNIT(the_child_returns_0_and_the_parent_gets_a_pidfd), UNIT(namespaces_are_made_with_it),
	UNIT(a_failure_leaves_the_output_alone))
