#include "box/list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/commit.h"
#include "box/digests.h"
#include "ipc/cur.h"

#define WORKSPACE "/workspace"

/* How many names are read between two looks at the clock. */
#define NAMES_A_LOOK 64u

/* Directories yet to be looked into, in the order they were found. */
struct queue {
	char *at[INVENTORY_ENTRIES_MAX];
	size_t n;
	size_t n_bytes;
};

struct walk {
	int dir_fd; /* the top */
	struct inventory *listing;
	bool is_full; /* there was something that did not fit */
	size_t n_old; /* entries at its start then, among which some may be unchanged */
	struct queue queue;
	const struct list_mark *since; /* may be NULL */
	struct list_mark *marks;       /* to be filled; may be NULL */
	uint64_t until_ns;
	unsigned n_names;
};

static uint64_t ns_of(struct timespec t)
{
	return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static enum inventory_kind kind_of(const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return INVENTORY_FILE;
	if (S_ISDIR(st->st_mode))
		return INVENTORY_DIR;
	return S_ISLNK(st->st_mode) ? INVENTORY_LINK : INVENTORY_OTHER;
}

static bool is_marked(const struct list_mark *mark, uint64_t inode, uint64_t changed_ns)
{
	for (size_t i = 0; i < mark->n; i++) {
		if (mark->recent[i].inode == inode)
			return mark->recent[i].changed_ns == changed_ns;
	}
	return false;
}

/* By the time of its last change of any kind, which a guest can not set. */
static bool is_changed(const struct list_mark *mark, const struct stat *st)
{
	uint64_t at = ns_of(st->st_ctim);

	return mark && at >= mark->at_ns && !is_marked(mark, st->st_ino, at);
}

static void note_mark(struct list_mark *mark, const struct stat *st)
{
	uint64_t at = ns_of(st->st_ctim);

	if (at < mark->at_ns || mark->n == ARRAY_SIZE(mark->recent))
		return;
	mark->recent[mark->n].inode = st->st_ino;
	mark->recent[mark->n++].changed_ns = at;
}

static bool is_late(struct walk *w)
{
	if (++w->n_names % NAMES_A_LOOK != 0 || clock_monotonic_ns() < w->until_ns)
		return false;
	inventory_set_partial(w->listing);
	return true;
}

static unsigned depth_of(const char *path)
{
	unsigned n = 1;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

static void enqueue(struct walk *w, const char *path)
{
	struct queue *q = &w->queue;
	size_t size = strlen(path);

	if (depth_of(path) >= LIST_DEPTH_MAX || q->n == ARRAY_SIZE(q->at) ||
		size > INVENTORY_BYTES_MAX - q->n_bytes) {
		inventory_set_partial(w->listing);
		return;
	}
	q->at[q->n++] = xstrdup(path);
	q->n_bytes += size;
}

/* Where there is no room, what was changed takes that of what was not and was found last. */
static void add(struct walk *w, const struct inventory_entry *e)
{
	struct inventory *l = w->listing;

	if (!w->is_full && !inventory_has_room(l, e->path)) {
		w->is_full = true;
		w->n_old = l->n;
	}
	if (w->is_full && !e->is_changed) {
		inventory_leave_out(l, e);
		return;
	}
	while (w->n_old > 0 && !inventory_has_room(l, e->path)) {
		w->n_old--;
		if (!l->at[w->n_old].is_changed)
			inventory_drop(l, w->n_old);
	}
	(void)inventory_add(l, e);
}

/* One name of the directory `prefix`. What went away meanwhile is not there. */
static int visit(struct walk *w, int dir_fd, const char *prefix, const char *leaf)
{
	char path[PACK_NAME_MAX + 1];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", leaf);

	if (is_late(w))
		return -ETIME;
	if (streq(leaf, ".") || streq(leaf, "..") || (!*prefix && commit_is_name(leaf)))
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path) || !pack_name_is_clean(path)) {
		inventory_set_partial(w->listing);
		return 0;
	}
	if (fstatat(dir_fd, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (w->marks)
		note_mark(w->marks, &st);
	struct inventory_entry e = {
		.kind = kind_of(&st),
		.is_changed = is_changed(w->since, &st),
		.size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0,
		.mtime_ns = ns_of(st.st_mtim),
		.path = path,
	};
	add(w, &e);
	if (e.kind == INVENTORY_DIR)
		enqueue(w, path);
	return 0;
}

/* One that the guest has shut, or that went away, is not looked into. */
static int visit_dir(struct walk *w, const char *path)
{
	int fd = *path ? beneath_open(w->dir_fd, path)
		       : openat(w->dir_fd, ".", O_RDONLY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		if (fd != -ENOENT)
			inventory_set_partial(w->listing);
		return 0;
	}
	while (r == 0 && (entry = readdir(dir)))
		r = visit(w, fd, path, entry->d_name);
	(void)closedir(dir);
	return r;
}

static void walk(struct walk *w)
{
	struct queue *q = &w->queue;

	w->until_ns = clock_monotonic_ns() + LIST_MS * UINT64_C(1000000);
	int r = visit_dir(w, "");
	for (size_t i = 0; i < q->n; i++) {
		AUTO_FREE char *path = q->at[i];

		if (r == 0)
			r = visit_dir(w, path);
	}
}

void list_mark(struct list_mark *mark, int dir_fd)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	struct walk w = { .dir_fd = dir_fd, .listing = &l, .marks = mark };

	mark->n = 0;
	mark->at_ns = clock_read_ns(CLOCK_REALTIME_COARSE); /* which file systems use */
	walk(&w);
}

void list_tree(int dir_fd, const struct list_mark *mark, struct inventory *ret)
{
	struct walk w = { .dir_fd = dir_fd, .listing = ret, .since = mark };

	walk(&w);
	inventory_sort(ret);
}

int list_send(int fd, const struct list_mark *mark, bool digests, struct err *err)
{
	CLEANUP(inventory_fini) struct inventory l = { 0 };
	CLEANUP(put_fini) struct put p;
	AUTO_FD dir = open(WORKSPACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	put_init(&p, INVENTORY_SIZE_MAX);
	if (dir < 0)
		return err_errno(err, "open the workspace");
	list_tree(dir, mark, &l);
	if (digests)
		digests_fill(dir, &l);
	inventory_put(&l, &p);
	int r = put_end(&p);
	if (r == 0)
		r = fd_write_full(fd, p.data, p.size);
	return r < 0 ? err_set(err, r, "send the names of files: %s", strerror(-r)) : 0;
}
