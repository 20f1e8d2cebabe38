#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* For a kernel, or a filter around us, without openat2(): part by part. */
static int open_by_parts(int dir_fd, const char *path)
{
	AUTO_FD at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	char part[256];

	for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		int next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;

		close_fdp(&at);
		errno = saved;
		at = next;
	}
	if (at < 0)
		return -errno;
	int fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int beneath_open(int dir_fd, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_by_parts(dir_fd, path);
	return fd < 0 ? -errno : (int)fd;
}
