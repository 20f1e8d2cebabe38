#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static bool is_raw;

/* Taking a terminal from the background would stop us; a foreign one has no group. */
static bool is_in_background(void)
{
	pid_t group = tcgetpgrp(STDIN_FILENO);

	return group >= 0 && group != getpgrp();
}

bool terminal_is_there(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !is_in_background();
}

void terminal_size(unsigned *ret_rows, unsigned *ret_columns)
{
	struct winsize size = { 0 };

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	*ret_rows = size.ws_row ? size.ws_row : 24;
	*ret_columns = size.ws_col ? size.ws_col : 80;
}

void terminal_make_raw(void)
{
	struct termios raw;

	if (is_raw || tcgetattr(STDIN_FILENO, &saved) < 0)
		return;
	raw = saved;
	cfmakeraw(&raw);
	is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void terminal_restore(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	is_raw = false;
}
