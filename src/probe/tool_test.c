#include "probe/tool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/test.h"
#include "probe/host.h"

static char dir[] = "/tmp/tool-test-XXXXXX";

static void write_program(const char *name, const char *script, mode_t mode)
{
	char path[64];

	if (strstr(dir, "XXXXXX"))
		CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, script, strlen(script)), (ssize_t)strlen(script));
	CHECK_EQ(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void remove_program(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)unlink(path);
	CHECK_EQ(chdir("/"), 0);
	CHECK_EQ(rmdir(dir), 0);
	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
}

TEST(programs_are_looked_for_in_the_path_and_in_the_usual_places)
{
	char path[256];

	(void)setenv("PATH", "/nonexistent", 1);
	CHECK(tool_find("sh", path, sizeof(path)));
	CHECK_EQ(path[0], '/');
	CHECK(!tool_find("no-such-program", path, sizeof(path)));
	CHECK(!tool_find("sh", path, 3));
	(void)unsetenv("PATH");
	CHECK(tool_find("sh", path, sizeof(path)));
}

TEST(relative_places_and_what_can_not_run_are_passed_over)
{
	char path[256];
	char dirs[64];

	write_program("belljar-none", "", 0644);
	(void)snprintf(dirs, sizeof(dirs), "%s:.", dir);
	(void)setenv("PATH", dirs, 1);
	CHECK(!tool_find("belljar-none", path, sizeof(path)));
	write_program("belljar-none", "", 0755);
	CHECK(tool_find("belljar-none", path, sizeof(path)));
	CHECK_EQ(chdir(dir), 0);
	(void)setenv("PATH", ".:", 1);
	CHECK(!tool_find("belljar-none", path, sizeof(path)));
	remove_program("belljar-none");
}

static void probe_runc(const char *script, struct finding *ret)
{
	struct probe row = { .name = "runc" };
	struct host host = { 0 };

	write_program("runc", script, 0755);
	(void)setenv("PATH", dir, 1);
	host.tools = tool_start_all();
	*ret = (struct finding){ 0 };
	tool_probe_program(&row, &host, ret);
	tool_free_all(host.tools);
	remove_program("runc");
}

TEST(a_version_is_found_in_what_a_program_prints)
{
	struct finding f;

	probe_runc("#!/bin/sh\necho runc version 1.1.5+ds1, of 2024\n", &f);
	CHECK_EQ(f.state, PROBE_OK);
	CHECK(strncmp(f.detail, "1.1.5+ds1 at /", 14) == 0);
	probe_runc("#!/bin/sh\necho I am runc 7\n", &f);
	CHECK_EQ(f.state, PROBE_OK);
	CHECK(strncmp(f.detail, "version unknown", 15) == 0);
}

TEST(a_program_that_fails_is_there_in_part)
{
	struct finding f;

	probe_runc("#!/bin/sh\nexit 1\n", &f);
	CHECK_EQ(f.state, PROBE_PARTIAL);
	probe_runc("#!/nonexistent\n", &f);
	CHECK_EQ(f.state, PROBE_PARTIAL);
	probe_runc("#!/bin/sh\nsleep 77\n", &f);
	CHECK_EQ(f.state, PROBE_UNKNOWN);
}

TESTS(UNIT(programs_are_looked_for_in_the_path_and_in_the_usual_places),
	UNIT(relative_places_and_what_can_not_run_are_passed_over),
	UNIT(a_version_is_found_in_what_a_program_prints),
	UNIT(a_program_that_fails_is_there_in_part))
