#include "cli/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "client/connection.h"

/* For how long a keeper may take to answer, and how often we look. */
#define WAIT_NS  UINT64_C(10000000000)
#define LOOK_MS  10
#define AFTER_NS UINT64_C(1000000000) /* once nobody is left who could say why it failed */

/* One that has a client does not end for want of work: this connection is kept until there is
 * the one that is used. */
static int look(struct starter *s, struct err *err)
{
	return connection_open_running(s->root, &s->keeper_fd, err);
}

/* A pipe of a shell's stays open for as long as somebody holds it, and a terminal is written to
 * when its user has something else to do: both are the server's. A file or a socket, such as the
 * journal's, is for the keeper as well. */
static bool wants_pipe(void)
{
	struct stat st;

	return isatty(STDERR_FILENO) || (fstat(STDERR_FILENO, &st) == 0 && S_ISFIFO(st.st_mode));
}

struct ends {
	int trial_fd;
	int log_fd;
};

/* In the child: a session of its own, nothing of ours but where to log to, and the way to say how
 * it went. It belongs to nobody's shell, so its parent ends, but says first who it is. */
static _Noreturn void exec_keeper(const struct starter *s, const struct ends *ends)
{
	char uid[16];
	char trial[16];
	char keep[32];
	const char *argv[] = { "belljar", "keeper", "--respawn", "--idle-exit", "--root", s->root,
		"--uid", uid, "--trial-fd", trial, "--keep-workspaces", keep,
		s->profile ? "--seccomp" : NULL, s->profile, NULL };
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* Above those that are replaced. */
	int trial_fd = fcntl(ends->trial_fd, F_DUPFD, 3);

	(void)snprintf(uid, sizeof(uid), "%u", (unsigned)s->uid);
	(void)snprintf(trial, sizeof(trial), "%d", trial_fd);
	(void)snprintf(keep, sizeof(keep), "%llums", (unsigned long long)s->workspaces_ms);
	(void)setsid();
	if (null_fd < 0 || dup2(null_fd, 0) != 0 || dup2(null_fd, 1) != 1 ||
		(ends->log_fd >= 0 && dup2(ends->log_fd, 2) != 2))
		_exit(0);
	pid_t pid = fork();
	if (pid == 0)
		(void)execv("/proc/self/exe", (char *const *)argv);
	else
		(void)fd_write_full(trial_fd, &pid, sizeof(pid));
	_exit(0);
}

static int make_ends(struct starter *s, struct ends *ret, struct err *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "make a socket for a keeper");
	s->trial_fd = pair[0];
	ret->trial_fd = pair[1];
	if (!wants_pipe())
		return 0;
	int r = fd_pipe(&s->log_fd, &ret->log_fd);
	return r < 0 ? err_set(err, r, "make a pipe for a keeper") : 0;
}

/* What the keeper says of its failure; 0 when it said nothing. */
static int hear(struct starter *s, struct err *err)
{
	char text[sizeof(err->text)];
	ssize_t n = fd_read_full(s->trial_fd, text, sizeof(text) - 1);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return err_set(err, -EIO, "%s", text);
}

/* Until it answers, says why it does not, or is gone. */
static int await(struct starter *s, struct err *err)
{
	uint64_t until = clock_monotonic_ns() + WAIT_NS;
	bool is_over = false;
	int r = look(s, NULL);

	while (r < 0 && clock_monotonic_ns() < until) {
		struct pollfd said = { .fd = is_over ? -1 : s->trial_fd, .events = POLLIN };

		if (poll(&said, 1, LOOK_MS) > 0) {
			r = hear(s, err);
			if (r < 0)
				return r;
			is_over = true;
			until = clock_monotonic_ns() + AFTER_NS;
		}
		r = look(s, NULL);
	}
	return r < 0 ? err_set(err, -ETIMEDOUT, "the keeper does not answer") : 0;
}

static int start(struct starter *s, struct err *err)
{
	struct ends ends = { -1, -1 };
	pid_t keeper = 0;
	int r = make_ends(s, &ends, err);
	pid_t pid = r < 0 ? -1 : fork();

	if (r == 0 && pid < 0)
		r = err_errno(err, "start a keeper");
	if (pid == 0)
		exec_keeper(s, &ends);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	close_fdp(&ends.trial_fd);
	close_fdp(&ends.log_fd);
	if (r < 0)
		return r;
	if (fd_read_full(s->trial_fd, &keeper, sizeof(keeper)) != sizeof(keeper) || keeper <= 0)
		return err_set(err, -EAGAIN, "a keeper could not be started");
	r = await(s, err);
	/* One that neither answers nor ends. */
	if (r == -ETIMEDOUT)
		(void)kill(keeper, SIGTERM);
	return r;
}

/* The directory of somebody else is the usual reason why a keeper can not start in it. */
static int check_root(const struct starter *s, struct err *err)
{
	struct stat st;
	int r = path_make_dirs(s->root, 0755, err);

	if (r < 0)
		return r;
	if (access(s->root, R_OK | W_OK | X_OK) == 0)
		return 0;
	int code = -errno;
	if (code != -EACCES || stat(s->root, &st) < 0)
		return err_set(err, code, "use %.160s: %s", s->root, strerror(-code));
	return err_set(err, code,
		"no permission for the state directory %.120s: it belongs to uid %u, and this is uid %u; "
		"give another one with --root, or start it as that user",
		s->root, (unsigned)st.st_uid, (unsigned)geteuid());
}

int starter_open(struct starter *s, struct err *err)
{
	struct err why = { 0 };
	int r = look(s, &why);

	if (r == 0)
		return 0;
	if (r == -EPERM) /* somebody else's answers, and would go on doing so */
		return err_set(err, r, "%s", why.text);
	r = check_root(s, err);
	return r < 0 ? r : start(s, err);
}

void starter_commit(struct starter *s)
{
	if (s->trial_fd >= 0)
		(void)send(s->trial_fd, "", 1, MSG_NOSIGNAL);
	close_fdp(&s->trial_fd);
}

void starter_fini(struct starter *s)
{
	close_fdp(&s->keeper_fd);
	close_fdp(&s->trial_fd);
	close_fdp(&s->log_fd);
}
