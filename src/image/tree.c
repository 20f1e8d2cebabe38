#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/str.h"

#define DIR_MODE     0755
#define PARENT_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)

/* Nothing but plain names: for the last word of a path, and the usual parents. */
#define RESOLVE_PLAIN (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
/* As after a chroot: for parents that turn out to be links. */
#define RESOLVE_ROOTED (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

static int open_beneath(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = (uint64_t)flags, .mode = mode, .resolve = resolve };

	/* EAGAIN means that a rename raced with the lookup of "..". */
	for (int tries = 0; tries < 16; tries++) {
		long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			return (int)fd;
	}
	return -1;
}

void tree_init(struct tree *t, int root_fd)
{
	*t = (struct tree){ .root_fd = root_fd };
}

void tree_fini(struct tree *t)
{
	free(t->fresh);
	*t = (struct tree){ .root_fd = -1 };
}

void tree_begin_layer(struct tree *t)
{
	free(t->fresh);
	t->fresh = NULL;
	t->n_fresh = 0;
	t->fresh_size = 0;
}

static uint64_t hash_name(int parent_fd, const char *name)
{
	struct stat st;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	if (fstat(parent_fd, &st) == 0)
		h ^= (uint64_t)st.st_ino * UINT64_C(0x9e3779b97f4a7c15);
	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		h = (h ^ *p) * UINT64_C(0x100000001b3);
	h ^= h >> 29;
	return h ? h : 1;
}

static size_t find_slot(const uint64_t *slots, size_t size, uint64_t hash)
{
	size_t i = hash & (size - 1);

	while (slots[i] && slots[i] != hash)
		i = (i + 1) & (size - 1);
	return i;
}

static int grow_fresh(struct tree *t)
{
	size_t size = t->fresh_size ? t->fresh_size * 2 : 1024;
	uint64_t *slots = calloc(size, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->fresh_size; i++) {
		if (t->fresh[i])
			slots[find_slot(slots, size, t->fresh[i])] = t->fresh[i];
	}
	free(t->fresh);
	t->fresh = slots;
	t->fresh_size = size;
	return 0;
}

static int mark_fresh(struct tree *t, int parent_fd, const char *name, struct err *err)
{
	uint64_t hash = hash_name(parent_fd, name);

	if (t->n_fresh * 2 >= t->fresh_size && grow_fresh(t) < 0)
		return err_set(err, -ENOMEM, "no memory for the names of a layer");
	size_t i = find_slot(t->fresh, t->fresh_size, hash);
	t->n_fresh += t->fresh[i] == 0;
	t->fresh[i] = hash;
	return 0;
}

static bool is_fresh(const struct tree *t, int parent_fd, const char *name)
{
	uint64_t hash = hash_name(parent_fd, name);

	return t->fresh_size && t->fresh[find_slot(t->fresh, t->fresh_size, hash)] == hash;
}

/* Copy one word of a path behind the others. */
static int append_word(char *clean, size_t *used, const char *word, size_t n)
{
	if (n == 2 && strncmp(word, "..", 2) == 0)
		return -EINVAL;
	if (n == 1 && word[0] == '.')
		return 0;
	if (n > TREE_NAME_MAX || *used + n + 2 > TREE_PATH_MAX)
		return -ENAMETOOLONG;
	if (*used)
		clean[(*used)++] = '/';
	memcpy(clean + *used, word, n);
	*used += n;
	return 1;
}

int tree_clean_path(const char *raw, char clean[TREE_PATH_MAX], struct err *err)
{
	size_t used = 0;
	unsigned depth = 0;

	if (raw[0] == '\0')
		return err_set(err, -EINVAL, "it has no name");
	if (raw[0] == '/')
		return err_set(err, -EINVAL, "the path is absolute");
	for (const char *p = raw; *p; p += strspn(p, "/")) {
		size_t n = strcspn(p, "/");
		int r = append_word(clean, &used, p, n);

		if (r == -EINVAL)
			return err_set(err, r, "the path holds '..'");
		if (r < 0)
			return err_set(err, r, "the path or a name in it is too long");
		depth += (unsigned)r;
		p += n;
	}
	if (depth > TREE_DEPTH_MAX)
		return err_set(
			err, -ENAMETOOLONG, "it lies deeper than %u directories", TREE_DEPTH_MAX);
	clean[used] = '\0';
	return 0;
}

/* Links can make a short path mean a deep place. Deeper than this could not be
 * removed again, so count the steps up to the root. */
static int check_depth(const struct tree *t, int dir_fd)
{
	struct stat root;
	struct stat st;
	AUTO_FD fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0 || fstat(t->root_fd, &root) < 0)
		return -errno;
	for (unsigned depth = 0; depth < TREE_DEPTH_MAX; depth++) {
		if (fstat(fd, &st) < 0)
			return -errno;
		if (st.st_ino == root.st_ino && st.st_dev == root.st_dev)
			return 0;
		int up = openat(fd, "..", PARENT_FLAGS | O_NOFOLLOW);
		if (up < 0)
			return -errno;
		(void)close(fd);
		fd = up;
	}
	return -ENAMETOOLONG;
}

