#include "image/skeleton.h"

#include "base/err.h"
#include "image/sample.h"
#include "image/tree.h"
#include "lib/test.h"

static mode_t type_at(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_mode & S_IFMT;
}

static void check_all(int fd)
{
	static const char *const dirs[] = { "proc", "dev", "tmp", "workspace", "mnt/data", "etc" };
	static const char *const files[] = { "etc/passwd", "etc/group", "etc/hosts", "etc/hostname",
		"etc/resolv.conf" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		CHECK_EQ(type_at(fd, dirs[i]), S_IFDIR);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		CHECK_EQ(type_at(fd, files[i]), S_IFREG);
	CHECK(strstr(sample_read(fd, "etc/passwd"), "box:x:1000:1000:"));
	CHECK(strstr(sample_read(fd, "etc/group"), "box:x:1000:"));
}

TEST(an_empty_root_gets_all)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	tree_init(&t, d.fd);
	CHECK_EQ(skeleton_make(&t, NULL), 0);
	check_all(d.fd);
	CHECK(strstr(sample_read(d.fd, "etc/passwd"), "root:x:0:0:"));
}

TEST(links_are_replaced_and_not_followed)
{
	static const char *const names[] = { "proc", "dev", "tmp", "workspace", "mnt" };
	SAMPLE_DIR(away);
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_EQ(symlinkat(away.path, d.fd, names[i]), 0);
	CHECK_EQ(mkdirat(d.fd, "etc", 0755), 0);
	CHECK_EQ(symlinkat("/etc/passwd", d.fd, "etc/passwd"), 0);
	CHECK_EQ(mkdirat(d.fd, "etc/hosts", 0755), 0);
	tree_init(&t, d.fd);
	CHECK_EQ(skeleton_make(&t, NULL), 0);
	check_all(d.fd);
	CHECK_EQ(type_at(away.fd, "data"), 0);
}

TEST(accounts_are_kept_and_ours_comes_first)
{
	SAMPLE_DIR(d);
	CLEANUP(tree_fini) struct tree t;

	CHECK_EQ(mkdirat(d.fd, "etc", 0755), 0);
	sample_write(d.fd, "etc/passwd", "node:x:1000:1000::/:/x", 22);
	sample_write(d.fd, "etc/hosts", "1.2.3.4 a", 9);
	tree_init(&t, d.fd);
	CHECK_EQ(skeleton_make(&t, NULL), 0);
	CHECK_EQ(skeleton_make(&t, NULL), 0); /* and only once */
	CHECK_STR(sample_read(d.fd, "etc/passwd"),
		"box:x:1000:1000:box:/workspace:/bin/sh\nnode:x:1000:1000::/:/x");
	CHECK_STR(sample_read(d.fd, "etc/hosts"), "1.2.3.4 a");
}

TESTS(UNIT(an_empty_root_gets_all), UNIT(links_are_replaced_and_not_followed),
	UNIT(accounts_are_kept_and_ours_comes_first))
