#include "core/image_name.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
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

/* A host below a directory: what it has is files in it. */
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

static void add_everything(int fd)
{
	add(fd, "etc/os-release",
		"PRETTY_NAME=\"x\"\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n");
	add(fd, "usr/bin/python3.11", "");
	CHECK_EQ(symlinkat("python3.11", fd, "usr/bin/python3"), 0);
	add(fd, "usr/bin/python3.12", ""); /* there, but not what "python3" is */
	add(fd, "usr/bin/node", "");
	add(fd, "usr/include/node/node_version.h",
		"#define NODE_MAJOR_VERSION 20\n#define NODE_MINOR_VERSION 9\n"
		"#define NODE_PATCH_VERSION 1\n");
	add(fd, "usr/lib/go-1.19/bin/go", "");
	add(fd, "usr/lib/go-1.19/VERSION", "go1.19.8");
	CHECK_EQ(symlinkat("../lib/go-1.19/bin/go", fd, "usr/bin/go"), 0);
	add(fd, "usr/lib/jvm/java-17/bin/java", "");
	add(fd, "usr/lib/jvm/java-17/release", "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.15\"\n");
	CHECK_EQ(symlinkat("../lib/jvm/java-17/bin/java", fd, "usr/bin/java"), 0);
	add(fd, "usr/lib/dotnet/dotnet", "");
	add(fd, "usr/lib/dotnet/sdk/6.0.400/x", "");
	add(fd, "usr/lib/dotnet/sdk/8.0.100/x", "");
	CHECK_EQ(symlinkat("../lib/dotnet/dotnet", fd, "usr/bin/dotnet"), 0);
}

TEST(a_curated_name_is_the_host_when_that_has_the_version)
{
	static const struct {
		const char *name;
		const char *resolved;
	} rows[] = {
		{ "python", "host (python 3.11)" },
		{ "python:latest", "host (python 3.11)" },
		{ "python:slim", "host (python 3.11)" },
		{ "python:3", "host (python 3.11)" },
		{ "python:3.11", "host (python 3.11)" },
		{ "python:3.11-slim", "host (python 3.11)" },
		{ "library/python:3.11", "host (python 3.11)" },
		{ "docker.io/library/python:3.11", "host (python 3.11)" },
		{ "node:20-alpine", "host (node 20.9.1)" },
		{ "node:20.9", "host (node 20.9.1)" },
		{ "golang:1.19-alpine", "host (go 1.19.8)" },
		{ "golang:1.19.8", "host (go 1.19.8)" },
		{ "eclipse-temurin:17-jre", "host (java 17.0.15)" },
		{ "mcr.microsoft.com/dotnet/sdk:8.0", "host (dotnet 8.0.100)" },
		{ "debian:12", "host (debian 12)" },
		{ "debian:bookworm-slim", "host (debian 12)" },
		{ "debian", "host (debian 12)" },
	};
	SCRATCH(host);

	add_everything(host.fd);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct image_choice c;

		CHECK_EQ(image_name_match(host.path, rows[i].name, &c, &err), 0);
		CHECK_STR(c.image, "host");
		CHECK_STR(c.resolved, rows[i].resolved);
		CHECK_STR(c.digest, "");
	}
}

TEST(another_version_is_refused_and_the_one_that_is_there_named)
{
	static const struct {
		const char *name;
		const char *says;
	} rows[] = {
		{ "node:18", "host has node 20.9.1: ask for 'node:20.9.1'" },
		{ "node:99", "host has node 20.9.1" },
		{ "node:2", "host has node 20.9.1" },
		{ "node:20.1", "host has node 20.9.1" },
		{ "python:3.12", "host has python 3.11: ask for 'python:3.11'" },
		{ "python:3.11.7", "host has python 3.11" },
		{ "python:3.1", "host has python 3.11" },
		{ "golang:1.22-alpine", "host has go 1.19.8" },
		{ "eclipse-temurin:21", "host has java 17.0.15" },
		{ "mcr.microsoft.com/dotnet/sdk:6.0", "host has dotnet 8.0.100" },
		{ "ubuntu:24.04", "host is not ubuntu: use 'host'" },
		{ "alpine", "host is not alpine: use 'host'" },
		{ "debian:11", "host has debian 12" },
		{ "debian:trixie", "host has debian 12" },
		{ "busybox", "host has no busybox: install the package busybox" },
	};
	SCRATCH(host);

	add_everything(host.fd);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct image_choice c = { .image = "as it was" };
		struct err err = { 0 };

		CHECK_EQ(image_name_match(host.path, rows[i].name, &c, &err), -ENOENT);
		CHECK_STR(c.image, "as it was");
		CHECK(strstr(err.text, rows[i].says) != NULL);
		CHECK(strstr(err.text, rows[i].name) != NULL);
		CHECK(strstr(err.text, "belljar image import") != NULL);
	}
}

TEST(what_is_not_installed_is_named_by_its_package)
{
	static const struct {
		const char *name;
		const char *says;
	} rows[] = {
		{ "python:3.11", "install the package python3" },
		{ "node:20", "install the package nodejs" },
		{ "golang:1.22-alpine", "install the package golang-go" },
		{ "eclipse-temurin:17-jre", "install the package default-jre-headless" },
		{ "mcr.microsoft.com/dotnet/sdk:8.0", "install the package dotnet-sdk-8.0" },
	};
	SCRATCH(host);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct image_choice c;
		struct err err = { 0 };

		CHECK_EQ(image_name_match(host.path, rows[i].name, &c, &err), -ENOENT);
		CHECK(strstr(err.text, rows[i].says) != NULL);
	}
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
	UNIT(another_version_is_refused_and_the_one_that_is_there_named),
	UNIT(what_is_not_installed_is_named_by_its_package),
	UNIT(nothing_else_is_taken_for_the_host), UNIT(what_to_do_is_said),
	UNIT(the_defaults_can_be_resolved))
