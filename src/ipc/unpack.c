#include "ipc/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"

static int open_beneath(int dir_fd, const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
}

/* Open the directory that holds `name`, making what is missing of it; `*ret_leaf`
 * is its last part. */
static int open_parent(int dir_fd, char *name, const char **ret_leaf, struct err *err)
{
	AUTO_FD at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	char *part = name;

	for (char *slash; at >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
		*slash = '\0';
		int next = open_beneath(at, part, O_PATH | O_DIRECTORY, 0);
		if (next < 0 && errno == ENOENT && mkdirat(at, part, 0755) == 0)
			next = open_beneath(at, part, O_PATH | O_DIRECTORY, 0);
		int saved = errno;
		*slash = '/';
		close_fdp(&at);
		errno = saved;
		at = next;
	}
	if (at < 0)
		return err_errno(err, "open the directory of '%.100s'", name);
	*ret_leaf = part;
	return take_fd(&at);
}

static int begin_file(
	struct unpack *u, int parent, const char *leaf, const struct pack_entry *e, struct err *err)
{
	if (unlinkat(parent, leaf, 0) < 0 && errno != ENOENT)
		return err_errno(err, "replace '%.100s'", e->name);
	u->fd = open_beneath(parent, leaf, O_WRONLY | O_CREAT | O_EXCL, (e->mode & 0777) | 0600);
	return u->fd < 0 ? err_errno(err, "make '%.100s'", e->name) : 0;
}

static int make_dir(int parent, const char *leaf, const struct pack_entry *e, struct err *err)
{
	struct stat st;

	if (mkdirat(parent, leaf, (e->mode & 0777) | 0700) == 0)
		return 0;
	if (errno == EEXIST && fstatat(parent, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISDIR(st.st_mode))
		return 0;
	return err_errno(err, "make the directory '%.100s'", e->name);
}

/* A link, when its target is known; and what has a time is there already. */
static bool is_made_at_end(enum pack_kind kind)
{
	return kind == PACK_LINK || kind == PACK_TWIN || kind == PACK_TIME;
}

static int on_begin(struct pack_sink *sink, const struct pack_entry *e, struct err *err)
{
	struct unpack *u = (struct unpack *)sink;
	const char *leaf = NULL;

	u->entry = *e;
	u->n_target = 0;
	if (e->kind == PACK_SKIP) {
		u->n_skipped++;
		return u->whole ? err_set(err, -EBADMSG, "'%.100s' is missing", e->name) : 0;
	}
	if (u->files_only && e->kind != PACK_FILE)
		return err_set(err, -EBADMSG, "file stream: '%.100s' is no file", e->name);
	if (e->kind == PACK_FILE && e->size > u->max_bytes - u->n_bytes)
		return err_set(err, -EFBIG, "'%.100s' passes the limit of %llu bytes", e->name,
			(unsigned long long)u->max_bytes);
	if (is_made_at_end(e->kind))
		return 0;
	AUTO_FD parent = open_parent(u->dir_fd, u->entry.name, &leaf, err);
	if (parent < 0)
		return parent;
	return e->kind == PACK_DIR ? make_dir(parent, leaf, e, err)
				   : begin_file(u, parent, leaf, e, err);
}

static int on_data(struct pack_sink *sink, const uint8_t *data, size_t size, struct err *err)
{
	struct unpack *u = (struct unpack *)sink;

	if (is_made_at_end(u->entry.kind)) {
		memcpy(u->target + u->n_target, data, size); /* the reader checked the size */
		u->n_target += size;
		return 0;
	}
	u->n_bytes += size;
	int r = fd_write_full(u->fd, data, size);
	if (r < 0)
		return err_set(err, r, "write '%.100s': %s", u->entry.name, strerror(-r));
	return 0;
}

static int make_link(struct unpack *u, int parent, const char *leaf, struct err *err)
{
	if (unlinkat(parent, leaf, 0) < 0 && errno != ENOENT)
		return err_errno(err, "replace '%.100s'", u->entry.name);
	if (symlinkat(u->target, parent, leaf) < 0)
		return err_errno(err, "link '%.100s'", u->entry.name);
	return 0;
}

/* The other name is looked for as every name is: below the directory, and over no link. */
static int make_twin(struct unpack *u, int parent, const char *leaf, struct err *err)
{
	const char *other_leaf = NULL;

	if (!pack_name_is_clean(u->target))
		return err_set(err, -EBADMSG, "file stream: unsafe name '%.100s'", u->target);
	if (streq(u->target, u->entry.name))
		return err_set(
			err, -EBADMSG, "file stream: '%.100s' is linked to itself", u->target);
	AUTO_FD other = open_parent(u->dir_fd, u->target, &other_leaf, err);
	if (other < 0)
		return other;
	if (unlinkat(parent, leaf, 0) < 0 && errno != ENOENT)
		return err_errno(err, "replace '%.100s'", u->entry.name);
	if (linkat(other, other_leaf, parent, leaf, 0) < 0)
		return err_errno(err, "link '%.100s'", u->entry.name);
	return 0;
}

static int set_time(struct unpack *u, int parent, const char *leaf, struct err *err)
{
	struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = (time_t)u->entry.size, .tv_nsec = (long)u->entry.mode },
	};

	if (utimensat(parent, leaf, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "set the time of '%.100s'", u->entry.name);
	return 0;
}

static int on_finish(struct pack_sink *sink, struct err *err)
{
	struct unpack *u = (struct unpack *)sink;

	const char *leaf = NULL;

	close_fdp(&u->fd);
	if (!is_made_at_end(u->entry.kind))
		return 0;
	u->target[u->n_target] = '\0';
	AUTO_FD parent = open_parent(u->dir_fd, u->entry.name, &leaf, err);
	if (parent < 0)
		return parent;
	if (u->entry.kind == PACK_TIME)
		return set_time(u, parent, leaf, err);
	return u->entry.kind == PACK_LINK ? make_link(u, parent, leaf, err)
					  : make_twin(u, parent, leaf, err);
}

void unpack_init(struct unpack *u, int dir_fd, uint64_t max_bytes)
{
	memset(u, 0, sizeof(*u));
	u->sink = (struct pack_sink){ on_begin, on_data, on_finish };
	u->dir_fd = dir_fd;
	u->fd = -1;
	u->max_bytes = max_bytes;
}

void unpack_fini(struct unpack *u)
{
	const char *leaf = NULL;

	if (u->fd < 0)
		return;
	close_fdp(&u->fd);
	AUTO_FD parent = open_parent(u->dir_fd, u->entry.name, &leaf, NULL);
	if (parent >= 0)
		(void)unlinkat(parent, leaf, 0);
}
