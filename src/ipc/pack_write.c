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
	struct pack_entry e = { .kind = kind, .mode = mode & 0777, .size = size };

	if (kind != PACK_END && !pack_name_is_clean(name))
		return err_set(
			err, -EINVAL, "'%.100s' is not a name a file can have in the box", name);
	if (kind != PACK_END && w->n_entries++ >= PACK_ENTRIES_MAX)
		return err_set(err, -E2BIG, "more than %u files", PACK_ENTRIES_MAX);
	(void)snprintf(e.name, sizeof(e.name), "%s", name);
	return send_all(w, buf, pack_encode(&e, buf), err);
}

int pack_write_head(struct pack_writer *w, enum pack_kind kind, const char *name, uint32_t mode,
	uint64_t size, struct err *err)
{
	return send_head(w, kind, name, mode, size, err);
}

int pack_write_data(struct pack_writer *w, const void *data, size_t size, struct err *err)
{
	w->n_bytes += size;
	return send_all(w, data, size, err);
}

int pack_write_bytes(struct pack_writer *w, const char *name, uint32_t mode, const void *data,
	uint64_t size, struct err *err)
{
	int r = send_head(w, PACK_FILE, name, mode, size, err);

	w->n_bytes += size;
	return r < 0 ? r : send_all(w, data, size, err);
}

int pack_write_file(struct pack_writer *w, const char *name, int fd, struct err *err)
{
	struct stat st;
	char chunk[CHUNK_SIZE];

	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at '%.100s'", name);
	uint64_t left = (uint64_t)st.st_size;
	if (left > w->max_bytes - w->n_bytes)
		return send_head(w, PACK_SKIP, name, 0, left, err);
	int r = send_head(w, PACK_FILE, name, st.st_mode, left, err);
	while (r == 0 && left > 0) {
		ssize_t n = fd_read_full(fd, chunk, left < CHUNK_SIZE ? left : CHUNK_SIZE);

		if (n <= 0)
			return err_set(err, n < 0 ? (int)n : -EIO, "read '%.100s'%s", name,
				n == 0 ? ": it shrank meanwhile" : "");
		r = send_all(w, chunk, (size_t)n, err);
		left -= (uint64_t)n;
		w->n_bytes += (uint64_t)n;
	}
	return r;
}

static bool is_wanted(const struct pack_writer *w, const char *name)
{
	if (!w->globs)
		return true;
	for (size_t i = 0; w->globs[i]; i++) {
		const char *glob = w->globs[i];

		/* Both ways in which people name their files. */
		glob = str_after(glob, "/workspace/") ? str_after(glob, "/workspace/") : glob;
		glob = str_after(glob, "./") ? str_after(glob, "./") : glob;
		if (glob_match(glob, name))
			return true;
	}
	return false;
}

static int write_link(
	struct pack_writer *w, const char *name, int dir_fd, const char *leaf, struct err *err)
{
	char target[PACK_NAME_MAX + 1];
	ssize_t n = readlinkat(dir_fd, leaf, target, sizeof(target));

	if (n < 0 || (size_t)n == sizeof(target))
		return err_set(err, n < 0 ? -errno : -ENAMETOOLONG, "read the link '%.100s'", name);
	int r = send_head(w, PACK_LINK, name, 0777, (uint64_t)n, err);
	return r < 0 ? r : send_all(w, target, (size_t)n, err);
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
		return 0;
	return pack_write_file(w, name, fd, err);
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

static int write_entry(
	struct pack_writer *w, const char *prefix, int dir_fd, const char *leaf, struct err *err)
{
	struct stat st;
	char name[PACK_NAME_MAX + 1];
	int n = snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "/" : "", leaf);

	if (n < 0 || (size_t)n >= sizeof(name) || !pack_name_is_clean(name))
		return w->files_only ? 0 /* too deep or too long to be taken out */
				     : err_set(err, -ENAMETOOLONG, "'%.100s' is too deep", name);
	if (fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "look at '%.100s'", name);
	if (S_ISDIR(st.st_mode))
		return write_dir(w, name, dir_fd, leaf, err);
	if (S_ISREG(st.st_mode))
		return write_regular(w, name, dir_fd, leaf, err);
	if (S_ISLNK(st.st_mode) && !w->files_only)
		return write_link(w, name, dir_fd, leaf, err);
	return 0; /* sockets, fifos and devices are not files to keep */
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
	while (r == 0 && (entry = readdir(dir))) {
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		r = add_name(names, entry->d_name, err);
	}
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
	return send_head(w, PACK_DIR, name, st.st_mode, 0, err);
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
