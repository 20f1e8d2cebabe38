#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

#include "base/err.h"
#include "box/step.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/spec.h"
#include "lib/scratch.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

TEST(the_master_leaves_and_the_slave_stays)
{
	struct spec spec;
	int ends[2];
	struct winsize size;
	struct frame f;
	struct err err = { 0 };
	char text[8];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	spec_init(&spec);
	spec.tty = true;
	spec.rows = 50;
	spec.columns = 132;
	struct step_context c = { .spec = &spec, .control_fd = ends[0], .tty_fd = -1 };
	if (access("/dev/ptmx", R_OK | W_OK) < 0)
		SKIP("there are no terminals here");
	size_t n_before = scratch_count_fds();
	if (tty_enter(&c, &err) < 0)
		fail_msg("%s", err.text);
	CHECK(c.tty_fd >= 0 && isatty(c.tty_fd));
	CHECK_EQ(scratch_count_fds(), n_before + 1); /* the master went */
	CHECK_EQ(frame_recv(ends[1], buffer, &f), 1);
	CHECK_EQ(f.type, MESSAGE_BOX_TTY);
	CHECK_EQ(f.n_fds, 1);
	CHECK_EQ(ioctl(c.tty_fd, TIOCGWINSZ, &size), 0);
	CHECK(size.ws_row == 50 && size.ws_col == 132);
	CHECK_EQ(write(f.fds[0], "hi\n", 3), 3);
	CHECK_EQ(read(c.tty_fd, text, sizeof(text)), 3);
	CHECK_MEM(text, "hi\n", 3);
	frame_close_fds(&f);
	(void)close(c.tty_fd);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

TEST(nobody_gets_a_terminal_unasked)
{
	struct spec spec;

	spec_init(&spec);
	struct step_context c = { .spec = &spec, .control_fd = -1, .tty_fd = -1 };
	CHECK_EQ(tty_enter(&c, NULL), 0);
	CHECK_EQ(c.tty_fd, -1);
}

TEST(a_terminal_nobody_takes_is_no_terminal)
{
	struct spec spec;
	struct err err = { 0 };

	spec_init(&spec);
	spec.tty = true;
	struct step_context c = { .spec = &spec, .control_fd = -1, .tty_fd = -1 };
	if (access("/dev/ptmx", R_OK | W_OK) < 0)
		SKIP("there are no terminals here");
	size_t n_before = scratch_count_fds();
	CHECK_EQ(tty_enter(&c, &err), -EBADF);
	CHECK_EQ(c.tty_fd, -1);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TESTS(UNIT(the_master_leaves_and_the_slave_stays), UNIT(nobody_gets_a_terminal_unasked),
	UNIT(a_terminal_nobody_takes_is_no_terminal))
