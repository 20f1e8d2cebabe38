#include "core/audit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "core/audit.h"

#define HEAD_SIZE 512u /* of a file: where the time of its first line stands */
#define TRIES_MAX 100u /* for a name that is free */
#define BASE_MAX  200  /* bytes of the file's own name, so that a time fits behind it */

/* A time in a file name: no colons, which some tools take for the end of a host's name. */
#define STAMP_SIZE (sizeof("20260131T120000.123456Z") - 1)

static void format_stamp(uint64_t ns, char ret[STAMP_SIZE + 1])
{
	char date[DATE_SIZE + 1];
	size_t n = 0;

	date_format(ns, date);
	for (const char *p = date; *p; p++) {
		if (*p != '-' && *p != ':' && n < STAMP_SIZE)
			ret[n++] = *p;
	}
	ret[n] = '\0';
}

static int parse_stamp(const char *text, uint64_t *ret_ns)
{
	char date[DATE_SIZE + 1];
	char again[STAMP_SIZE + 1];
	uint64_t ns = 0;

	if (strlen(text) != STAMP_SIZE)
		return -EINVAL;
	(void)snprintf(date, sizeof(date), "%.4s-%.2s-%.5s:%.2s:%s", text, text + 4, text + 6,
		text + 11, text + 13);
	if (date_parse(date, &ns) < 0)
		return -EINVAL;
	format_stamp(ns, again);
	if (!streq(again, text))
		return -EINVAL;
	*ret_ns = ns;
	return 0;
}

/* The time of the first line, as audit.c writes it. */
static uint64_t read_begin(const struct audit_file *f)
{
	static const char mark[] = "\"ts\":\"";
	char head[HEAD_SIZE + 1] = "";
	uint64_t ns = 0;
	AUTO_FD fd = openat(f->dir_fd, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fd_read_full(fd, head, HEAD_SIZE) < 0)
		return clock_realtime_ns();
	char *at = strstr(head, mark);
	char *end = at ? strchr(at + strlen(mark), '"') : NULL;
	if (!end)
		return clock_realtime_ns();
	*end = '\0';
	return date_parse(at + strlen(mark), &ns) < 0 ? clock_realtime_ns() : ns;
}

static int check_file(int fd, const char *name, struct stat *ret, struct err *err)
{
	if (fstat(fd, ret) < 0)
		return err_errno(err, "stat %.160s", name);
	if (!S_ISREG(ret->st_mode))
		return err_set(err, -EINVAL, "%.160s is not a file", name);
	if (ret->st_uid != geteuid())
		return err_set(
			err, -EPERM, "%.160s belongs to uid %u", name, (unsigned)ret->st_uid);
	/* Whatever the umask is, or somebody made of it. */
	if (fchmod(fd, 0600) < 0)
		return err_errno(err, "chmod %.160s", name);
	return 0;
}

/* A line that a loss of power tore stays one of its own. */
static int end_torn_line(struct audit_file *f, struct err *err)
{
	char last = '\n';
	AUTO_FD fd = openat(f->dir_fd, f->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || pread(fd, &last, 1, (off_t)f->size - 1) < 0)
		return err_errno(err, "read %.160s", f->name);
	if (last == '\n')
		return 0;
	int r = fd_write_full(f->fd, "\n", 1);
	if (r < 0)
		return err_set(err, r, "write %.160s: %s", f->name, strerror(-r));
	f->size++;
	return 0;
}

/* Not to wait for the reader of what turns out to be a pipe: O_NONBLOCK. */
static int open_file(struct audit_file *f, struct err *err)
{
	struct stat st;
	AUTO_FD fd = openat(f->dir_fd, f->name,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "open %.160s", f->name);
	int r = check_file(fd, f->name, &st, err);
	if (r < 0)
		return r;
	f->fd = take_fd(&fd);
	f->size = (uint64_t)st.st_size;
	f->begun_ns = f->size > 0 ? read_begin(f) : 0;
	r = f->size > 0 ? end_torn_line(f, err) : 0;
	if (r < 0)
		close_fdp(&f->fd);
	return r;
}

