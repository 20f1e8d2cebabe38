#include "cli/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "lib/child.h"
#include "lib/test.h"

static void without_one(void *ctx)
{
	unsigned rows = 0;
	unsigned columns = 0;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)ctx;
	CHILD_CHECK(dup2(fd, 0) == 0);
	CHILD_CHECK(!terminal_is_there());
	terminal_size(&rows, &columns);
	CHILD_CHECK(rows == 24 && columns == 80);
	terminal_make_raw();
	terminal_restore();
}

TEST(without_a_terminal_nothing_happens)
{
	IN_CHILD(without_one, NULL);
}

static void on_a_terminal(void *ctx)
{
	struct winsize size = { .ws_row = 50, .ws_col = 132 };
	struct termios before, raw, after;
	unsigned rows = 0;
	unsigned columns = 0;
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	(void)ctx;
	if (master < 0)
		CHILD_SKIP("there are no terminals here");
	CHILD_CHECK(grantpt(master) == 0 && unlockpt(master) == 0);
	CHILD_CHECK(setsid() > 0); /* to be its foreground */
	int slave = open(ptsname(master), O_RDWR | O_CLOEXEC);
	CHILD_CHECK(slave >= 0 && ioctl(slave, TIOCSCTTY, 0) == 0);
	CHILD_CHECK(dup2(slave, 0) == 0 && dup2(slave, 1) == 1);
	CHILD_CHECK(terminal_is_there());
	CHILD_CHECK(ioctl(slave, TIOCSWINSZ, &size) == 0);
	terminal_size(&rows, &columns);
	CHILD_CHECK(rows == 50 && columns == 132);

	CHILD_CHECK(tcgetattr(0, &before) == 0);
	terminal_make_raw();
	terminal_make_raw(); /* the second one must not save what the first one made */
	CHILD_CHECK(tcgetattr(0, &raw) == 0);
	CHILD_CHECK(!(raw.c_lflag & (ICANON | ECHO | ISIG)));
	terminal_restore();
	terminal_restore();
	CHILD_CHECK(tcgetattr(0, &after) == 0);
	CHILD_CHECK(after.c_lflag == before.c_lflag && after.c_iflag == before.c_iflag);
	CHILD_CHECK(after.c_lflag & ICANON);
}

TEST(a_terminal_becomes_raw_and_is_restored)
{
	IN_CHILD(on_a_terminal, NULL);
}

TESTS(UNIT(without_a_terminal_nothing_happens), UNIT(a_terminal_becomes_raw_and_is_restored))
