/* Limits and counters, with plain files in place of a kernel's. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define MIB (1ull << 20)

static const struct limits wide = { .memory_bytes = 256 * MIB, .cpu_milli = 2000, .pids = 64 };

struct fake {
	char path[64];
	struct cgroup_tree tree;
};

static struct fake make_fake(const struct cgroup_ops *ops)
{
	struct fake f = { .path = "/tmp/cgroup_test.XXXXXX" };

	CHECK(mkdtemp(f.path));
	f.tree.ops = ops;
	f.tree.controllers = CONTROLLERS_LIMITS | CONTROLLER_BIT(CONTROLLER_CPUACCT);
	f.tree.knobs = UINT32_MAX;
	f.tree.parent_fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f.tree.base_fd = -1;
	CHECK(f.tree.parent_fd >= 0);
	CHECK_EQ(mkdirat(f.tree.parent_fd, "box", 0755), 0);
	return f;
}

static void fake_fini(struct fake *f)
{
	close_fdp(&f->tree.parent_fd);
	CHECK_EQ(fd_remove_tree(AT_FDCWD, f->path), 0);
}

static void put_file(const struct fake *f, const char *name, const char *text)
{
	AUTO_FD fd =
		openat(f->tree.parent_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void check_file(const struct fake *f, const char *name, const char *text)
{
	char got[256];

	CHECK(fd_read_text(f->tree.parent_fd, name, got, sizeof(got)) >= 0);
	CHECK_STR(got, text);
}

TEST(v2_limits_are_written_as_the_kernel_wants_them)
{
	static const char *const files[] = { "box/memory.max", "box/memory.oom.group",
		"box/pids.max", "box/cpu.max" };
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct limits l = { .memory_bytes = 64 * MIB, .cpu_milli = 1500, .pids = 7 };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put_file(&f, files[i], "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, 0, &err), 0);
	check_file(&f, "box/memory.max", "67108864");
	check_file(&f, "box/memory.oom.group", "1");
	check_file(&f, "box/pids.max", "7");
	check_file(&f, "box/cpu.max", "150000 100000");
}

TEST(v1_limits_are_written_as_the_kernel_wants_them)
{
	static const char *const files[] = { "box/memory.limit_in_bytes",
		"box/memory.memsw.limit_in_bytes", "box/memory.kmem.tcp.limit_in_bytes",
		"box/pids.max", "box/cpu.cfs_quota_us" };
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v1);
	struct limits l = { .memory_bytes = 64 * MIB, .cpu_milli = 500, .pids = 7 };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put_file(&f, files[i], "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, 0, NULL), 0);
	check_file(&f, "box/memory.limit_in_bytes", "67108864");
	check_file(&f, "box/memory.memsw.limit_in_bytes", "67108864");
	check_file(&f, "box/memory.kmem.tcp.limit_in_bytes", "8388608");
	check_file(&f, "box/pids.max", "7");
	check_file(&f, "box/cpu.cfs_quota_us", "50000");
	l.cpu_milli = 700;
	l.pids = 9;
	uint32_t spared = CONTROLLER_BIT(CONTROLLER_CPU);
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &l, spared, NULL), 0);
	check_file(&f, "box/pids.max", "9");
	check_file(&f, "box/cpu.cfs_quota_us", "50000");
}

TEST(a_limit_without_its_file_is_an_error_that_names_it)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct err err = { 0 };

	put_file(&f, "box/memory.max", "");
	put_file(&f, "box/memory.oom.group", "");
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &wide, 0, &err), -ENOENT);
	CHECK(strstr(err.text, "pids.max"));
}

TEST(a_limit_that_can_not_be_written_is_no_facet)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v1);

	f.tree.knobs = 0;
	put_file(&f, "box/memory.limit_in_bytes", "");
	put_file(&f, "box/cpu.cfs_quota_us", "");
	cgroup_tree_probe(&f.tree, "box", &wide);
	/* memsw may be missing, pids.max may not */
	CHECK_EQ(f.tree.controllers, CONTROLLER_BIT(CONTROLLER_MEMORY) |
					     CONTROLLER_BIT(CONTROLLER_CPU) |
					     CONTROLLER_BIT(CONTROLLER_CPUACCT));
	CHECK_EQ(cgroup_tree_set_limits(&f.tree, "box", &wide, 0, NULL), 0);
}