static int open_dir(struct audit_file *f, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');

	if (path[0] != '/' || !slash[1])
		return err_set(err, -EINVAL, "%.160s: not the absolute path of a file", path);
	AUTO_FREE char *dir = slash == path ? xstrdup("/") : strndup(path, (size_t)(slash - path));
	if (!dir)
		return err_set(err, -ENOMEM, "no memory");
	int r = path_make_dirs(dir, 0700, err);
	if (r < 0)
		return r;
	f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir_fd < 0)
		return err_errno(err, "open %.160s", dir);
	if (strlen(slash + 1) > BASE_MAX)
		return err_set(err, -ENAMETOOLONG, "%.160s: the name is too long", path);
	f->name = xstrdup(slash + 1);
	return 0;
}

int audit_file_open(struct audit_file *f, const char *path, uint64_t max_bytes, struct err *err)
{
	*f = (struct audit_file){ .dir_fd = -1, .fd = -1, .max_bytes = max_bytes };
	int r = open_dir(f, path, err);
	if (r == 0)
		r = open_file(f, err);
	if (r < 0)
		audit_file_fini(f);
	return r;
}

void audit_file_fini(struct audit_file *f)
{
	close_fdp(&f->fd);
	close_fdp(&f->dir_fd);
	fd_close_dirp(&f->scan);
	free(TAKE(f->name));
}

/* A name that is taken, by a clock that was set back, is never written over. */
static int free_name(const struct audit_file *f, uint64_t now_ns, char ret[NAME_MAX + 1])
{
	struct stat st;

	for (unsigned i = 0; i < TRIES_MAX; i++) {
		char stamp[STAMP_SIZE + 1];

		format_stamp(now_ns + i * UINT64_C(1000), stamp);
		(void)snprintf(ret, NAME_MAX + 1, "%.*s.%s", BASE_MAX, f->name, stamp);
		if (fstatat(f->dir_fd, ret, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return errno == ENOENT ? 0 : -errno;
	}
	return -EEXIST;
}

static int rotate(struct audit_file *f, uint64_t now_ns, struct err *err)
{
	char name[NAME_MAX + 1];
	int r = free_name(f, now_ns, name);

	if (r < 0)
		return err_set(err, r, "no name to rename %.160s to: %s", f->name, strerror(-r));
	/* Somebody else may have moved it away; then there is nothing to rename. */
	if (renameat(f->dir_fd, f->name, f->dir_fd, name) < 0 && errno != ENOENT)
		return err_errno(err, "rename %.160s", f->name);
	close_fdp(&f->fd);
	return open_file(f, err);
}

int audit_file_append(
	struct audit_file *f, const char *line, size_t size, uint64_t now_ns, struct err *err)
{
	int r = 0;

	if (f->fd < 0)
		r = open_file(f, err);
	else if (f->size > 0 && f->size + size > f->max_bytes)
		r = rotate(f, now_ns, err);
	/* One that can not be renamed grows: a lost line would be worse. */
	if (f->fd < 0)
		return r;
	ssize_t n = write(f->fd, line, size);
	if (n != (ssize_t)size) {
		r = n < 0 ? -errno : -ENOSPC;
		/* Half a line that can not be taken back gets its end when it is opened again. */
		if (ftruncate(f->fd, (off_t)f->size) < 0)
			close_fdp(&f->fd);
		return err_set(err, r, "write %.160s: %s", f->name, strerror(-r));
	}
	if (f->size == 0)
		f->begun_ns = now_ns;
	f->size += size;
	return 0;
}

int audit_file_rotate_older(
	struct audit_file *f, uint64_t begun_before_ns, uint64_t now_ns, struct err *err)
{
	if (f->fd < 0 || f->size == 0 || f->begun_ns >= begun_before_ns)
		return 0;
	return rotate(f, now_ns, err);
}

static bool is_old(const struct audit_file *f, const char *name, uint64_t before_ns)
{
	const char *rest = str_after(name, f->name);
	uint64_t ns = 0;

	return rest && *rest == '.' && parse_stamp(rest + 1, &ns) == 0 && ns < before_ns;
}

unsigned audit_file_sweep(struct audit_file *f, uint64_t rotated_before_ns)
{
	unsigned n_removed = 0;

	if (!f->scan)
		f->scan = fd_open_dir(f->dir_fd);
	for (unsigned i = 0; f->scan && i < AUDIT_SCAN_MAX; i++) {
		const struct dirent *entry = readdir(f->scan);

		if (!entry) {
			fd_close_dirp(&f->scan);
			f->scan = NULL;
			break;
		}
		if (is_old(f, entry->d_name, rotated_before_ns))
			n_removed += unlinkat(f->dir_fd, entry->d_name, 0) == 0;
	}
	return n_removed;
}
