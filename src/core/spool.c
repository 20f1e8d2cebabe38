#include "core/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define COPY_SIZE (16u << 10)

void spool_begin(struct spool *p, const char *name, int dir_fd, int fd)
{
	*p = (struct spool){ .name = name, .dir_fd = dir_fd, .is_writable = true, .fd = fd };
}

int spool_adopt(struct spool *p, const char *name, int dir_fd, bool is_writable, int fd)
{
	struct stat st = { 0 };

	spool_begin(p, name, dir_fd, fd);
	p->is_writable = is_writable;
	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	p->size = (uint64_t)st.st_size;
	return 0;
}

int spool_init(struct spool *p, const char *name, int dir_fd, bool is_writable)
{
	struct stat st = { 0 };

	(void)spool_adopt(p, name, dir_fd, is_writable, -1);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	p->size = (uint64_t)st.st_size;
	return 0;
}

void spool_fini(struct spool *p)
{
	close_fdp(&p->fd);
}

static int need_file(struct spool *p)
{
	int flags = p->is_writable ? O_RDWR | O_CREAT : O_RDONLY;

	if (p->fd >= 0)
		return 0;
	p->fd = openat(p->dir_fd, p->name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	return p->fd < 0 ? -errno : 0;
}

static int write_at_end(struct spool *p, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t n = pwrite(p->fd, data, size, (off_t)p->size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p->size += (uint64_t)n;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

ssize_t spool_read_pipe(int fd, void *buf, size_t size)
{
	for (;;) {
		ssize_t n = read(fd, buf, size);

		if (n >= 0)
			return n;
		/* How a terminal says that nobody has its other end any more. */
		if (errno == EIO)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

static ssize_t splice_some(int fd, int to_fd, loff_t *at, size_t max)
{
	for (;;) {
		ssize_t n = splice(fd, NULL, to_fd, at, max, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return -errno;
	}
}

static ssize_t copy_some(struct spool *p, int fd, size_t max)
{
	char buf[COPY_SIZE];
	ssize_t n = spool_read_pipe(fd, buf, max < sizeof(buf) ? max : sizeof(buf));

	if (n <= 0)
		return n;
	int r = write_at_end(p, buf, (size_t)n);
	return r < 0 ? r : n;
}

ssize_t spool_take(struct spool *p, int fd, size_t max)
{
	int r = need_file(p);

	if (r < 0)
		return r;
	loff_t at = (loff_t)p->size;
	ssize_t n = splice_some(fd, p->fd, &at, max);
	if (n == -EINVAL)
		return copy_some(p, fd, max);
	if (n > 0)
		p->size += (uint64_t)n;
	return n;
}

ssize_t spool_drop(int *null_fd, int fd, size_t max)
{
	char buf[COPY_SIZE];

	if (*null_fd < 0)
		*null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	ssize_t n = *null_fd < 0 ? -EINVAL : splice_some(fd, *null_fd, NULL, max);
	if (n < 0 && n != -EAGAIN)
		n = spool_read_pipe(fd, buf, max < sizeof(buf) ? max : sizeof(buf));
	return n;
}

int spool_append(struct spool *p, const void *data, size_t size)
{
	int r = need_file(p);

	if (r < 0)
		return r;
	uint64_t before = p->size;
	r = write_at_end(p, data, size);
	if (r < 0)
		(void)spool_cut(p, before);
	return r;
}

int spool_read(struct spool *p, uint64_t offset, void *buf, size_t size)
{
	char *to = buf;
	int r = need_file(p);

	if (r < 0)
		return r;
	while (size > 0) {
		ssize_t n = pread(p->fd, to, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		to += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int spool_cut(struct spool *p, uint64_t size)
{
	if (p->size <= size)
		return 0;
	p->size = size; /* the next byte goes there, whatever is left behind it */
	int r = need_file(p);
	if (r < 0)
		return r;
	while (ftruncate(p->fd, (off_t)size) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}
