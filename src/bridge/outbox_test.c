#include "bridge/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "lib/test.h"

#define BIG (1u << 20)

/* Read all that is there now. */
static size_t drain(int fd)
{
	static char buf[BIG];
	size_t total = 0;
	ssize_t n;

	CHECK_EQ(fd_set_nonblock(fd, true), 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		total += (size_t)n;
	return total;
}

static void check_slow_reader(int write_fd, int read_fd)
{
	struct outbox o = { .fd = write_fd };
	char *text = malloc(BIG);
	size_t total = 0;

	memset(text, 'x', BIG);
	outbox_add(&o, text, BIG);
	CHECK_EQ(outbox_flush(&o), 0); /* would block otherwise */
	CHECK(outbox_size(&o) > 0);
	for (int i = 0; i < 10000 && outbox_size(&o) > 0; i++) {
		total += drain(read_fd);
		CHECK_EQ(outbox_flush(&o), 0);
	}
	CHECK_EQ(total + drain(read_fd), BIG + 1);
	CHECK_EQ(fcntl(write_fd, F_GETFL) & O_NONBLOCK, 0);
	free(text);
	outbox_fini(&o);
}

TEST(a_slow_reader_blocks_nobody)
{
	int ends[2];
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	check_slow_reader(write_fd, read_fd);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	check_slow_reader(ends[0], ends[1]);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

TEST(a_line_is_one_line)
{
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	char got[32] = "";

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	struct outbox o = { .fd = write_fd };
	outbox_add(&o, "{\r\n\"a\":1\n}", 10);
	CHECK_EQ(outbox_flush(&o), 0);
	CHECK_EQ(read(read_fd, got, sizeof(got)), 11);
	CHECK_STR(got, "{  \"a\":1 }\n");
	close_fdp(&read_fd);
	outbox_add(&o, "x", 1);
	(void)signal(SIGPIPE, SIG_IGN);
	CHECK_EQ(outbox_flush(&o), -EPIPE);
	outbox_fini(&o);
}

TESTS(UNIT(a_slow_reader_blocks_nobody), UNIT(a_line_is_one_line))
