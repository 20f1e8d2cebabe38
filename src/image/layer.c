#include "image/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "image/budget.h"
#include "image/tarball.h"
#include "image/tree.h"

#define WHITEOUT        ".wh."
#define WHITEOUT_META   ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

struct unpack {
	struct tree *tree;
	struct tarball *stream;
	struct budget *budget;
	struct archive_entry *entry;
	char path[TREE_PATH_MAX];
};

static int write_at(int fd, const char *data, size_t size, uint64_t offset)
{
	while (size > 0) {
		ssize_t n = pwrite(fd, data, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* Copy the content of the entry. The budget was asked for `size`, so a piece
 * beyond it is refused. */
static int write_content(struct unpack *u, int fd, uint64_t size, struct err *err)
{
	for (;;) {
		const void *data = NULL;
		size_t n = 0;
		uint64_t offset = 0;

		int r = tarball_data(u->stream, &data, &n, &offset, err);
		if (r < 0)
			return r;
		if (r == 0)
			break;
		if (offset > size || n > size - offset)
			return err_set(err, -EBADMSG, "it has more content than it says");
		r = write_at(fd, data, n, offset);
		if (r < 0)
			return err_set(err, r, "write: %s", strerror(-r));
	}
	/* For a hole at the end. */
	return ftruncate(fd, (off_t)size) < 0 ? err_errno(err, "set its size") : 0;
}

/* Interpreters compare the times of a source and its compiled form, so files keep
 * theirs; a time the file system can not hold is left alone. */
static void set_time(int fd, struct archive_entry *entry)
{
	struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = archive_entry_mtime(entry),
			.tv_nsec = archive_entry_mtime_nsec(entry) },
	};

	(void)futimens(fd, times);
}

static int add_file(struct unpack *u, struct err *err)
{
	AUTO_FD fd = -1;
	la_int64_t size = archive_entry_size(u->entry);

	if (size < 0)
		return err_set(err, -EBADMSG, "it has a negative size");
	int r = budget_take_content(u->budget, (uint64_t)size, err);
	if (r == 0)
		r = tree_add_file(u->tree, u->path, &fd, err);
	if (r == 0)
		r = write_content(u, fd, (uint64_t)size, err);
	if (r == 0)
		r = tree_seal_file(fd, archive_entry_mode(u->entry), err);
	if (r == 0)
		set_time(fd, u->entry);
	return r;
}

static int add_dir(struct unpack *u, struct err *err)
{
	return tree_add_dir(u->tree, u->path, err);
}

static int add_symlink(struct unpack *u, struct err *err)
{
	const char *target = archive_entry_symlink(u->entry);

	return tree_add_symlink(u->tree, u->path, target ? target : "", err);
}

static int add_link(struct unpack *u, struct err *err)
{
	char target[TREE_PATH_MAX];

	int r = tree_clean_path(archive_entry_hardlink(u->entry), target, err);
	if (r < 0)
		return err_wrap(err, r, "its hard link leads out of the image");
	return tree_add_link(u->tree, u->path, target, err);
}

/* What an entry may be. Devices, pipes and sockets reach into the host or block
 * who opens them, so an image that brings one is refused. */
static const struct {
	mode_t type;
	const char *name;
	int (*add)(struct unpack *u, struct err *err);
} types[] = {
	{ AE_IFREG, "file", add_file },
	{ AE_IFDIR, "directory", add_dir },
	{ AE_IFLNK, "symbolic link", add_symlink },
	{ AE_IFCHR, "character device", NULL },
	{ AE_IFBLK, "block device", NULL },
	{ AE_IFIFO, "named pipe", NULL },
	{ AE_IFSOCK, "socket", NULL },
};

static int add_entry(struct unpack *u, struct err *err)
{
	mode_t type = archive_entry_filetype(u->entry);

	if (archive_entry_hardlink(u->entry))
		return add_link(u, err);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (types[i].type != type)
			continue;
		if (!types[i].add)
			return err_set(err, -EPERM, "an image may not hold a %s", types[i].name);
		return types[i].add(u, err);
	}
	return err_set(err, -EPERM, "it is of an unknown type");
}

