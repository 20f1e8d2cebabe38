#include "ipc/pack_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/glob.h"
#include "base/str.h"
#include "ipc/twins.h"

#define CHUNK_SIZE (64u << 10)

static int send_all(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	const char *p = data;

	while (size > 0) {
		ssize_t n = send(w->fd, p, size, MSG_NOSIGNAL);

		if (n < 0 && errno == ENOTSOCK)
			n = write(w->fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "send files");
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

static int send_head(struct pack_writer *w, enum pack_kind kind, const char *name, uint32_t mode,
	uint64_t size, struct err *err)
{
	uint8_t buf[PACK_HEAD_SIZE + PACK_NAME_MAX];
	struct pack_entry e = { .kind = kind, .mode = mode, .size = size };

	if (kind != PACK_END && !pack_name_is_clean(name))
		return err_set(
			err, -EINVAL, "'%.100s' is not a name a file can have in the box", name);
	bool is_entry = kind != PACK_END && kind != PACK_TIME;
	if (is_entry && w->n_entries++ >= PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	(void)snprintf(e.name, sizeof(e.name), "%s", name);
	return send_all(w, buf, pack_encode(&e, buf), err);
}

int pack_write_head(struct pack_writer *w, enum pack_kind kind, const char *name, uint32_t mode,
	uint64_t size, struct err *err)
{
	return send_head(w, kind, name, mode & 0777, size, err);
}

int pack_write_data(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	w->n_bytes += size;
	return send_all(w, data, size, err);
}

int pack_write_bytes(struct pack_writer *w, const char *name, uint32_t mode, const void *data,
	uint64_t size, struct err *err)
{
	int r = send_head(w, PACK_FILE, name, mode & 0777, size, err);

	w->n_bytes += size;
	return r < 0 ? r : send_all(w, data, size, err);
}

static int refuse_size(const struct pack_writer *w, const char *name, struct err *err)
{
	return err_set(err, -EFBIG, "the files are larger than %llu bytes, from '%.100s' on",
		(unsigned long long)w->max_bytes, name);
}

int pack_write_file(struct pack_writer *w, const char *name, int fd, struct err *err)
{
	struct stat st;
	char chunk[CHUNK_SIZE];

	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at '%.100s'", name);
	uint64_t left = (uint64_t)st.st_size;
	if (left > w->max_bytes - w->n_bytes)
		return w->twins ? refuse_size(w, name, err)
				: send_head(w, PACK_SKIP, name, 0, left, err);
	int r = send_head(w, PACK_FILE, name, st.st_mode & 0777, left, err);
	while (r == 0 && left > 0) {
		ssize_t n = fd_read_full(fd, chunk, left < CHUNK_SIZE ? left : CHUNK_SIZE);

		if (n <= 0)
			return err_set(err, n < 0 ? (int)n : -ESTALE, "read '%.100s'%s", name,
				n == 0 ? ": it shrank meanwhile" : "");
		r = send_all(w, chunk, (size_t)n, err);
		left -= (uint64_t)n;
		w->n_bytes += (uint64_t)n;
	}
	return r;
}

bool pack_glob_fits(const char *glob, const char *name)
{
	/* Both ways in which people name their files. */
	glob = str_after(glob, "/workspace/") ? str_after(glob, "/workspace/") : glob;
	glob = str_after(glob, "./") ? str_after(glob, "./") : glob;
	return glob_match(glob, name);
}

static bool is_wanted(const struct pack_writer *w, const char *name)
{
	if (!w->globs)
		return true;
	for (size_t i = 0; w->globs[i]; i++) {
		if (pack_glob_fits(w->globs[i], name))
			return true;
	}
	return false;
}

/* A name in a stream whose data is a name too. */
static int send_target(struct pack_writer *w, enum pack_kind kind, const char *name,
	const char *target, size_t size, struct err *err)
{
	int r = send_head(w, kind, name, 0777, size, err);

	return r < 0 ? r : send_all(w, target, size, err);
}

static int write_link(
	struct pack_writer *w, const char *name, int dir_fd, const char *leaf, struct err *err)
{
	char target[PACK_NAME_MAX + 1];
	ssize_t n = readlinkat(dir_fd, leaf, target, sizeof(target));

	if (n < 0 || (size_t)n == sizeof(target))
		return err_set(err, n < 0 ? -errno : -ENAMETOOLONG, "read the link '%.100s'", name);
	return send_target(w, PACK_LINK, name, target, (size_t)n, err);
}

/* After all that changes it again: of a directory, what is in it. */
static int write_time(
	struct pack_writer *w, const char *name, const struct stat *st, struct err *err)
{
	if (!w->twins)
		return 0;
	return send_head(w, PACK_TIME, name, (uint32_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_mtim.tv_sec, err);
}

/* The bytes of the open file, or under which name they were sent before. */
static int write_content(
	struct pack_writer *w, const char *name, int fd, const struct stat *st, struct err *err)
{
	const char *before = NULL;
	int r = w->twins && st->st_nlink > 1 ? twins_meet(w->twins, st, name, &before, err) : 0;

	if (r < 0)
		return r;
	return before ? send_target(w, PACK_TWIN, name, before, strlen(before), err)
		      : pack_write_file(w, name, fd, err);
}

static int write_regular(
	struct pack_writer *w, const char *name, int dir_fd, const char *leaf, struct err *err)
{
	struct stat st;

	if (!is_wanted(w, name))
		return 0;
	AUTO_FD fd = openat(dir_fd, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && w->files_only)
		return send_head(w, PACK_SKIP, name, 0, 0, err);
	if (fd < 0)
		return err_errno(err, "open '%.100s'", name);
	/* What was a regular file a moment ago may be a fifo by now. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return w->twins ? err_set(err, -ESTALE, "'%.100s' changed meanwhile", name) : 0;
	return write_content(w, name, fd, &st, err);
}

static int write_dir(
	struct pack_writer *w, const char *name, int dir_fd, const char *leaf, struct err *err)
{
	AUTO_FD fd = openat(dir_fd, leaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && w->files_only)
		return 0; /* the guest shut its own directory: nothing to take from it */
	if (fd < 0)
		return err_errno(err, "open '%.100s'", name);
	return pack_write_tree(w, name, fd, err);
}

typedef int write_fn(
	struct pack_writer *w, const char *name, int dir_fd, const char *leaf, struct err *err);

/* NULL: sockets, fifos and devices are not files to keep. */
static write_fn *find_writer(const struct pack_writer *w, mode_t mode)
{
	static const struct {
		mode_t type;
		bool is_file;
		write_fn *write;
	} rows[] = {
		{ S_IFDIR, true, write_dir }, /* of files */
		{ S_IFREG, true, write_regular },
		{ S_IFLNK, false, write_link },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].type == (mode & S_IFMT) && (rows[i].is_file || !w->files_only))
			return rows[i].write;
	}
	return NULL;
}

static int write_entry(
	struct pack_writer *w, const char *prefix, int dir_fd, const char *leaf, struct err *err)
{
	struct stat st;
	char name[PACK_NAME_MAX + 1];
	int n = snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "/" : "", leaf);

	if (!*prefix && w->is_hidden && w->is_hidden(leaf))
		return 0;
	if (n < 0 || (size_t)n >= sizeof(name) || !pack_name_is_clean(name))
		return w->files_only ? 0 /* too deep or too long to be taken out */
				     : err_set(err, -ENAMETOOLONG, "'%.100s' is too deep", name);
	if (fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "look at '%.100s'", name);
	write_fn *write = find_writer(w, st.st_mode);
	int r = write ? write(w, name, dir_fd, leaf, err) : 0;
	return r < 0 || !write ? r : write_time(w, name, &st, err);
}

/* Names of a directory, sorted. The array is bounded by PACK_ENTRIES_MAX. */
struct names {
	char **at;
	size_t n;
	size_t room;
};

static void names_fini(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	free(names->at);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct names *names, const char *name, struct err *err)
{
	if (names->n >= PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	if (names->n == names->room) {
		size_t room = names->room ? 2 * names->room : 64;
		char **grown = reallocarray(names->at, room, sizeof(*grown));

		if (!grown)
			return err_set(err, -ENOMEM, "no memory for the names of files");
		names->at = grown;
		names->room = room;
	}
	names->at[names->n++] = xstrdup(name);
	return 0;
}

static int read_names(int dir_fd, struct names *names, struct err *err)
{
	int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return err_errno(err, "list a directory");
	rewinddir(dir); /* the copy shares its place with who read before */
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		r = add_name(names, entry->d_name, err);
	}
	if (r == 0 && errno != 0)
		r = err_errno(err, "list a directory");
	(void)closedir(dir);
	if (names->n > 0)
		qsort(names->at, names->n, sizeof(*names->at), compare_names);
	return r;
}

/* The directory itself, so that an empty one arrives too. */
static int write_top(struct pack_writer *w, const char *name, int dir_fd, struct err *err)
{
	struct stat st;

	if (!*name || w->files_only)
		return 0;
	if (fstat(dir_fd, &st) < 0)
		return err_errno(err, "look at '%.100s'", name);
	return send_head(w, PACK_DIR, name, st.st_mode & 0777, 0, err);
}

int pack_write_tree(struct pack_writer *w, const char *prefix, int dir_fd, struct err *err)
{
	CLEANUP(names_fini) struct names names = { 0 };
	int r = write_top(w, prefix, dir_fd, err);

	if (r == 0)
		r = read_names(dir_fd, &names, err);
	for (size_t i = 0; i < names.n && r == 0; i++)
		r = write_entry(w, prefix, dir_fd, names.at[i], err);
	return r;
}

int pack_write_end(struct pack_writer *w, struct err *err)
{
	return send_head(w, PACK_END, "", 0, w->n_entries, err);
}
