#include "box/commit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "ipc/pack.h"

/* Guests can nest deeper than what was unpacked; what is unpacked can not. */
#define DEPTH_MAX (PACK_DEPTH_MAX + 1)

/* What the names of directories beside the files begin with. One change has the same digits for
 * each of its own. */
#define INCOMING ".incoming-" /* new files, perhaps not all of them yet */
#define OUTGOING ".outgoing-" /* old ones that are put aside, perhaps not all of them yet */
#define ARRIVING ".arriving-" /* new ones, since all old ones are aside: they are what counts */

/* A guest that gets in the way every time wants nothing to be done. */
#define TRIES 8

static const char *digits_of(const char *name, const char *prefix)
{
	const char *digits = str_after(name, prefix);

	return digits && str_is_hex(digits, COMMIT_DIGITS) ? digits : NULL;
}

/* The digits of any name of ours, or NULL. */
static const char *find_digits(const char *name)
{
	static const char *const prefixes[] = { INCOMING, OUTGOING, ARRIVING };
	const char *digits = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(prefixes) && !digits; i++)
		digits = digits_of(name, prefixes[i]);
	return digits;
}

bool commit_is_name(const char *name)
{
	return find_digits(name) != NULL;
}

static void name_for(const char *prefix, const char *digits, char ret[COMMIT_NAME_SIZE])
{
	(void)snprintf(ret, COMMIT_NAME_SIZE, "%s%.*s", prefix, (int)COMMIT_DIGITS, digits);
}

