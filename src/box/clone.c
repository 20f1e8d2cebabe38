#include "box/clone.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

pid_t clone_process(uint64_t flags, int cgroup_fd, int *ret_pid_fd)
{
	int pid_fd = -1;
	/* A sibling has the signal that we have. */
	struct clone_args args = { .flags = flags,
		.exit_signal = flags & CLONE_PARENT ? 0 : SIGCHLD };

	if (ret_pid_fd) {
		args.flags |= CLONE_PIDFD;
		args.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	}
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid > 0 && ret_pid_fd)
		*ret_pid_fd = pid_fd;
	return pid;
}
