#include "cli/attend.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/beacon.h"

#define IDLE_EXIT "30s" /* how long it stays when nobody needs it */
#define PAUSE_US  2000
#define LOG_MAX   4096

static int try_connect(const struct attend *a, char **ret_url, struct err *err)
{
	AUTO_FD data_fd = -1;
	struct beacon b = { 0 };
	int r = beacon_open(a->root, &data_fd, err);

	if (r < 0)
		return r;
	AUTO_FD fd = beacon_connect(data_fd);
	if (fd < 0)
		return err_set(err, fd, "no server runs on %.150s: %s", a->root, strerror(-fd));
	/* Without it there are no URLs, which is not worse than none that are right. */
	*ret_url = xstrdup(beacon_read(data_fd, &b) == 0 ? b.url : "");
	return take_fd(&fd);
}

/* In the child: nothing of ours but the environment and where to complain. */
static _Noreturn void exec_server(const struct attend *a)
{
	const char *argv[] = { "belljar", "serve", "--root", a->root, "--port", "0", "--idle-exit",
		IDLE_EXIT, NULL };
	int null_fd = open("/dev/null", O_RDWR);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	if (chdir("/") < 0)
		_exit(127);
	(void)setenv("SANDBOX_LOG_LEVEL", "warn", 0);
	if (null_fd >= 0 && dup2(null_fd, 0) == 0 && dup2(null_fd, 1) == 1 &&
		dup2(a->log_fd, 2) == 2)
		(void)execv(a->program, (char *const *)argv);
	_exit(127);
}

static int start(struct attend *a, struct err *err)
{
	close_fdp(&a->log_fd);
	a->log_fd = memfd_create("serve.log", MFD_CLOEXEC);
	if (a->log_fd < 0)
		return err_errno(err, "make a log");
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start a server");
	if (pid == 0)
		exec_server(a);
	a->pid = pid;
	return 0;
}

static bool has_ended(struct attend *a)
{
	if (a->pid > 0 && waitpid(a->pid, NULL, WNOHANG) != 0)
		a->pid = 0;
	return a->pid == 0;
}

/* The last line of what it said; another server may just be starting, or still be ending. */
static bool is_in_use(const struct attend *a, struct err *err)
{
	char text[LOG_MAX + 1];
	ssize_t n = fd_pread_full(a->log_fd, text, LOG_MAX, 0);

	if (n < 0)
		n = 0;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	const char *line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	(void)err_set(
		err, -EIO, "the server did not start: %.200s", *line ? line : "it was killed");
	return strstr(text, "in use by") != NULL;
}

static int start_and_connect(struct attend *a, char **ret_url, struct err *err)
{
	uint64_t until = clock_monotonic_ns() + a->wait_ms * UINT64_C(1000000);
	int r = has_ended(a) ? start(a, err) : 0;

	while (r == 0) {
		struct err why = { 0 };
		int fd = try_connect(a, ret_url, &why);

		if (fd >= 0)
			return fd;
		/* Asked once a turn: one that ends during the pause has not been heard yet. */
		bool ended = has_ended(a);
		if (ended && !is_in_use(a, err))
			return -EIO;
		if (clock_monotonic_ns() >= until)
			return err_set(err, -ETIMEDOUT, "the server is not ready in time");
		(void)usleep(ended ? 25 * PAUSE_US : PAUSE_US);
		if (ended)
			r = start(a, err);
	}
	return r;
}

int attend_connect(struct attend *a, bool may_start, char **ret_url, struct err *err)
{
	int fd = try_connect(a, ret_url, err);

	if (fd >= 0 || !may_start || fd == -EACCES || fd == -EPERM)
		return fd;
	return start_and_connect(a, ret_url, err);
}

void attend_fini(struct attend *a)
{
	(void)has_ended(a);
	close_fdp(&a->log_fd);
}