/* The directory `path` inside of the root, or a negative errno. */
static int open_dir(const struct tree *t, const char *path)
{
	const char *name = *path ? path : ".";
	int fd = open_beneath(t->root_fd, name, PARENT_FLAGS, 0, RESOLVE_PLAIN);

	if (fd >= 0)
		return fd;
	if (errno != ELOOP) /* that is a link on the way */
		return -errno;
	AUTO_FD found = open_beneath(t->root_fd, name, PARENT_FLAGS, 0, RESOLVE_ROOTED);
	if (found < 0)
		return -errno;
	int r = check_depth(t, found);
	return r < 0 ? r : take_fd(&found);
}

/* The directory `path`, made below `parent_fd` when it is missing. */
static int open_or_make_dir(const struct tree *t, int parent_fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int fd = open_dir(t, path);

	if (fd != -ENOENT)
		return fd;
	/* A link to nothing is there and yet not found: EEXIST. */
	if (mkdirat(parent_fd, name, DIR_MODE) < 0 || fchmodat(parent_fd, name, DIR_MODE, 0) < 0)
		return -errno;
	return open_dir(t, path);
}

static int make_dirs(const struct tree *t, char *path)
{
	AUTO_FD fd = open_dir(t, "");
	size_t n = 0;

	if (fd < 0)
		return fd;
	do {
		n += strcspn(path + n, "/");
		char cut = path[n];
		path[n] = '\0';
		int next = open_or_make_dir(t, fd, path);
		path[n] = cut;
		close_fdp(&fd);
		fd = next;
	} while (fd >= 0 && path[n++]);
	return fd < 0 ? fd : take_fd(&fd);
}

