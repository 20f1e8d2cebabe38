#include "image/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "image/tree.h"

/* Larger account files are not read to be extended. */
#define ACCOUNTS_MAX (1u << 20)

static const char *const dirs[] = {
	"proc",
	"sys",
	"dev",
	"tmp",
	"run",
	"workspace",
	"mnt",
	"mnt/data",
	"etc",
};

/* Files that exist afterwards. `line` is put in front of what the image has, since
 * the first line that fits an id is the one that counts; `rest` is for an image
 * that has none. */
static const struct file {
	const char *path;
	const char *line;
	const char *rest;
} files[] = {
	{ "etc/passwd", "box:x:1000:1000:box:/workspace:/bin/sh\n",
		"root:x:0:0:root:/root:/bin/sh\n"
		"nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n" },
	{ "etc/group", "box:x:1000:\n", "root:x:0:\nnogroup:x:65534:\n" },
	{ "etc/hosts", "", "" },
	{ "etc/hostname", "", "" },
	{ "etc/resolv.conf", "", "" },
};

/* What stands at the very place, links not followed. */
static mode_t type_at(const struct tree *tree, const char *path)
{
	struct stat st;

	if (fstatat(tree->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return st.st_mode & S_IFMT;
}

static int write_file(struct tree *tree, const struct file *file, const char *rest, struct err *err)
{
	AUTO_FD fd = -1;

	int r = tree_add_file(tree, file->path, &fd, err);
	if (r < 0)
		return r;
	r = fd_write_full(fd, file->line, strlen(file->line));
	if (r == 0)
		r = fd_write_full(fd, rest, strlen(rest));
	if (r < 0)
		return err_set(err, r, "write: %s", strerror(-r));
	return tree_seal_file(fd, 0644, err);
}

static int make_file(struct tree *tree, const struct file *file, struct err *err)
{
	AUTO_FD fd = -1;
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	/* The directory is a real one by now, so this can not lead anywhere else. */
	if (type_at(tree, file->path) != S_IFREG)
		return write_file(tree, file, file->rest, err);
	int r = tree_open_file(tree->root_fd, file->path, &fd, err);
	if (r < 0)
		return r;
	r = fd_read_all(fd, ACCOUNTS_MAX, &text, &size);
	if (!*file->line && r == -EFBIG)
		return 0;
	if (r < 0)
		return err_set(err, r, "read: %s", strerror(-r));
	return str_after(text, file->line) ? 0 : write_file(tree, file, text, err);
}

static int make_dir(struct tree *tree, const char *path, struct err *err)
{
	/* Its parent is a real directory by its place in the table. */
	return type_at(tree, path) == S_IFDIR ? 0 : tree_add_dir(tree, path, err);
}

int skeleton_make(struct tree *tree, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		int r = make_dir(tree, dirs[i], err);
		if (r < 0)
			return err_wrap(err, r, dirs[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r = make_file(tree, &files[i], err);
		if (r < 0)
			return err_wrap(err, r, files[i].path);
	}
	return 0;
}
