#include "box/bind.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "lib/scratch.h"
#include "lib/stage.h"
#include "lib/test.h"

static bool is_protected(int dir_fd, const char *path)
{
	const unsigned long wanted = ST_RDONLY | ST_NOSUID | ST_NODEV;
	struct statvfs st;
	AUTO_FD fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && fstatvfs(fd, &st) == 0 && (st.f_flag & wanted) == wanted;
}

static void show_both_kinds(void *ctx)
{
	const struct scratch *d = ctx;
	struct stage s = { 0 };
	char from[128];

	stage_mounts(&s);
	AUTO_FD dir = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(from, sizeof(from), "%s/from", d->path);
	CHILD_CHECK(bind_read_only(from, dir, "to", NULL) == 0);
	CHILD_CHECK(is_protected(dir, "to") && scratch_holds(dir, "to/f", "text"));
	CHILD_CHECK(openat(dir, "to/f", O_WRONLY | O_CLOEXEC) < 0 && errno == EROFS);
	(void)snprintf(from, sizeof(from), "%s/from/f", d->path);
	CHILD_CHECK(bind_read_only(from, dir, "file", NULL) == 0);
	CHILD_CHECK(is_protected(dir, "file") && scratch_holds(dir, "file", "text"));
	CHILD_CHECK(!is_protected(dir, "from")); /* the original is as it was */
}

TEST(what_is_bound_is_read_only_and_gives_no_rights)
{
	SCRATCH(d);

	assert_int_equal(mkdirat(d.fd, "from", 0755), 0);
	assert_int_equal(mkdirat(d.fd, "to", 0755), 0);
	AUTO_FD from = openat(d.fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(from, "f", "text");
	scratch_write(d.fd, "file", "");
	IN_CHILD(show_both_kinds, &d);
}

static void refuse(void *ctx)
{
	const struct scratch *d = ctx;
	struct stage s = { 0 };
	struct err err = { 0 };
	int tree = -1;

	stage_mounts(&s);
	size_t n_before = scratch_count_fds();
	CHILD_CHECK(bind_clone(d->fd, "nothing", BIND_READ_ONLY, &tree, &err) == -ENOENT);
	CHILD_CHECK(strstr(err.text, "nothing") && tree == -1);
	CHILD_CHECK(bind_read_only(d->path, d->fd, "nowhere", &err) == -ENOENT);
	CHILD_CHECK(strstr(err.text, "mount on /nowhere"));
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(what_can_not_be_bound_is_named)
{
	SCRATCH(d);

	IN_CHILD(refuse, &d);
}

TESTS(UNIT(what_is_bound_is_read_only_and_gives_no_rights), UNIT(what_can_not_be_bound_is_named))
