/* The hierarchies here are plain directories, in which groups can be made and
 * limits can not: what is tested is how gaps are told. That limits hold is tried
 * on the real ones by tests/integration/test_doctor.py. */
#include "probe/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "lib/test.h"
#include "probe/host.h"

static char dir[64];

static void make_dir(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/control-test-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
}

static void write_file(const char *name, const char *text)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
	(void)close(fd);
}

/* Remove the hierarchy; nothing that we did not put there may be left in it. */
static void remove_dir(size_t n, const char *const *names)
{
	char path[128];

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		CHECK_EQ(remove(path), 0);
	}
	CHECK_EQ(rmdir(dir), 0);
}

static struct finding find(probe_fn *run, const char *format, const char *groups)
{
	struct finding f = { 0 };
	struct probe row = { .name = "memory", .with = "memory" };
	struct host host = { 0 };
	char text[512];

	(void)snprintf(text, sizeof(text), "1 2 0:1 / %s %s\n", dir, format);
	CHECK_EQ(mountinfo_parse(xstrdup(text), &host.mounts), 0);
	(void)snprintf(host.cgroups, sizeof(host.cgroups), "%s", groups);
	run(&row, &host, &f);
	mountinfo_fini(&host.mounts);
	return f;
}

#define V2 "rw - cgroup2 none rw"
#define V1 "rw - cgroup none rw,memory"

TEST(versions_are_told_apart)
{
	struct finding f;

	(void)snprintf(dir, sizeof(dir), "/cg");
	f = find(control_probe_version, V2, "");
	CHECK_EQ(f.state, PROBE_OK);
	CHECK_STR(f.detail, "v2 at /cg");
	CHECK_STR(find(control_probe_version, V1, "").detail, "v1, memory at /cg");
	CHECK_STR(find(control_probe_version, V1 "\n1 2 0:1 / /u " V2, "").detail,
		"hybrid, memory at /cg");
	CHECK_EQ(find(control_probe_version, "rw - tmpfs none rw", "").state, PROBE_MISSING);
}

TEST(without_mounts_nothing_is_known)
{
	struct finding f = { 0 };
	struct probe row = { .with = "memory" };
	struct host host = { .mounts_error = -ENOENT };

	control_probe_limit(&row, &host, &f);
	CHECK_EQ(f.state, PROBE_UNKNOWN);
	control_probe_version(&row, &host, &f);
	CHECK_EQ(f.state, PROBE_UNKNOWN);
}

TEST(a_hierarchy_out_of_sight_is_no_help)
{
	(void)snprintf(dir, sizeof(dir), "/nonexistent");
	struct finding f = find(control_probe_limit, V2, "0::/\n");

	CHECK_EQ(f.state, PROBE_MISSING);
	CHECK_STR(f.detail, "/nonexistent is hidden by another mount");
}

TEST(a_limit_that_can_not_be_written_is_missing_and_its_group_removed)
{
	make_dir();
	struct finding f = find(control_probe_limit, V1, "4:memory:/\n");

	CHECK_EQ(f.state, PROBE_MISSING);
	CHECK(strstr(f.detail, "memory.limit_in_bytes"));
	CHECK(f.fix != NULL);
	remove_dir(0, NULL);
}

TEST(a_controller_is_off_absent_or_out_of_reach)
{
	static const char *const files[] = { "cgroup.controllers", "cgroup.subtree_control" };

	make_dir();
	write_file("cgroup.controllers", "cpu pids\n");
	write_file("cgroup.subtree_control", "\n");
	CHECK_EQ(find(control_probe_limit, V2, "0::/\n").state, PROBE_MISSING);
	write_file("cgroup.controllers", "cpu memory pids\n");
	struct finding f = find(control_probe_limit, V2, "0::/\n");
	CHECK_EQ(f.state, PROBE_OK);
	CHECK(strstr(f.detail, "can be switched on in"));
	/* our own group is not below what is mounted: its root is tried */
	CHECK_EQ(find(control_probe_limit, V2, "0::/../../x\n").state, PROBE_OK);
	CHECK_EQ(find(control_probe_limit, V2, "").state, PROBE_MISSING);
	remove_dir(ARRAY_SIZE(files), files);
}

TEST(a_place_is_looked_for_upwards)
{
	static const char *const files[] = { "cgroup.controllers", "cgroup.subtree_control", "a/b",
		"a" };
	char path[128];

	make_dir();
	(void)snprintf(path, sizeof(path), "%s/a", dir);
	CHECK_EQ(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/a/b", dir);
	CHECK_EQ(mkdir(path, 0755), 0);
	write_file("cgroup.controllers", "memory\n");
	write_file("cgroup.subtree_control", "\n");
	struct finding f = find(control_probe_limit, V2, "0::/a/b\n");
	CHECK_EQ(f.state, PROBE_OK);
	CHECK_STR(f.detail + strlen(f.detail) - strlen(dir), dir);
	remove_dir(ARRAY_SIZE(files), files);
}

TESTS(UNIT(versions_are_told_apart), UNIT(without_mounts_nothing_is_known),
	UNIT(a_hierarchy_out_of_sight_is_no_help),
	UNIT(a_limit_that_can_not_be_written_is_missing_and_its_group_removed),
	UNIT(a_controller_is_off_absent_or_out_of_reach), UNIT(a_place_is_looked_for_upwards))
