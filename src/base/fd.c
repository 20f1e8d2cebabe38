#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

ssize_t fd_read_full(int fd, void *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = read(fd, (char *)buf + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_write_full(int fd, const void *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(fd, (const char *)buf + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

ssize_t fd_read_text(int dir_fd, const char *path, char *buf, size_t size)
{
	AUTO_FD fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t n = fd_read_full(fd, buf, size);
	if (n < 0)
		return n;
	if ((size_t)n == size)
		return -EFBIG;
	while (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return n;
}

int fd_write_text(int dir_fd, const char *path, const char *text)
{
	AUTO_FD fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	size_t size = strlen(text);
	ssize_t n = write(fd, text, size);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

int fd_read_all(int fd, size_t max, char **ret, size_t *ret_size)
{
	size_t room = 4096;
	size_t used = 0;
	AUTO_FREE char *data = NULL;

	for (;;) {
		if (room > max + 1)
			room = max + 1;
		char *grown = realloc(data, room + 1);
		if (!grown)
			return -ENOMEM;
		data = grown;
		ssize_t n = fd_read_full(fd, data + used, room - used);
		if (n < 0)
			return (int)n;
		used += (size_t)n;
		if (used > max)
			return -EFBIG;
		if (used < room)
			break;
		room *= 2;
	}
	data[used] = '\0';
	*ret = TAKE(data);
	*ret_size = used;
	return 0;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, wanted) < 0 ? -errno : 0;
}

int fd_pipe(int *ret_read_fd, int *ret_write_fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_read_fd = ends[0];
	*ret_write_fd = ends[1];
	return 0;
}

/* Deepest directory nesting that a tree may have to be removed in one go: each
 * level holds a descriptor. */
#define REMOVE_DEPTH_MAX 256

static int remove_children(int dir_fd, dev_t device, int depth);

static int remove_entry(int dir_fd, const char *name, dev_t device, int depth)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;

	AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0700); /* a read-only directory can not be emptied */
	int r = remove_children(fd, device, depth);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

static int remove_children(int dir_fd, dev_t device, int depth)
{
	struct stat st;

	if (depth >= REMOVE_DEPTH_MAX)
		return -ELOOP;
	if (fstat(dir_fd, &st) < 0)
		return -errno;
	if (st.st_dev != device)
		return -EXDEV;

	AUTO_FD copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	CLEANUP(close_dirp) DIR *dir = fdopendir(copy);
	if (!dir)
		return -errno;
	(void)take_fd(&copy);

	const struct dirent *entry;
	while ((entry = readdir(dir))) {
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		int r = remove_entry(dir_fd, entry->d_name, device, depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

int fd_remove_tree(int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return remove_entry(dir_fd, name, st.st_dev, 0);
}
