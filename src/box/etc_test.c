#include "box/etc.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

#define MTIME_SEC 1000000000

/* Where the host's files are, and below which root they are shown. */
struct world {
	struct scratch *host;
	struct etc etc;
};

static void enter_world(struct world *w, struct scratch *host)
{
	struct stage s = { 0 };
	char root[128];

	stage_mounts(&s);
	CHILD_CHECK(mkdirat(host->fd, "root", 0755) == 0);
	(void)snprintf(root, sizeof(root), "%s/root", host->path);
	*w = (struct world){
		.host = host,
		.etc = { .root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			.left = ETC_TOTAL_MAX,
			.may_copy = true },
	};
	CHILD_CHECK(w->etc.root_fd >= 0);
}

static void show(struct world *w, const char *name)
{
	struct err err = { 0 };
	char from[128];

	(void)snprintf(from, sizeof(from), "%s/%s", w->host->path, name);
	if (etc_show(&w->etc, from, name, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
}

static void make_file(struct world *w, const char *name, size_t size, mode_t mode)
{
	const struct timespec times[] = { { .tv_sec = MTIME_SEC }, { .tv_sec = MTIME_SEC } };
	AUTO_FD fd = openat(w->host->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHILD_CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	CHILD_CHECK(fd_write_full(fd, "text", size < 4 ? size : 4) == 0);
	CHILD_CHECK(fchmod(fd, mode) == 0 && futimens(fd, times) == 0);
}

static struct stat stat_of(int dir_fd, const char *name)
{
	struct stat st;

	CHILD_CHECK(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	return st;
}

/* What is bound is the very file of the host. */
static bool is_bound(const struct world *w, const char *name)
{
	struct stat original = stat_of(w->host->fd, name);
	struct stat shown = stat_of(w->etc.root_fd, name);

	return original.st_ino == shown.st_ino && original.st_dev == shown.st_dev;
}

static void copy(void *ctx)
{
	struct world w;

	enter_world(&w, ctx);
	make_file(&w, "plain", 4, 0644);
	make_file(&w, "odd", 4, 06777);
	make_file(&w, "empty", 0, 0644);
	CHILD_CHECK(symlinkat("plain", w.host->fd, "link") == 0);
	static const struct {
		const char *name;
		const char *text;
		mode_t mode;
	} rows[] = {
		{ "plain", "text", 0444 }, { "odd", "text", 0555 }, { "empty", "", 0444 },
		{ "link", "text", 0444 }, /* what it leads to */
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		show(&w, rows[i].name);
		struct stat st = stat_of(w.etc.root_fd, rows[i].name);
		CHILD_CHECK(!is_bound(&w, rows[i].name));
		CHILD_CHECK(scratch_holds(w.etc.root_fd, rows[i].name, rows[i].text));
		CHILD_CHECK(st.st_mode == (S_IFREG | rows[i].mode));
		CHILD_CHECK(st.st_uid == geteuid() && st.st_gid == getegid());
		CHILD_CHECK(st.st_mtim.tv_sec == MTIME_SEC);
	}
	CHILD_CHECK(w.etc.left == ETC_TOTAL_MAX - 12);
}

TEST(a_plain_file_is_copied_without_the_right_to_write_it)
{
	SCRATCH(d);

	IN_CHILD(copy, &d);
}

static void bind(void *ctx)
{
	struct world w;

	enter_world(&w, ctx);
	make_file(&w, "largest", ETC_COPY_MAX, 0644);
	make_file(&w, "larger", ETC_COPY_MAX + 1, 0644);
	make_file(&w, "half", ETC_COPY_MAX / 2, 0644);
	make_file(&w, "one_too_many", ETC_COPY_MAX / 2 + 1, 0644);
	make_file(&w, "last", ETC_COPY_MAX / 2, 0644);
	static const struct {
		const char *name;
		bool bound;
	} rows[] = {
		{ "largest", false },
		{ "larger", true },
		{ "half", false },
		{ "one_too_many", true },
		{ "last", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		show(&w, rows[i].name);
		CHILD_CHECK(is_bound(&w, rows[i].name) == rows[i].bound);
		CHILD_CHECK(stat_of(w.etc.root_fd, rows[i].name).st_size ==
			    stat_of(w.host->fd, rows[i].name).st_size);
	}
	CHILD_CHECK(w.etc.left == 0);
}

TEST(what_is_too_large_is_bound)
{
	SCRATCH(d);

	IN_CHILD(bind, &d);
}

static void keep_rights(void *ctx)
{
	struct world w;
	struct statvfs st;

	enter_world(&w, ctx);
	make_file(&w, "closed", 4, 0640);
	make_file(&w, "open", 4, 0644);
	CHILD_CHECK(mkdirat(w.host->fd, "dir", 0755) == 0);
	show(&w, "closed");
	show(&w, "dir");
	w.etc.may_copy = false;
	show(&w, "open");
	static const char *const bound[] = { "closed", "dir", "open" };
	for (size_t i = 0; i < ARRAY_SIZE(bound); i++) {
		AUTO_FD fd = openat(w.etc.root_fd, bound[i], O_RDONLY | O_CLOEXEC);
		CHILD_CHECK(is_bound(&w, bound[i]));
		CHILD_CHECK(fd >= 0 && fstatvfs(fd, &st) == 0 && (st.f_flag & ST_RDONLY));
	}
	CHILD_CHECK(stat_of(w.etc.root_fd, "closed").st_mode == (S_IFREG | 0640));
}

TEST(what_must_keep_its_owner_is_bound)
{
	SCRATCH(d);

	IN_CHILD(keep_rights, &d);
}

static void leave_out(void *ctx)
{
	static const char *const names[] = { "missing", "dangling", "fifo", "plain/below" };
	struct world w;

	enter_world(&w, ctx);
	make_file(&w, "plain", 4, 0644);
	CHILD_CHECK(symlinkat("nowhere", w.host->fd, "dangling") == 0);
	CHILD_CHECK(mkfifoat(w.host->fd, "fifo", 0644) == 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		show(&w, names[i]);
		CHILD_CHECK(!scratch_has(w.etc.root_fd, names[i]));
	}
}

TEST(what_is_not_there_or_is_no_file_is_left_out)
{
	SCRATCH(d);

	IN_CHILD(leave_out, &d);
}

static void refuse(void *ctx)
{
	struct world w;
	struct err err = { 0 };

	enter_world(&w, ctx);
	make_file(&w, "plain", 4, 0644);
	show(&w, "plain");
	char from[128];
	(void)snprintf(from, sizeof(from), "%s/plain", w.host->path);
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(etc_show(&w.etc, from, "plain", &err) == -EEXIST);
	CHILD_CHECK(strstr(err.text, "make /plain") != NULL);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(what_can_not_be_made_is_named)
{
	SCRATCH(d);

	IN_CHILD(refuse, &d);
}

/* The real ones, in the root of a real box. */
static void look(void *ctx)
{
	struct stage s = { 0 };
	struct stat before;
	struct stat after;

	stage_host(&s, ctx);
	if (stat("/etc/services", &before) < 0 || (size_t)before.st_size > ETC_COPY_MAX)
		CHILD_SKIP("this host has no /etc/services to look at");
	CHILD_CHECK(setns(s.root->ns_fd, CLONE_NEWNS) == 0);
	CHILD_CHECK(stat("/etc/services", &after) == 0 && after.st_size == before.st_size);
	bool bound = before.st_dev == after.st_dev && before.st_ino == after.st_ino;
	CHILD_CHECK(bound == !s.host.privileged);
	CHILD_CHECK(bound || after.st_uid == 0); /* nobody in any box */
	CHILD_CHECK(open("/etc/services", O_WRONLY | O_CLOEXEC) < 0);
	CHILD_CHECK(chmod("/etc/services", 0666) < 0);
	CHILD_CHECK(bound || errno == EROFS);
}

TEST(the_copies_of_a_box_are_not_its_own)
{
	SCRATCH(d);

	IN_CHILD(look, d.path);
}

TESTS(UNIT(a_plain_file_is_copied_without_the_right_to_write_it), UNIT(what_is_too_large_is_bound),
	UNIT(what_must_keep_its_owner_is_bound), UNIT(what_is_not_there_or_is_no_file_is_left_out),
	UNIT(what_can_not_be_made_is_named), UNIT(the_copies_of_a_box_are_not_its_own))
