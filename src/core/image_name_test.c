#include "core/image_name.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/scratch.h"
#include "lib/test.h"

static int resolve(const char *name, struct image_choice *ret)
{
	struct err err = { 0 };
	SCRATCH(root);
	int r = image_name_resolve(root.path, name, ret, &err);

	CHECK_EQ(r < 0, err.text[0] != '\0');
	return r;
}

TEST(the_host_is_itself)
{
	struct image_choice c;

	CHECK_EQ(resolve("host", &c), 0);
	CHECK_STR(c.image, "host");
	CHECK_STR(c.digest, "");
	CHECK_STR(c.resolved, "host");
}

/* Whatever version of Python this machine has: the path that names it is looked for. */
static const char *host_python(void)
{
	static const char *const versions[] = { "3.9", "3.10", "3.11", "3.12", "3.13", "3.14" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/usr/bin/python%s", versions[i]);
		if (access(path, F_OK) == 0)
			return versions[i];
	}
	return NULL;
}

TEST(a_curated_name_is_the_host_when_that_has_the_version)
{
	static const char *const forms[] = { "python:%s", "python:%s-slim", "python:%s.7",
		"python:%s-alpine", "library/python:%s", "docker.io/library/python:%s" };
	const char *version = host_python();
	char expected[64];

	if (!version)
		SKIP("there is no /usr/bin/python3.x");
	(void)snprintf(expected, sizeof(expected), "host (python %s)", version);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const char *mark = strstr(forms[i], "%s");
		struct image_choice c;
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s%s%s", (int)(mark - forms[i]), forms[i],
			version, mark + 2);
		CHECK_EQ(resolve(name, &c), 0);
		CHECK_STR(c.image, "host");
		CHECK_STR(c.resolved, expected);
		CHECK_STR(c.digest, "");
	}
}

TEST(a_major_version_or_none_is_what_is_there)
{
	struct image_choice c;

	if (!host_python())
		SKIP("there is no /usr/bin/python3.x");
	CHECK_EQ(resolve("python:3", &c), 0);
	CHECK_STR(c.image, "host");
	CHECK_EQ(resolve("python", &c), 0);
	CHECK_STR(c.resolved, "host (python)");
	CHECK_EQ(resolve("python:latest", &c), 0);
	CHECK_EQ(resolve("debian:12", &c), 0);
	CHECK_STR(c.resolved, "host (shell)");
}

#define PINNED "python:3@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(nothing_else_is_taken_for_the_host)
{
	static const char *const names[] = { "python:2.7", "python:4", "python:3.1", "python:3.999",
		"python:", "python:-slim", "python:.", "pythonic:3.11", "pytho", "nothing:1",
		"registry.example/python:3", "someone/python:3", "hosts", PINNED,
		"python:333333333333333333333333333333333333333333333333333333" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct image_choice c = { .image = "as it was" };

		CHECK(resolve(names[i], &c) < 0);
		CHECK_STR(c.image, "as it was");
	}
}

TEST(what_to_do_is_said)
{
	struct err err = { 0 };
	struct image_choice c;
	SCRATCH(root);

	CHECK_EQ(image_name_resolve(root.path, "python:2.7", &c, &err), -ENOENT);
	CHECK(strstr(err.text, "belljar image import") != NULL);
	CHECK(strstr(err.text, "python:2.7") != NULL);
}

TEST(the_defaults_can_be_resolved)
{
	const char *const *names = image_name_defaults();
	size_t n = 0;

	for (; names[n]; n++) {
		struct image_choice c;

		CHECK_EQ(resolve(names[n], &c), 0);
		CHECK_STR(c.image, "host");
	}
	CHECK(n > 0);
	CHECK_STR(names[n - 1], "host");
	CHECK(image_name_defaults() == names);
}

TESTS(UNIT(the_host_is_itself), UNIT(a_curated_name_is_the_host_when_that_has_the_version),
	UNIT(a_major_version_or_none_is_what_is_there), UNIT(nothing_else_is_taken_for_the_host),
	UNIT(what_to_do_is_said), UNIT(the_defaults_can_be_resolved))
