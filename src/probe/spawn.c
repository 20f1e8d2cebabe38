#include "probe/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "probe/deadline.h"

static void become(const char *const argv[], int out_fd)
{
	static const char *const env[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
					   "/sbin:/bin",
		"LC_ALL=C", "HOME=/", NULL };
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setpgid(0, 0);
	int null_fd = open("/dev/null", O_RDONLY);
	if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(out_fd, 2) < 0)
		_exit(127);
	if (chdir("/") == 0)
		(void)execve(argv[0], (char *const *)argv, (char *const *)env);
	_exit(127);
}

int spawn_start(struct spawn *s, const char *const argv[], uint64_t timeout_ms)
{
	AUTO_FD in = -1;
	AUTO_FD out = -1;

	*s = (struct spawn){ .out_fd = -1 };
	int r = fd_pipe(&in, &out);
	if (r < 0)
		return r;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		become(argv, out);
	(void)setpgid(pid, pid); /* in both, so that it is done whoever is first */
	s->pid = pid;
	s->out_fd = take_fd(&in);
	s->deadline = deadline_now() + timeout_ms;
	return 0;
}

/* Read to the end of the output, but not beyond the deadline. */
static int drain(struct spawn *s)
{
	size_t used = 0;
	char dropped[512];

	for (;;) {
		struct pollfd p = { .fd = s->out_fd, .events = POLLIN };
		int n = poll(&p, 1, deadline_left(s->deadline));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ETIMEDOUT;
		size_t room = sizeof(s->output) - 1 - used;
		ssize_t got = room ? read(s->out_fd, s->output + used, room)
				   : read(s->out_fd, dropped, sizeof(dropped));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		/* one that prints for ever must not hold us longer than a silent one */
		if (deadline_left(s->deadline) == 0)
			return -ETIMEDOUT;
		if (room)
			used += (size_t)got;
	}
}

/* Wait for the program itself, which may go on after closing its output. */
static int await_exit(struct spawn *s)
{
	static const struct timespec nap = { .tv_nsec = 1000000 };
	siginfo_t info = { 0 };

	for (;;) {
		/* without reaping: as long as it is a zombie, its group's number is ours */
		int r = waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT);

		if (r == 0 && info.si_pid == s->pid)
			return 0;
		if ((r < 0 && errno != EINTR) || deadline_left(s->deadline) == 0)
			return -ETIMEDOUT;
		(void)nanosleep(&nap, NULL);
	}
}

int spawn_finish(struct spawn *s)
{
	int status = 0;

	if (s->pid <= 0)
		return -ESRCH;
	int r = drain(s);
	if (r == 0)
		r = await_exit(s);
	(void)kill(-s->pid, SIGKILL);
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
	close_fdp(&s->out_fd);
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}
