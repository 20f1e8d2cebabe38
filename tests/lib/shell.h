/* For tests that need another program once: a shell command, and what it printed. */
#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* Its exit status, or -1. At most `size` - 1 bytes of its output, terminated, go to `ret`,
 * which may be NULL. */
static inline int shell_run(const char *command, char *ret, size_t size)
{
	AUTO_FD from = -1;
	AUTO_FD to = -1;
	int status = -1;

	if (fd_pipe(&from, &to) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(to, STDOUT_FILENO);
		(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	close_fdp(&to);
	char rest[4096];
	ssize_t n = ret ? fd_read_full(from, ret, size - 1) : 0;
	if (ret)
		ret[n < 0 ? 0 : n] = '\0';
	while (fd_read_full(from, rest, sizeof(rest)) > 0)
		;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