static struct cgroup_stats unknown_stats(void)
{
	return (struct cgroup_stats){ USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
		USAGE_UNKNOWN };
}

TEST(v2_counters_are_read)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct cgroup_stats s = unknown_stats();

	put_file(&f, "box/cpu.stat", "usage_usec 123456\nuser_usec 100\nsystem_usec 1\n");
	put_file(&f, "box/memory.peak", "4096\n");
	put_file(&f, "box/memory.events", "low 0\nhigh 0\nmax 91\noom 3\noom_kill 2\n");
	put_file(&f, "box/pids.events", "max 5\n");
	cgroup_tree_read_stats(&f.tree, "box", NULL, &s);
	CHECK_EQ(s.cpu_us, 123456);
	CHECK_EQ(s.peak_bytes, 4096);
	CHECK_EQ(s.oom_kills, 2);
	CHECK_EQ(s.pids_max_hits, 5);
	CHECK(s.pids_peak == USAGE_UNKNOWN);
}

TEST(counters_that_are_held_open_are_read_anew)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	int held[CGROUP_GAUGES_MAX] = { -1, -1, -1, -1, -1 };
	struct cgroup_stats s = unknown_stats();

	put_file(&f, "box/memory.peak", "4096\n");
	put_file(&f, "box/pids.events", "max 5\n");
	size_t n_before = scratch_count_fds();
	cgroup_tree_read_stats(&f.tree, "box", NULL, &s);
	CHECK_EQ(scratch_count_fds(), n_before);
	cgroup_tree_read_stats(&f.tree, "box", held, &s);
	CHECK_EQ(scratch_count_fds(), n_before + 2);
	put_file(&f, "box/memory.peak", "8192\n");
	put_file(&f, "box/pids.events", "max 77\n");
	put_file(&f, "box/pids.peak", "3\n"); /* what was missing is looked for again */
	cgroup_tree_read_stats(&f.tree, "box", held, &s);
	CHECK_EQ(scratch_count_fds(), n_before + 3);
	CHECK_EQ(s.peak_bytes, 8192);
	CHECK_EQ(s.pids_max_hits, 77);
	CHECK_EQ(s.pids_peak, 3);
	for (size_t i = 0; i < ARRAY_SIZE(held); i++)
		close_fdp(&held[i]);
	CHECK_EQ(scratch_count_fds(), n_before);
}

TEST(counters_that_make_no_sense_are_unknown)
{
	CLEANUP(fake_fini) struct fake f = make_fake(&cgroup_v2);
	struct cgroup_stats s = unknown_stats();

	put_file(&f, "box/cpu.stat", "usage_usec -1\n");
	put_file(&f, "box/memory.peak", "max\n");
	put_file(&f, "box/memory.events", "oom_kill\noom_killer 1\n");
	put_file(&f, "box/pids.peak", "");
	put_file(&f, "box/pids.events", "max 18446744073709551616\n");
	cgroup_tree_read_stats(&f.tree, "box", NULL, &s);
	CHECK(s.cpu_us == USAGE_UNKNOWN);
	CHECK(s.peak_bytes == USAGE_UNKNOWN);
	CHECK(s.oom_kills == USAGE_UNKNOWN);
	CHECK(s.pids_peak == USAGE_UNKNOWN);
	CHECK(s.pids_max_hits == USAGE_UNKNOWN);
}

TESTS(UNIT(v2_limits_are_written_as_the_kernel_wants_them),
	UNIT(v1_limits_are_written_as_the_kernel_wants_them),
	UNIT(a_limit_without_its_file_is_an_error_that_names_it),
	UNIT(a_limit_that_can_not_be_written_is_no_facet), UNIT(v2_counters_are_read),
	UNIT(counters_that_are_held_open_are_read_anew),
	UNIT(counters_that_make_no_sense_are_unknown))