static int open_dir(int fd, const char *name)
{
	return openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int make_dir(int dir_fd, const char *name, int *ret_fd, struct err *err)
{
	if (mkdirat(dir_fd, name, 0700) < 0)
		return err_errno(err, "make a directory in the workspace");
	int fd = open_dir(dir_fd, name);
	if (fd < 0)
		return err_errno(err, "open the new directory");
	*ret_fd = fd;
	return 0;
}

int commit_begin(int dir_fd, const char *digits, char ret_name[COMMIT_NAME_SIZE], int *ret_fd,
	struct err *err)
{
	int r = -EEXIST;

	name_for(INCOMING, digits, ret_name);
	for (int i = 0; i < TRIES && (r == -EEXIST || r == -ENOENT); i++) {
		commit_abort(dir_fd, ret_name); /* of somebody who was killed */
		r = make_dir(dir_fd, ret_name, ret_fd, err);
	}
	return r;
}

void commit_abort(int dir_fd, const char *name)
{
	(void)fd_remove_tree(dir_fd, name);
}

static const struct dirent *next_entry(DIR *dir)
{
	const struct dirent *e;

	do {
		e = readdir(dir);
	} while (e && (streq(e->d_name, ".") || streq(e->d_name, "..")));
	return e;
}

/* What moving does to the workspace, so far as it can be known before. */
struct effect {
	uint64_t freed; /* bytes of files that are replaced */
};

static int look_at(
	int from, int to, const char *name, struct effect *effect, int depth, struct err *err);

static int look_below(
	int from, int to, const char *name, struct effect *effect, int depth, struct err *err)
{
	AUTO_FD new_dir = open_dir(from, name);
	AUTO_FD old_dir = open_dir(to, name);
	CLEANUP(fd_close_dirp) DIR *dir = new_dir < 0 ? NULL : fd_open_dir(new_dir);
	const struct dirent *e;
	int r = 0;

	if (!dir || old_dir < 0)
		return err_errno(err, "open the directory '%.100s'", name);
	while (r == 0 && (e = next_entry(dir)))
		r = look_at(new_dir, old_dir, e->d_name, effect, depth + 1, err);
	return r;
}

static int look_at(
	int from, int to, const char *name, struct effect *effect, int depth, struct err *err)
{
	struct stat new;
	struct stat old;

	if (fstatat(from, name, &new, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "look at '%.100s'", name);
	if (fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "look at the old '%.100s'", name);
	if (S_ISDIR(new.st_mode) != S_ISDIR(old.st_mode))
		return err_set(err, -EEXIST, "'%.100s' is a %s already", name,
			S_ISDIR(old.st_mode) ? "directory" : "file");
	if (!S_ISDIR(new.st_mode)) {
		if (old.st_nlink == 1) /* or its bytes stay under another name */
			effect->freed += (uint64_t)old.st_blocks * 512;
		return 0;
	}
	if (depth >= (int)DEPTH_MAX)
		return err_set(err, -ELOOP, "'%.100s' is nested too deep", name);
	return look_below(from, to, name, effect, depth, err);
}

static int move(int from, int to, const char *name, struct err *err);

static int merge(int from, int to, const char *name, struct err *err)
{
	AUTO_FD new_dir = open_dir(from, name);
	AUTO_FD old_dir = open_dir(to, name);
	CLEANUP(fd_close_dirp) DIR *dir = new_dir < 0 ? NULL : fd_open_dir(new_dir);
	const struct dirent *e;
	int r = 0;

	if (!dir || old_dir < 0)
		return err_errno(err, "open the directory '%.100s'", name);
	while (r == 0 && (e = next_entry(dir)))
		r = move(new_dir, old_dir, e->d_name, err);
	return r;
}

static int move(int from, int to, const char *name, struct err *err)
{
	struct stat old;
	bool merges = fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(old.st_mode);

	if (merges)
		return merge(from, to, name, err);
	return renameat(from, name, to, name) < 0 ? err_errno(err, "move '%.100s'", name) : 0;
}

/* A directory has to be open to its owner to get another parent; nobody keeps one like that on
 * purpose, so it stays open. */
static int move_over(int from, int to, const char *name)
{
	if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EACCES)
		return -errno;
	AUTO_FD opened = fd_unshut(from, name, 0);
	if (opened < 0)
		return errno == ENOTDIR ? -EACCES : -errno;
	return renameat2(from, name, to, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

static bool is_of(const char *name, const char *digits)
{
	const char *own = find_digits(name);

	return digits && own && streq(own, digits);
}

/* All that is in `from`, but for the directories with these digits (NULL: none), to `to`, which
 * has none of it. */
static int move_all(int from, int to, const char *digits, struct err *err)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(from);
	const struct dirent *e;

	if (!dir)
		return err_errno(err, "open the workspace");
	while ((e = next_entry(dir))) {
		if (is_of(e->d_name, digits))
			continue;
		int r = move_over(from, to, e->d_name);
		if (r < 0)
			return err_set(err, r, "move '%.100s': %s", e->d_name, strerror(-r));
	}
	return 0;
}

/* --- the new files in the place of all others ---
 *
 * The others are put aside one by one, then the new ones come one by one. Whoever does that may be
 * killed at any time, and the names tell the next one how far it was: while the new ones are
 * INCOMING, all goes back; once they are ARRIVING, all goes on. */

struct swap {
	int dir_fd;
	int old_fd;
	int new_fd;
	const char *digits;
	char incoming[COMMIT_NAME_SIZE];
	char outgoing[COMMIT_NAME_SIZE];
	char arriving[COMMIT_NAME_SIZE];
};

static void swap_init(struct swap *s, int dir_fd, const char *digits)
{
	*s = (struct swap){ .dir_fd = dir_fd, .old_fd = -1, .new_fd = -1, .digits = digits };
	name_for(INCOMING, digits, s->incoming);
	name_for(OUTGOING, digits, s->outgoing);
	name_for(ARRIVING, digits, s->arriving);
}

static void swap_fini(struct swap *s)
{
	close_fdp(&s->old_fd);
	close_fdp(&s->new_fd);
}

/* What can not be moved back is left where it is, and not deleted. */
static int go_back(const struct swap *s, struct err *err)
{
	int r = move_all(s->old_fd, s->dir_fd, NULL, err);

	if (r < 0)
		return r;
	commit_abort(s->dir_fd, s->incoming);
	commit_abort(s->dir_fd, s->outgoing);
	return 0;
}

/* The old ones go before the last sign that they are not what counts. */
static int go_on(const struct swap *s, struct err *err)
{
	int r = move_all(s->new_fd, s->dir_fd, NULL, err);

	if (r == 0 && fd_remove_tree(s->dir_fd, s->outgoing) == 0)
		commit_abort(s->dir_fd, s->arriving);
	return r;
}

static int put_aside(const struct swap *s, struct err *err)
{
	int r = move_all(s->dir_fd, s->old_fd, s->digits, err);

	if (r == 0 && renameat(s->dir_fd, s->incoming, s->dir_fd, s->arriving) < 0)
		r = err_errno(err, "rename the new files");
	return r;
}

static int swap(int dir_fd, const char *name, struct err *err)
{
	CLEANUP(swap_fini) struct swap s;

	swap_init(&s, dir_fd, find_digits(name));
	s.new_fd = open_dir(dir_fd, name);
	if (s.new_fd < 0)
		return err_errno(err, "open the new files");
	int r = make_dir(dir_fd, s.outgoing, &s.old_fd, err);
	if (r < 0)
		return r;
	r = put_aside(&s, err);
	if (r < 0) {
		(void)go_back(&s, NULL);
		return r;
	}
	r = go_on(&s, err);
	if (r < 0 && move_all(dir_fd, s.new_fd, s.digits, NULL) == 0 &&
		renameat(dir_fd, s.arriving, dir_fd, s.incoming) == 0)
		(void)go_back(&s, NULL);
	return r;
}

/* -1 when there is no such directory, which is all right. */
static int open_if_there(int dir_fd, const char *name, int *ret_fd, struct err *err)
{
	*ret_fd = open_dir(dir_fd, name);
	if (*ret_fd >= 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	return err_errno(err, "open the directory '%s'", name);
}

int commit_recover(int dir_fd, const char *digits, struct err *err)
{
	CLEANUP(swap_fini) struct swap s;

	swap_init(&s, dir_fd, digits);
	int r = open_if_there(dir_fd, s.outgoing, &s.old_fd, err);
	if (r == 0)
		r = open_if_there(dir_fd, s.arriving, &s.new_fd, err);
	if (r < 0)
		return r;
	if (s.new_fd >= 0)
		return go_on(&s, err);
	if (s.old_fd >= 0)
		return go_back(&s, err);
	commit_abort(dir_fd, s.incoming);
	return 0;
}

static int check_size(int dir_fd, uint64_t freed, uint64_t max_bytes, struct err *err)
{
	struct statfs s;

	if (fstatfs(dir_fd, &s) < 0)
		return err_errno(err, "ask for the size of the workspace");
	uint64_t used = (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
	if (used - (freed < used ? freed : used) > max_bytes)
		return err_set(err, -EDQUOT, "the workspace would hold more than %llu bytes",
			(unsigned long long)max_bytes);
	return 0;
}

/* How many bytes the new files take. */
static uint64_t measure(int fd, int depth)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(fd);
	const struct dirent *e;
	uint64_t n = 0;

	while (dir && depth < (int)DEPTH_MAX + 1 && (e = next_entry(dir))) {
		struct stat st;

		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			/* A part for each of its names, which are all in here. */
			n += (uint64_t)st.st_blocks * 512 / st.st_nlink;
			continue;
		}
		n += (uint64_t)st.st_blocks * 512;
		AUTO_FD below = open_dir(fd, e->d_name);
		n += below < 0 ? 0 : measure(below, depth + 1);
	}
	return n;
}

static int check(int dir_fd, int new_fd, bool clears, uint64_t max_bytes, struct err *err)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(new_fd);
	struct effect effect = { 0 };
	const struct dirent *e;
	int r = 0;

	if (!dir)
		return err_errno(err, "open the new files");
	if (clears && measure(new_fd, 0) > max_bytes)
		return err_set(err, -EDQUOT, "the files are more than %llu bytes",
			(unsigned long long)max_bytes);
	while (!clears && r == 0 && (e = next_entry(dir)))
		r = look_at(new_fd, dir_fd, e->d_name, &effect, 0, err);
	return r < 0 || clears ? r : check_size(dir_fd, effect.freed, max_bytes, err);
}

int commit_end(int dir_fd, const char *name, bool clears, uint64_t max_bytes, struct err *err)
{
	AUTO_FD new_fd = open_dir(dir_fd, name);
	CLEANUP(fd_close_dirp) DIR *dir = new_fd < 0 ? NULL : fd_open_dir(new_fd);
	const struct dirent *e;

	if (!dir)
		return err_errno(err, "open the new files");
	int r = check(dir_fd, new_fd, clears, max_bytes, err);
	if (r == 0 && clears)
		r = swap(dir_fd, name, err);
	while (r == 0 && !clears && (e = next_entry(dir)))
		r = move(new_fd, dir_fd, e->d_name, err);
	commit_abort(dir_fd, name); /* what is left are directories that were merged */
	return r;
}
