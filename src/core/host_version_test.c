#include "core/host_version.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/scratch.h"
#include "lib/test.h"

static void add(int fd, const char *path, const char *text)
{
	char part[128];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		(void)mkdirat(fd, part, 0755);
	}
	scratch_write(fd, path, text);
	CHECK_EQ(fchmodat(fd, path, 0755, 0), 0);
}

TEST(nothing_is_there)
{
	struct host_version v = { .number = "as it was" };
	SCRATCH(host);

	for (int i = 0; i < HOST_THING_COUNT; i++)
		CHECK_EQ(host_version_find(host.path, (enum host_thing)i, &v), -ENOENT);
	CHECK_STR(v.number, "as it was");
}

TEST(debians_node_is_told_by_its_library)
{
	struct host_version v;
	SCRATCH(host);

	add(host.fd, "usr/bin/node", "");
	CHECK_EQ(host_version_find(host.path, HOST_NODE, &v), 0);
	CHECK_STR(v.number, "");
	add(host.fd, "usr/lib/x86_64-linux-gnu/libnode.so.108", "");
	CHECK_EQ(host_version_find(host.path, HOST_NODE, &v), 0);
	CHECK_STR(v.number, "18");
}

TEST(what_the_path_has_first_counts)
{
	struct host_version v;
	SCRATCH(host);

	add(host.fd, "usr/bin/go", "");
	add(host.fd, "usr/VERSION", "go1.19.8");
	add(host.fd, "usr/local/bin/go", "");
	add(host.fd, "usr/local/VERSION", "go1.22.3\ntime 2024\n");
	CHECK_EQ(host_version_find(host.path, HOST_GO, &v), 0);
	CHECK_STR(v.number, "1.22.3");
}

TEST(a_number_that_does_not_fit_is_none)
{
	char text[300] = "go1.";
	struct host_version v;
	SCRATCH(host);

	memset(text + 4, '1', sizeof(text) - 5);
	add(host.fd, "usr/bin/go", "");
	add(host.fd, "usr/VERSION", text);
	CHECK_EQ(host_version_find(host.path, HOST_GO, &v), 0);
	CHECK_STR(v.number, "");
}

TEST(a_distribution_has_a_number_and_a_name)
{
	struct host_version v;
	SCRATCH(host);

	add(host.fd, "etc/os-release",
		"VERSION_ID=\"24.04\"\nID_LIKE=debian\nID=ubuntu\nVERSION_CODENAME=noble");
	CHECK_EQ(host_version_find(host.path, HOST_UBUNTU, &v), 0);
	CHECK_STR(v.number, "24.04");
	CHECK_STR(v.codename, "noble");
	CHECK_EQ(host_version_find(host.path, HOST_DEBIAN, &v), -ENOENT);
}

TESTS(UNIT(nothing_is_there), UNIT(debians_node_is_told_by_its_library),
	UNIT(what_the_path_has_first_counts), UNIT(a_number_that_does_not_fit_is_none),
	UNIT(a_distribution_has_a_number_and_a_name))
