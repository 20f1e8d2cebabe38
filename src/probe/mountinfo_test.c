#include "probe/mountinfo.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "lib/test.h"

static int parse_line(const char *text, char *buf, size_t size, struct mountinfo *ret)
{
	(void)snprintf(buf, size, "%s", text);
	return mountinfo_parse_line(buf, ret);
}

TEST(a_line_has_its_columns_wherever_the_hyphen_is)
{
	char buf[256];
	struct mountinfo m;

	CHECK_EQ(parse_line(
			 "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
			 buf, sizeof(buf), &m),
		0);
	CHECK_STR(m.root, "/");
	CHECK_STR(m.point, "/sys/fs/cgroup/memory");
	CHECK_STR(m.options, "rw,relatime");
	CHECK_STR(m.type, "cgroup");
	CHECK_STR(m.super, "rw,memory");
	CHECK_EQ(parse_line("1 2 0:1 /a /b ro shared:1 master:2 - cgroup2 none ro,nsdelegate", buf,
			 sizeof(buf), &m),
		0);
	CHECK_STR(m.type, "cgroup2");
	CHECK_STR(m.super, "ro,nsdelegate");
}

TEST(escaped_names_are_undone)
{
	char buf[256];
	struct mountinfo m;

	CHECK_EQ(parse_line(
			 "1 2 0:1 /a\\040b /c\\011d\\134 rw - tmpfs none rw", buf, sizeof(buf), &m),
		0);
	CHECK_STR(m.root, "/a b");
	CHECK_STR(m.point, "/c\td\\");
	CHECK_EQ(parse_line("1 2 0:1 / /\\04 rw - tmpfs none rw", buf, sizeof(buf), &m), 0);
	CHECK_STR(m.point, "/\\04");
}

TEST(lines_of_another_form_are_refused)
{
	static const char *const bad[] = { "", " ", "1 2 0:1 / /x rw",
		"1 2 0:1 / /x rw - tmpfs none", "1 2 0:1 / /x rw shared:1", "1 2 - a b c", "-" };
	char buf[256];
	struct mountinfo m;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(parse_line(bad[i], buf, sizeof(buf), &m), -EINVAL);
}

TEST(a_table_skips_what_it_can_not_read)
{
	struct mountinfo_table t = { 0 };

	CHECK_EQ(mountinfo_parse(xstrdup("1 2 0:1 / /a rw - tmpfs none rw\njunk\n\n"
					 "1 2 0:1 / /b rw - tmpfs none rw"),
			 &t),
		0);
	CHECK_EQ(t.n, 2);
	CHECK_STR(t.rows[1].point, "/b");
	mountinfo_fini(&t);
	CHECK_EQ(mountinfo_parse(xstrdup(""), &t), 0);
	CHECK_EQ(t.n, 0);
	mountinfo_fini(&t);
}

TEST(the_table_of_this_process_has_a_root)
{
	struct mountinfo_table t = { 0 };
	bool has_root = false;

	CHECK_EQ(mountinfo_read("/proc/self/mountinfo", &t), 0);
	for (size_t i = 0; i < t.n; i++)
		has_root |= streq(t.rows[i].point, "/");
	CHECK(has_root);
	mountinfo_fini(&t);
	CHECK_EQ(mountinfo_read("/nonexistent", &t), -ENOENT);
}

TEST(our_group_is_found_in_each_kind_of_hierarchy)
{
	static const char text[] = "12:pids:/\n"
				   "4:cpu,cpuacct:/a b\n"
				   "1:name=systemd:/s\n"
				   "0::/user.slice";
	char path[64];

	CHECK_EQ(mountinfo_find_cgroup(text, "cpu", path, sizeof(path)), 0);
	CHECK_STR(path, "/a b");
	CHECK_EQ(mountinfo_find_cgroup(text, "pids", path, sizeof(path)), 0);
	CHECK_STR(path, "/");
	CHECK_EQ(mountinfo_find_cgroup(text, NULL, path, sizeof(path)), 0);
	CHECK_STR(path, "/user.slice");
	CHECK_EQ(mountinfo_find_cgroup(text, "memory", path, sizeof(path)), -ENOENT);
	CHECK_EQ(mountinfo_find_cgroup("", NULL, path, sizeof(path)), -ENOENT);
	CHECK_EQ(mountinfo_find_cgroup("0\n1:\n::", NULL, path, sizeof(path)), -ENOENT);
	CHECK_EQ(mountinfo_find_cgroup(text, NULL, path, 3), -ENAMETOOLONG);
}

TEST(a_group_is_below_its_mount_or_the_mount_itself)
{
	static const struct {
		const char *root, *path, *dir;
	} rows[] = {
		{ "/", "/", "/cg" },
		{ "/", "/a/b", "/cg/a/b" },
		{ "/docker/1", "/docker/1", "/cg" },
		{ "/docker/1", "/docker/1/x", "/cg/x" },
		{ "/docker/1", "/docker/12", "/cg" },
		{ "/", "/../other", "/cg" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mountinfo m = { .root = rows[i].root, .point = "/cg" };
		char dir[64];

		CHECK_EQ(mountinfo_cgroup_dir(&m, rows[i].path, dir, sizeof(dir)), 0);
		CHECK_STR(dir, rows[i].dir);
		CHECK_EQ(mountinfo_cgroup_dir(&m, rows[i].path, dir, 3), -ENAMETOOLONG);
	}
}

TESTS(UNIT(a_line_has_its_columns_wherever_the_hyphen_is), UNIT(escaped_names_are_undone),
	UNIT(lines_of_another_form_are_refused), UNIT(a_table_skips_what_it_can_not_read),
	UNIT(the_table_of_this_process_has_a_root),
	UNIT(our_group_is_found_in_each_kind_of_hierarchy),
	UNIT(a_group_is_below_its_mount_or_the_mount_itself))
