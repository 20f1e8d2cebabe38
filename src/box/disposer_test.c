#include "box/disposer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* The write end of a pipe is given away; the read end tells when the last one is closed. */
static void give_away(struct disposer *d)
{
	int read_fd = -1;
	int write_fd = -1;
	char byte;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	disposer_close(d, &write_fd);
	CHECK_EQ(write_fd, -1);
	CHECK_EQ(read(read_fd, &byte, 1), 0);
	(void)close(read_fd);
}

TEST(what_is_given_away_is_closed_elsewhere)
{
	struct disposer d = { 0 };
	int none = -1;

	disposer_close(&d, &none);
	CHECK_EQ(d.pid, 0); /* not started for nothing */
	size_t before = scratch_count_fds();
	give_away(&d);
	CHECK(d.pid > 0);
	pid_t first = d.pid;
	give_away(&d);
	CHECK_EQ(d.pid, first);
	CHECK_EQ(scratch_count_fds(), before + 1);
	disposer_fini(&d);
	CHECK_EQ(scratch_count_fds(), before);
}

/* It holds none of the keeper's own, so nobody waits in vain for their end. */
TEST(it_holds_nothing_else)
{
	struct disposer d = { 0 };
	int read_fd = -1;
	int write_fd = -1;
	char byte;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	give_away(&d);
	(void)close(write_fd);
	CHECK_EQ(read(read_fd, &byte, 1), 0);
	(void)close(read_fd);
	disposer_fini(&d);
}

TEST(one_that_was_killed_is_replaced)
{
	struct disposer d = { 0 };

	give_away(&d);
	pid_t first = d.pid;
	CHECK_EQ(kill(first, SIGKILL), 0);
	CHECK_EQ(waitid(P_PID, (id_t)first, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	give_away(&d);
	CHECK(d.pid != first);
	disposer_fini(&d);
}

/* Stopped, so that it hears of nothing. */
TEST(one_that_has_too_much_to_do_is_helped)
{
	struct disposer d = { 0 };
	int fds[2];

	log_set_level(LOG_LEVEL_ERROR);

	give_away(&d);
	CHECK_EQ(kill(d.pid, SIGSTOP), 0);
	CHECK_EQ(waitid(P_PID, (id_t)d.pid, &(siginfo_t){ 0 }, WSTOPPED), 0);
	CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
	for (int i = 0; i < 2000; i++) {
		int copy = fcntl(fds[1], F_DUPFD_CLOEXEC, 3);
		CHECK(copy >= 0);
		disposer_close(&d, &copy); /* comes back */
	}
	(void)close(fds[1]);
	CHECK_EQ(kill(d.pid, SIGCONT), 0);
	disposer_fini(&d);
	char byte;
	CHECK_EQ(read(fds[0], &byte, 1), 0);
	(void)close(fds[0]);
}

TESTS(UNIT(what_is_given_away_is_closed_elsewhere), UNIT(it_holds_nothing_else),
	UNIT(one_that_was_killed_is_replaced), UNIT(one_that_has_too_much_to_do_is_helped))
