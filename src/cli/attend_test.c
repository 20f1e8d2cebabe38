#include "cli/attend.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Instead of the server, a program that only says something and ends. */
static void write_program(const char *dir, const char *says, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/program", dir);
	FILE *out = fopen(path, "we");
	CHECK(out);
	(void)fprintf(out, "#!/bin/sh\necho first >&2\necho %s >&2\nexit 1\n", says);
	CHECK_EQ(fclose(out), 0);
	CHECK_EQ(chmod(path, 0755), 0);
}

TEST(a_server_that_does_not_start_says_why)
{
	SCRATCH(dir);
	char program[128];
	struct err err = { 0 };
	char *url = NULL;

	write_program(dir.path, "there is no room", program, sizeof(program));
	struct attend a = { .root = dir.path, .program = program, .wait_ms = 10000, .log_fd = -1 };
	CHECK_EQ(attend_connect(&a, true, &url, &err), -EIO);
	CHECK_STR(err.text, "the server did not start: there is no room");
	attend_fini(&a);
}

TEST(one_that_finds_the_place_taken_is_tried_again)
{
	SCRATCH(dir);
	char program[128];
	struct err err = { 0 };
	char *url = NULL;

	write_program(dir.path, "in use by another server", program, sizeof(program));
	struct attend a = { .root = dir.path, .program = program, .wait_ms = 300, .log_fd = -1 };
	CHECK_EQ(attend_connect(&a, true, &url, &err), -ETIMEDOUT);
	attend_fini(&a);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

TEST(nothing_is_started_that_was_not_asked_for)
{
	SCRATCH(dir);
	struct attend a = {
		.root = dir.path, .program = "/nonexistent", .wait_ms = 1000, .log_fd = -1
	};
	struct err err = { 0 };
	char *url = NULL;

	CHECK_EQ(attend_connect(&a, false, &url, &err), -ENOENT);
	CHECK_EQ(a.pid, 0);
	attend_fini(&a);
}

TESTS(UNIT(a_server_that_does_not_start_says_why),
	UNIT(one_that_finds_the_place_taken_is_tried_again),
	UNIT(nothing_is_started_that_was_not_asked_for))
