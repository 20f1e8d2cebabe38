/* The process that listens at the other end of a connected local socket, so that it can be
 * signalled. May be called from any thread. */
#pragma once
#include <sys/types.h>

/* Returns 0 with a descriptor of the process, which the caller must close(), and its number.
 * -ESRCH when it is gone: others may have its socket, or by now its number, and whoever belongs to
 * another user than the one who listened is not it. -EXDEV when it can not be seen from here, or
 * is the first process, which listens for others. */
int listener_open(int socket, int *ret_fd, pid_t *ret_pid);
