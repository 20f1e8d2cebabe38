#include "box/witness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "lib/child.h"
#include "lib/test.h"

static int install(void)
{
	struct err err = { 0 };
	int fd = -1;

	CHILD_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (witness_install(&fd, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	if (fd < 0)
		CHILD_SKIP("this kernel can not ask");
	return fd;
}

/* In a child of the one who is asked: the answer of `call` as an exit status. */
static pid_t fork_and(int (*call)(void))
{
	pid_t pid = fork();

	CHILD_CHECK(pid >= 0);
	if (pid == 0)
		_exit(call());
	return pid;
}

static bool is_asked(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && (p.revents & POLLIN);
}

static int status_of(pid_t pid)
{
	int status = 0;

	CHILD_CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? 0 : errno;
}

static int make_pair(void)
{
	int ends[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 ? 0 : errno;
}

static int make_ring(void)
{
	return syscall(SYS_io_uring_setup, 0, NULL) >= 0 ? 0 : errno;
}

static int do_other_things(void)
{
	int ends[2];

	return pipe(ends) == 0 && dup(0) >= 0 && getpid() > 0 ? 0 : errno;
}

static void ask(void *ctx)
{
	static int (*const calls[])(void) = { make_socket, make_pair, make_ring };
	int fd = install();

	(void)ctx;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		pid_t pid = fork_and(calls[i]);

		CHILD_CHECK(is_asked(fd, 20000));
		witness_answer(fd);
		int status = status_of(pid);
		CHILD_CHECK(calls[i] == make_ring ? status != 0 : status == 0);
		CHILD_CHECK(!is_asked(fd, 0));
	}
	CHILD_CHECK(status_of(fork_and(do_other_things)) == 0);
	CHILD_CHECK(!is_asked(fd, 0));
}

TEST(who_makes_a_socket_is_noticed_and_gets_it)
{
	IN_CHILD(ask, NULL);
}

static void die_asking(void *ctx)
{
	int fd = install();
	pid_t pid = fork_and(make_socket);

	(void)ctx;
	CHILD_CHECK(is_asked(fd, 20000));
	CHILD_CHECK(kill(pid, SIGKILL) == 0 && status_of(pid) == -SIGKILL);
	witness_answer(fd); /* nobody is there any more, and nobody waits for ever */
	pid = fork_and(make_socket);
	CHILD_CHECK(is_asked(fd, 20000));
	witness_answer(fd);
	CHILD_CHECK(status_of(pid) == 0);
}

TEST(who_dies_while_he_asks_harms_nobody)
{
	IN_CHILD(die_asking, NULL);
}

static void on_signal(int sig)
{
	(void)sig;
}

static void signal_asking(void *ctx)
{
	struct sigaction action = { .sa_handler = on_signal }; /* without SA_RESTART */
	int fd = install();

	(void)ctx;
	CHILD_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	pid_t pid = fork_and(make_socket);
	CHILD_CHECK(is_asked(fd, 20000));
	witness_answer(fd);
	(void)kill(pid, SIGUSR1);
	CHILD_CHECK(status_of(pid) == 0);
}

TEST(a_signal_after_the_answer_changes_nothing)
{
	IN_CHILD(signal_asking, NULL);
}

static void install_twice(void *ctx)
{
	struct err err = { 0 };
	int fd = install();
	int second = 77;

	(void)ctx;
	(void)fd;
	CHILD_CHECK(witness_install(&second, &err) == 0 && second == -1);
}

TEST(where_another_is_asked_nobody_can_tell)
{
	IN_CHILD(install_twice, NULL);
}

TESTS(UNIT(who_makes_a_socket_is_noticed_and_gets_it), UNIT(who_dies_while_he_asks_harms_nobody),
	UNIT(a_signal_after_the_answer_changes_nothing),
	UNIT(where_another_is_asked_nobody_can_tell))