/* True when a word before the last one is a whiteout: "a/.wh.b/c". */
static bool has_whiteout_parent(const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(path, '/')) {
		if (str_after(path, WHITEOUT))
			return true;
		path = slash + 1;
	}
	return false;
}

/* The last word is a whiteout: cut it to what it hides, and hide that. */
static int hide_entry(struct unpack *u, char *leaf, struct err *err)
{
	const char *hidden = leaf + strlen(WHITEOUT);

	if (streq(leaf, WHITEOUT_OPAQUE)) {
		leaf[leaf > u->path ? -1 : 0] = '\0';
		return tree_hide_below(u->tree, u->path, err);
	}
	if (str_after(leaf, WHITEOUT_META))
		return 0; /* bookkeeping of a union file system of old */
	if (!*hidden || streq(hidden, ".") || streq(hidden, ".."))
		return err_set(err, -EINVAL, "the whiteout names nothing that could be hidden");
	memmove(leaf, hidden, strlen(hidden) + 1);
	return tree_hide(u->tree, u->path, err);
}

static int apply_entry(struct unpack *u, bool whiteouts, struct err *err)
{
	char *slash = strrchr(u->path, '/');
	char *leaf = slash ? slash + 1 : u->path;

	if (whiteouts && has_whiteout_parent(u->path))
		return err_set(err, -EINVAL, "it lies inside of a whiteout");
	if (whiteouts && str_after(leaf, WHITEOUT))
		return hide_entry(u, leaf, err);
	return add_entry(u, err);
}

/* The name of the entry; one that is not valid in any charset has none. */
static const char *entry_name(struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);

	return name ? name : archive_entry_pathname_utf8(entry);
}

static int unpack_one(struct unpack *u, bool whiteouts, struct err *err)
{
	const char *name = entry_name(u->entry);
	char what[QUOTE_SIZE + 16];

	if (!name)
		name = "";
	int r = budget_take_entry(u->budget, err);
	if (r == 0)
		r = tree_clean_path(name, u->path, err);
	if (r == 0)
		r = apply_entry(u, whiteouts, err);
	if (r == 0)
		return 0;
	(void)snprintf(what, sizeof(what), "entry %s", quote(name).text);
	return err_wrap(err, r, what);
}

static int unpack_all(struct unpack *u, bool whiteouts, struct err *err)
{
	for (;;) {
		int r = tarball_next(u->stream, &u->entry, err);
		if (r <= 0)
			return r;
		r = unpack_one(u, whiteouts, err);
		if (r < 0)
			return r;
	}
}

static int check_digest(const char *is, const char *should, const char *what, struct err *err)
{
	if (!*should || streq(is, should))
		return 0;
	return err_set(err, -EBADMSG, "%s is damaged: its digest is sha256:%.12s..., not %.12s...",
		what, is, should);
}

int layer_apply(struct tree *tree, int fd, const struct layer_digests *digests,
	struct budget *budget, struct err *err)
{
	CLEANUP(tarball_freep) struct tarball *stream = NULL;
	struct layer_digests are;

	int r = tarball_open(fd, budget, &stream, err);
	if (r < 0)
		return r;
	struct unpack u = { .tree = tree, .stream = stream, .budget = budget };
	tree_begin_layer(tree);
	r = unpack_all(&u, true, err);
	if (r == 0)
		r = tarball_end(stream, are.blob, are.plain, err);
	if (r == 0)
		r = check_digest(are.blob, digests->blob, "the layer", err);
	if (r == 0)
		r = check_digest(are.plain, digests->plain, "the uncompressed layer", err);
	return r;
}

int layer_unpack_plain(struct tree *tree, int fd, struct budget *budget, struct err *err)
{
	CLEANUP(tarball_freep) struct tarball *stream = NULL;

	int r = tarball_open(fd, budget, &stream, err);
	if (r < 0)
		return r;
	struct unpack u = { .tree = tree, .stream = stream, .budget = budget };
	return unpack_all(&u, false, err);
}
