#include "cli/respawn.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

/* One that dies at once is not started again at once. */
#define PAUSE_NS     50000000
#define PAUSE_MAX_NS 2000000000
#define LASTING_NS   UINT64_C(5000000000)

static void pause_for(long ns)
{
	struct timespec t = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	(void)nanosleep(&t, NULL);
}

/* Wait for the child or a word to end; true when it is over for good, of which a child that ends
 * with one of two statuses is certain. */
static bool attend(pid_t child, const sigset_t *set, int hopeless)
{
	int status;

	for (;;) {
		siginfo_t info;
		int sig = sigwaitinfo(set, &info);

		if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP) {
			(void)kill(child, SIGTERM);
			(void)waitpid(child, NULL, 0);
			return true;
		}
		if (sig == SIGCHLD && waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status) &&
			       (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == hopeless);
	}
}

static void watch_signals(sigset_t *set, sigset_t *old)
{
	(void)sigemptyset(set);
	(void)sigaddset(set, SIGTERM);
	(void)sigaddset(set, SIGINT);
	(void)sigaddset(set, SIGHUP);
	(void)sigaddset(set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, set, old);
	(void)signal(SIGCHLD, SIG_DFL);
}

int respawn_wait(int *first_fd, int hopeless)
{
	sigset_t set;
	sigset_t old;
	long rest = PAUSE_NS;
	pid_t guardian = getpid();

	watch_signals(&set, &old);
	/* Who reads our stderr may be gone before us. */
	(void)signal(SIGPIPE, SIG_IGN);
	for (;;) {
		uint64_t since = clock_monotonic_ns();
		pid_t pid = fork();

		if (pid == 0) {
			/* Without a guardian there would soon be two keepers. */
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
			if (getppid() != guardian)
				_exit(0);
			(void)sigprocmask(SIG_SETMASK, &old, NULL);
			return 1;
		}
		if (pid > 0)
			close_fdp(first_fd);
		if (pid > 0 && attend(pid, &set, hopeless))
			return 0;
		hopeless = 0; /* the first one could start, or was killed: it is worth a try */
		if (clock_monotonic_ns() - since > LASTING_NS)
			rest = PAUSE_NS;
		log_warn("the keeper died; starting another");
		pause_for(rest);
		rest = rest * 2 > PAUSE_MAX_NS ? PAUSE_MAX_NS : rest * 2;
	}
}
