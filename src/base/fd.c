#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

ssize_t fd_pread_full(int fd, void *buf, size_t size, off_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done, offset + (off_t)done);

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

/* Of what was read, `n` bytes or a negative errno, make a text. */
static ssize_t end_text(char *buf, ssize_t n, size_t size)
{
	if (n < 0)
		return n;
	if ((size_t)n == size)
		return -EFBIG;
	while (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return n;
}

ssize_t fd_read_text(int dir_fd, const char *path, char *buf, size_t size)
{
	AUTO_FD fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return end_text(buf, fd_read_full(fd, buf, size), size);
}

ssize_t fd_reread_text(int fd, char *buf, size_t size)
{
	ssize_t n;

	do {
		n = pread(fd, buf, size, 0);
	} while (n < 0 && errno == EINTR);
	return end_text(buf, n < 0 ? -errno : n, size);
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

DIR *fd_open_dir(int dir_fd)
{
	AUTO_FD copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (dir)
		(void)take_fd(&copy);
	return dir;
}

void fd_close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

/* One in that many descriptors may be held for speed. */
#define SPARE_PART 16

/* How many levels of a tree are held open at once, with two descriptors each. What
 * lies deeper is moved to the top of the tree and removed from there. */
#define REMOVE_DEPTH_MAX 64

struct removal {
	int top_fd;
	unsigned n_moved;
};

int fd_unshut(int dir_fd, const char *name, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = resolve,
	};
	AUTO_FD there = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
	char path[32];

	if (there < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", there);
	return chmod(path, 0700) < 0 ? -1 : take_fd(&there);
}

static int open_dir(int dir_fd, const char *name, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = resolve,
	};
	int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

	if (fd >= 0 || errno != EACCES)
		return fd;
	AUTO_FD there = fd_unshut(dir_fd, name, resolve);
	return there < 0 ? -1 : openat(there, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int move_up(struct removal *m, int dir_fd, const char *name)
{
	char moved[32];

	for (;;) {
		(void)snprintf(moved, sizeof(moved), ".moved-%u", m->n_moved++);
		if (renameat(dir_fd, name, m->top_fd, moved) == 0)
			return 0;
		/* The tree may hold such names of its own. */
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return -errno;
	}
}

static int remove_children(struct removal *m, int dir_fd, int depth);

static int remove_entry(struct removal *m, int dir_fd, const char *name, int depth)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	int why = errno;
	if (why != EISDIR && why != EPERM)
		return -why;

	AUTO_FD fd = open_dir(dir_fd, name, RESOLVE_NO_XDEV);
	if (fd < 0)
		return errno == ENOTDIR ? -why : -errno;
	(void)fchmod(fd, 0700); /* a read-only directory can not be emptied */
	if (depth >= REMOVE_DEPTH_MAX)
		return move_up(m, dir_fd, name);
	int r = remove_children(m, fd, depth);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int remove_children(struct removal *m, int dir_fd, int depth)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(dir_fd);
	const struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		int r = remove_entry(m, dir_fd, entry->d_name, depth + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

int fd_remove_tree(int dir_fd, const char *name)
{
	struct removal m = { 0 };

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	int why = errno;
	if (why != EISDIR && why != EPERM)
		return -why;
	AUTO_FD top = open_dir(dir_fd, name, 0);
	if (top < 0)
		return errno == ENOTDIR ? -why : -errno;
	(void)fchmod(top, 0700);
	m.top_fd = top;
	for (unsigned before;;) {
		before = m.n_moved;
		int r = remove_children(&m, top, 0);
		if (r < 0)
			return r;
		if (m.n_moved == before)
			break;
	}
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

void fd_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

size_t fd_count_spare(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : limit.rlim_cur / SPARE_PART;
}