static int refuse_parent(int code, struct err *err)
{
	static const struct {
		int code;
		const char *why;
	} reasons[] = {
		{ -ENOENT, "its directory does not exist" },
		{ -EEXIST, "its directory is a link to nothing" },
		{ -ENOTDIR, "its directory is something else" },
		{ -ELOOP, "the links to its directory go in circles" },
		{ -ENAMETOOLONG, "its directory lies too deep" },
		{ -ENOSYS, "the kernel has no openat2, Linux 5.6 is needed" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (reasons[i].code == code)
			return err_set(err, code, "%s", reasons[i].why);
	}
	return err_set(err, code, "its directory: %s", strerror(-code));
}

/* Open the directory that holds `path`. `ret_leaf` is the last word, within it. */
static int open_parent(
	const struct tree *t, const char *path, bool make, int *ret_fd, const char **ret_leaf)
{
	char dir[TREE_PATH_MAX] = "";
	const char *slash = strrchr(path, '/');

	if (slash)
		memcpy(dir, path, (size_t)(slash - path));
	int fd = open_dir(t, dir);
	if (fd == -ENOENT && make)
		fd = make_dirs(t, dir);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	*ret_leaf = slash ? slash + 1 : path;
	return 0;
}

/* Open the parent for something new and take away what stands in its place. */
static int make_room(
	struct tree *t, const char *path, int *ret_fd, const char **ret_leaf, struct err *err)
{
	AUTO_FD fd = -1;
	const char *leaf = "";

	if (!*path)
		return err_set(err, -EINVAL, "only a directory can be the root");
	int r = open_parent(t, path, true, &fd, &leaf);
	if (r < 0)
		return refuse_parent(r, err);
	r = fd_remove_tree(fd, leaf);
	if (r < 0)
		return err_set(err, r, "replace what was there: %s", strerror(-r));
	r = mark_fresh(t, fd, leaf, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	*ret_leaf = leaf;
	return 0;
}

static bool is_dir(int parent_fd, const char *leaf)
{
	struct stat st;

	return fstatat(parent_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int tree_add_dir(struct tree *t, const char *path, struct err *err)
{
	AUTO_FD fd = -1;
	const char *leaf = "";

	if (!*path)
		return 0; /* the root is there, and its mode is ours */
	int r = open_parent(t, path, true, &fd, &leaf);
	if (r < 0)
		return refuse_parent(r, err);
	if (is_dir(fd, leaf))
		return mark_fresh(t, fd, leaf, err);
	close_fdp(&fd);
	r = make_room(t, path, &fd, &leaf, err);
	if (r < 0)
		return r;
	if (mkdirat(fd, leaf, DIR_MODE) < 0 || fchmodat(fd, leaf, DIR_MODE, 0) < 0)
		return err_errno(err, "mkdir");
	return 0;
}

int tree_add_symlink(struct tree *t, const char *path, const char *target, struct err *err)
{
	AUTO_FD fd = -1;
	const char *leaf = "";

	if (!*target || strlen(target) >= TREE_PATH_MAX)
		return err_set(err, -EINVAL, "its target is empty or too long");
	int r = make_room(t, path, &fd, &leaf, err);
	if (r < 0)
		return r;
	if (symlinkat(target, fd, leaf) < 0)
		return err_errno(err, "symlink");
	return 0;
}

/* Open the directory of a hard link's target and check that it can be linked. */
static int open_target(const struct tree *t, const char *target, int *ret_fd, const char **ret_leaf,
	struct err *err)
{
	AUTO_FD fd = -1;
	const char *leaf = "";
	struct stat st;

	if (!*target || open_parent(t, target, false, &fd, &leaf) < 0 ||
		fstatat(fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, -ENOENT, "a hard link to %s, which does not exist",
			quote(target).text);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return err_set(
			err, -EINVAL, "a hard link to %s, which is not a file", quote(target).text);
	*ret_fd = take_fd(&fd);
	*ret_leaf = leaf;
	return 0;
}

static bool is_same(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat sa;
	struct stat sb;

	return fstatat(a_fd, a, &sa, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(b_fd, b, &sb, AT_SYMLINK_NOFOLLOW) == 0 && sa.st_ino == sb.st_ino &&
	       sa.st_dev == sb.st_dev;
}

int tree_add_link(struct tree *t, const char *path, const char *target, struct err *err)
{
	AUTO_FD from_fd = -1;
	AUTO_FD to_fd = -1;
	const char *from = "";
	const char *to = "";

	int r = open_target(t, target, &from_fd, &from, err);
	if (r < 0)
		return r;
	/* Making room for a link to itself would remove the file. */
	if (*path && open_parent(t, path, false, &to_fd, &to) == 0 &&
		is_same(from_fd, from, to_fd, to))
		return mark_fresh(t, to_fd, to, err);
	close_fdp(&to_fd);
	r = make_room(t, path, &to_fd, &to, err);
	if (r < 0)
		return r;
	if (linkat(from_fd, from, to_fd, to, 0) < 0)
		return err_errno(err, "hard link to %s", quote(target).text);
	return 0;
}

int tree_add_file(struct tree *t, const char *path, int *ret_fd, struct err *err)
{
	AUTO_FD parent_fd = -1;
	const char *leaf = "";

	int r = make_room(t, path, &parent_fd, &leaf, err);
	if (r < 0)
		return r;
	int fd = open_beneath(parent_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		0600, RESOLVE_PLAIN);
	if (fd < 0)
		return err_errno(err, "create");
	*ret_fd = fd;
	return 0;
}

int tree_seal_file(int fd, mode_t mode, struct err *err)
{
	/* Set-id bits go: a layer decides about content, never about privilege. */
	mode_t sealed = 0444 | (mode & 0200) | (mode & 0111 ? 0111 : 0);

	return fchmod(fd, sealed) < 0 ? err_errno(err, "chmod") : 0;
}

static void close_dirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

static int hide_children(const struct tree *t, int dir_fd, unsigned depth);

/* Remove `name` unless this layer made it; of a directory, remove the old part. */
static int hide_entry(const struct tree *t, int dir_fd, const char *name, unsigned depth)
{
	bool fresh = is_fresh(t, dir_fd, name);

	if (!is_dir(dir_fd, name)) {
		if (fresh || unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
			return 0;
		return -errno;
	}
	AUTO_FD fd =
		open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_PLAIN);
	if (fd < 0)
		return -errno;
	int r = hide_children(t, fd, depth + 1);
	if (r < 0)
		return r;
	/* What is new below keeps an old directory alive. */
	if (!fresh && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY)
		return -errno;
	return 0;
}

static int hide_children(const struct tree *t, int dir_fd, unsigned depth)
{
	const struct dirent *entry;

	if (depth > 2 * TREE_DEPTH_MAX)
		return -ELOOP;
	AUTO_FD copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy < 0)
		return -errno;
	CLEANUP(close_dirp) DIR *dir = fdopendir(copy);
	if (!dir)
		return -errno;
	(void)take_fd(&copy);
	while ((entry = readdir(dir))) {
		if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
			continue;
		int r = hide_entry(t, dir_fd, entry->d_name, depth);
		if (r < 0)
			return r;
	}
	return 0;
}

int tree_hide(struct tree *t, const char *path, struct err *err)
{
	AUTO_FD fd = -1;
	const char *leaf = "";

	int r = open_parent(t, path, false, &fd, &leaf);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return refuse_parent(r, err);
	r = hide_entry(t, fd, leaf, 0);
	return r < 0 ? err_set(err, r, "hide: %s", strerror(-r)) : 0;
}

int tree_hide_below(struct tree *t, const char *path, struct err *err)
{
	AUTO_FD fd = open_dir(t, path);

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0)
		return refuse_parent(fd, err);
	int r = hide_children(t, fd, 0);
	return r < 0 ? err_set(err, r, "hide all below: %s", strerror(-r)) : 0;
}

int tree_open_file(int dir_fd, const char *path, int *ret_fd, struct err *err)
{
	struct stat st;
	/* Not blocking, since opening a FIFO would wait for a writer. */
	AUTO_FD fd = open_beneath(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0,
		RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);

	if (fd < 0 && errno == EXDEV)
		return err_set(err, -EXDEV, "%s leads out of the source", quote(path).text);
	if (fd < 0)
		return err_errno(err, "%s", quote(path).text);
	if (fstat(fd, &st) < 0)
		return err_errno(err, "stat %s", quote(path).text);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file", quote(path).text);
	*ret_fd = take_fd(&fd);
	return 0;
}
