#include "cli/respawn.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/log.h"
#include "lib/test.h"

/* A guardian in a process of its own. Its children write their pids into a pipe, and then do
 * what `act` says with how many there were before. */
struct stage {
	pid_t guardian;
	int from;
};

typedef void act_fn(unsigned n);

#define HOPELESS 77

static bool is_first; /* in a child: it has the descriptor of the first */

static void make(struct stage *s, act_fn *act)
{
	int to;
	int first_fd = dup(STDERR_FILENO);
	static volatile unsigned *n;

	CHECK_EQ(fd_pipe(&s->from, &to), 0);
	s->guardian = fork();
	CHECK(s->guardian >= 0);
	if (s->guardian > 0) {
		(void)close(to);
		(void)close(first_fd);
		return;
	}
	/* Should the test die, nothing of it is to stay. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_set_level(LOG_LEVEL_ERROR);
	n = mmap(NULL, sizeof(*n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (n == MAP_FAILED)
		_exit(98);
	if (respawn_wait(&first_fd, HOPELESS) == 0)
		_exit(42);
	is_first = first_fd >= 0;
	pid_t self = getpid();
	unsigned before = (*n)++;
	(void)fd_write_full(to, &self, sizeof(self));
	act(before);
	_exit(99);
}

/* The next child's pid; -1 when there will be none. */
static pid_t next_child(struct stage *s)
{
	pid_t pid = -1;

	return fd_read_full(s->from, &pid, sizeof(pid)) == sizeof(pid) ? pid : -1;
}

static int end_of(struct stage *s)
{
	int status;

	CHECK_EQ(waitpid(s->guardian, &status, 0), s->guardian);
	(void)close(s->from);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void wait_for_ever(unsigned n)
{
	(void)n;
	for (;;)
		(void)pause();
}

static void fail_twice(unsigned n)
{
	if (n == 0)
		_exit(1);
	if (n == 1)
		abort();
	_exit(0);
}

TEST(one_that_fails_or_is_killed_is_started_again_until_it_ends_well)
{
	struct stage s;

	make(&s, fail_twice);
	pid_t a = next_child(&s);
	pid_t b = next_child(&s);
	pid_t c = next_child(&s);
	CHECK(a > 0 && b > 0 && c > 0 && a != b && b != c);
	CHECK_EQ(end_of(&s), 42);
}

static void be_hopeless_from(unsigned n, unsigned first)
{
	if (n >= first && n < first + 2)
		_exit(HOPELESS);
	if (n < first)
		abort();
	_exit(0);
}

static void be_hopeless_at_once(unsigned n)
{
	be_hopeless_from(n, 0);
}

static void be_hopeless_later(unsigned n)
{
	be_hopeless_from(n, 1);
}

/* As a keeper that has no right to its directory: no other one would have it. */
TEST(when_the_first_can_not_begin_there_is_no_other)
{
	struct stage s;

	make(&s, be_hopeless_at_once);
	CHECK(next_child(&s) > 0);
	CHECK_EQ(next_child(&s), -1);
	CHECK_EQ(end_of(&s), 42);
}

TEST(one_that_follows_another_is_tried_again)
{
	struct stage s;

	make(&s, be_hopeless_later);
	for (int i = 0; i < 4; i++)
		CHECK(next_child(&s) > 0);
	CHECK_EQ(next_child(&s), -1);
	CHECK_EQ(end_of(&s), 42);
}

static void check_first(unsigned n)
{
	if (is_first != (n == 0))
		_exit(0);
	if (n < 2)
		abort();
	_exit(0);
}

TEST(what_is_for_the_first_is_not_for_the_others)
{
	struct stage s;

	make(&s, check_first);
	for (int i = 0; i < 3; i++)
		CHECK(next_child(&s) > 0);
	CHECK_EQ(next_child(&s), -1);
	CHECK_EQ(end_of(&s), 42);
}

TEST(one_that_is_killed_from_outside_is_started_again)
{
	struct stage s;

	make(&s, wait_for_ever);
	pid_t a = next_child(&s);
	CHECK_EQ(kill(a, SIGKILL), 0);
	pid_t b = next_child(&s);
	CHECK(b > 0 && b != a);
	CHECK_EQ(kill(s.guardian, SIGTERM), 0);
	CHECK_EQ(next_child(&s), -1);
	CHECK_EQ(end_of(&s), 42);
	CHECK(kill(b, 0) < 0 && errno == ESRCH);
}

TEST(told_to_end_it_ends_its_child_and_itself)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct stage s;

		make(&s, wait_for_ever);
		pid_t child = next_child(&s);
		CHECK_EQ(kill(s.guardian, signals[i]), 0);
		CHECK_EQ(end_of(&s), 42);
		CHECK(kill(child, 0) < 0 && errno == ESRCH);
	}
}

/* It must not outlive its guardian: a new one would start a second keeper. */
TEST(a_child_ends_with_its_guardian)
{
	struct stage s;
	char byte;

	make(&s, wait_for_ever);
	CHECK(next_child(&s) > 0);
	CHECK_EQ(kill(s.guardian, SIGKILL), 0);
	CHECK_EQ(read(s.from, &byte, 1), 0); /* nobody holds the other end any more */
	CHECK_EQ(end_of(&s), -SIGKILL);
}

/* Its signals are as before the guardian blocked them. */
static void check_signals(unsigned n)
{
	sigset_t now;

	(void)n;
	(void)sigprocmask(SIG_SETMASK, NULL, &now);
	_exit(sigismember(&now, SIGTERM) || sigismember(&now, SIGCHLD) ? 1 : 0);
}

TEST(a_child_is_as_if_there_were_no_guardian)
{
	struct stage s;

	make(&s, check_signals);
	CHECK(next_child(&s) > 0);
	CHECK_EQ(next_child(&s), -1); /* the first one ended well */
	CHECK_EQ(end_of(&s), 42);
}

TESTS(UNIT(one_that_fails_or_is_killed_is_started_again_until_it_ends_well),
	UNIT(when_the_first_can_not_begin_there_is_no_other),
	UNIT(one_that_follows_another_is_tried_again),
	UNIT(what_is_for_the_first_is_not_for_the_others),
	UNIT(one_that_is_killed_from_outside_is_started_again),
	UNIT(told_to_end_it_ends_its_child_and_itself), UNIT(a_child_ends_with_its_guardian),
	UNIT(a_child_is_as_if_there_were_no_guardian))
