/* The guest's terminal comes from the devpts of its own box. The master leaves
 * the box at once, before there is a guest; the slave becomes its controlling
 * terminal. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/step.h"
#include "ipc/frame.h"
#include "ipc/message.h"
#include "ipc/spec.h"

int tty_enter(struct step_context *c, struct err *err)
{
	struct winsize size = { .ws_row = c->spec->rows, .ws_col = c->spec->columns };
	int unlock = 0;

	if (!c->spec->tty)
		return 0;
	AUTO_FD master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0)
		return err_errno(err, "open a terminal");
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_errno(err, "unlock the terminal");
	AUTO_FD slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_errno(err, "open the terminal's other side");
	if (ioctl(slave, TIOCSWINSZ, &size) < 0)
		return err_errno(err, "size the terminal");
	int r = frame_send(c->control_fd, MESSAGE_BOX_TTY, NULL, &master, 1);
	if (r < 0)
		return err_set(err, r, "hand over the terminal");
	c->tty_fd = take_fd(&slave);
	return 0;
}
