/* What the kernel tells of its hierarchies. */
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "lib/test.h"

static void parse(struct cgroup_mounts *m, const char *mountinfo, const char *self)
{
	AUTO_FREE char *a = xstrdup(mountinfo);
	AUTO_FREE char *b = xstrdup(self);

	cgroup_mounts_parse(m, a, b);
}

TEST(hybrid_mounts_are_found_with_the_unified_one_first)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m,
		"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
		"37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw\n",
		"4:memory:/a/b\n2:cpuacct,cpu:/\n0::/user.slice\n");
	CHECK_EQ(m.n, 3);
	CHECK(m.items[0].ops == &cgroup_v2);
	CHECK_STR(m.items[0].path, "/sys/fs/cgroup/uni fied");
	CHECK_STR(m.items[0].own, "user.slice");
	CHECK(m.items[1].ops == &cgroup_v1);
	CHECK_EQ(m.items[1].controllers, CONTROLLER_BIT(CONTROLLER_MEMORY));
	CHECK_STR(m.items[1].own, "a/b");
	CHECK_EQ(m.items[2].controllers,
		CONTROLLER_BIT(CONTROLLER_CPU) | CONTROLLER_BIT(CONTROLLER_CPUACCT));
	CHECK_STR(m.items[2].own, "");
}

TEST(own_group_is_relative_to_what_is_mounted)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m, "1 2 0:1 /docker/x /cg ro - cgroup cgroup rw,pids\n", "3:pids:/docker/x/y\n");
	CHECK_EQ(m.n, 1);
	CHECK_STR(m.items[0].own, "y");
	cgroup_mounts_fini(&m);

	parse(&m, "1 2 0:1 /docker/x /cg ro - cgroup cgroup rw,pids\n", "3:pids:/docker/xy\n");
	CHECK(m.items[0].own == NULL);
	cgroup_mounts_fini(&m);

	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/../other\n");
	CHECK(m.items[0].own == NULL);
	cgroup_mounts_fini(&m);

	/* who was moved to the leaf belongs to the group above it */
	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/a/" CGROUP_LEAF "\n");
	CHECK_STR(m.items[0].own, "a");
	cgroup_mounts_fini(&m);
	parse(&m, "1 2 0:1 / /cg ro - cgroup2 cgroup2 rw\n", "0::/" CGROUP_LEAF "\n");
	CHECK_STR(m.items[0].own, "");
}

TEST(broken_and_foreign_mounts_are_left_out)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts m;

	parse(&m,
		"\n1 2\n1 2 0:1 / /cg\n1 2 0:1 / /cg rw -\n1 2 0:1 / /cg rw - cgroup2\n"
		"1 2 0:1 /../.. /cg rw - cgroup2 cgroup2 rw\n"
		"1 2 0:1 / /first rw - cgroup cgroup rw,memory\n"
		"1 2 0:1 / /second rw - cgroup cgroup rw,memory",
		"x\n:\n4:memory\n4:memory:relative\n");
	CHECK_EQ(m.n, 1);
	CHECK_STR(m.items[0].path, "/first");
	CHECK(m.items[0].own == NULL);
}

TEST(controllers_are_whole_words)
{
	CHECK_EQ(cgroup_parse_controllers("cpuset io memory hugetlb pids", " "),
		CONTROLLER_BIT(CONTROLLER_MEMORY) | CONTROLLER_BIT(CONTROLLER_PIDS));
	CHECK_EQ(cgroup_parse_controllers("", " "), 0);
	CHECK_EQ(cgroup_parse_controllers("rw,cpuacct", ","), CONTROLLER_BIT(CONTROLLER_CPUACCT));
}

TESTS(UNIT(hybrid_mounts_are_found_with_the_unified_one_first),
	UNIT(own_group_is_relative_to_what_is_mounted),
	UNIT(broken_and_foreign_mounts_are_left_out), UNIT(controllers_are_whole_words))
