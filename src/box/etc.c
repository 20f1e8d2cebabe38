#include "box/etc.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/bind.h"

/* What programs under /usr expect of /etc and which holds no secret. A name is
 * shown when the host has it. */
static const char *const host_etc[] = {
	"alternatives",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"ssl/certs",
	"ssl/openssl.cnf",
	"fonts",
	"localtime",
	"mime.types",
	"services",
	"protocols",
	"matplotlibrc",
	"magic",
	"magic.mime",
	"java-17-openjdk",
	"java-21-openjdk",
	"java-25-openjdk",
	"perl",
	"python3",
	"python3.11",
	"python3.13",
	"terminfo",
	"inputrc",
	"bash.bashrc",
	"ImageMagick-6",
	"ImageMagick-7",
	"R",
	"erlang",
	"lua",
	"papersize",
};

/* Of what not everybody may read, the kernel goes on to decide who may. */
static bool is_copied(const struct etc *e, const struct stat *st)
{
	return e->may_copy && S_ISREG(st->st_mode) && (st->st_mode & S_IROTH) &&
	       (size_t)st->st_size <= ETC_COPY_MAX;
}

/* Read what is to be copied: false when it has to be bound after all. It may have changed
 * since somebody looked, so it is looked at again, and opening it waits for nobody. */
static bool read_original(
	const struct etc *e, const char *from, struct stat *st, char **ret, size_t *ret_size)
{
	size_t max = e->left < ETC_COPY_MAX ? e->left : ETC_COPY_MAX;
	AUTO_FD fd = open(from, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd >= 0 && fstat(fd, st) == 0 && is_copied(e, st) &&
	       fd_read_all(fd, max, ret, ret_size) == 0;
}

static int make_file(const struct etc *e, const char *path, int *ret, struct err *err)
{
	int fd = openat(e->root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);

	if (fd < 0)
		return err_errno(err, "make /%s", path);
	*ret = fd;
	return 0;
}

static int write_copy(const struct etc *e, const char *path, const struct stat *st,
	const char *data, size_t size, struct err *err)
{
	const struct timespec times[] = { st->st_atim, st->st_mtim };
	AUTO_FD fd = -1;
	int r = make_file(e, path, &fd, err);

	if (r < 0)
		return r;
	r = fd_write_full(fd, data, size);
	if (r < 0)
		return err_set(err, r, "write /%s", path);
	if (fchmod(fd, st->st_mode & 0555) < 0 || futimens(fd, times) < 0)
		return err_errno(err, "set the mode of /%s", path);
	return 0;
}

/* Mount it on an empty thing of its kind. */
static int bind_original(
	const struct etc *e, const char *from, const char *path, bool is_dir, struct err *err)
{
	AUTO_FD fd = -1;
	int r = 0;

	if (!is_dir)
		r = make_file(e, path, &fd, err);
	else if (mkdirat(e->root_fd, path, 0755) < 0)
		r = err_errno(err, "make /%s", path);
	return r < 0 ? r : bind_read_only(from, e->root_fd, path, err);
}

int etc_show(struct etc *e, const char *from, const char *path, struct err *err)
{
	AUTO_FREE char *data = NULL;
	size_t size = 0;
	struct stat st;

	if (stat(from, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
		return 0;
	bool is_dir = S_ISDIR(st.st_mode);
	if (!is_copied(e, &st) || !read_original(e, from, &st, &data, &size))
		return bind_original(e, from, path, is_dir, err);
	e->left -= size;
	return write_copy(e, path, &st, data, size, err);
}

int etc_add(int root_fd, bool privileged, struct err *err)
{
	/* A plain user's guests would own the copies, which all boxes share, as they are
	 * this user too: they could not write them, but a lease on one, which is for its
	 * owner to take, holds up everybody else who opens it. */
	struct etc e = { .root_fd = root_fd, .left = ETC_TOTAL_MAX, .may_copy = privileged };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(host_etc) && r == 0; i++) {
		char from[64];

		(void)snprintf(from, sizeof(from), "/etc/%s", host_etc[i]);
		r = etc_show(&e, from, from + 1, err);
	}
	return r;
}
