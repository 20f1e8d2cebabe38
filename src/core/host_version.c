#include "core/host_version.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define TEXT_MAX 16384

/* The directory two levels above a program: "/usr/lib/go-1.19" of "/usr/lib/go-1.19/bin/go". */
static void prefix_of(const char *program, char *buf, size_t size)
{
	(void)snprintf(buf, size, "%s", program);
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(buf, '/');

		if (slash)
			*slash = '\0';
	}
}

/* Copies the digits and dots at the start of `text`. */
static void copy_number(const char *text, char number[static HOST_VERSION_SIZE])
{
	size_t n = strspn(text, "0123456789.");

	if (n >= HOST_VERSION_SIZE)
		n = 0;
	memcpy(number, text, n);
	number[n] = '\0';
}

/* The text after `key` in the file `name` below `dir`, or NULL. `text` holds the file. */
static const char *read_after(const char *dir, const char *name, const char *key, char *text)
{
	char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (fd_read_text(AT_FDCWD, path, text, TEXT_MAX) < 0)
		return NULL;
	const char *found = strstr(text, key);
	return found ? found + strlen(key) : NULL;
}

/* /usr/bin/python3.11 */
static void tell_python(const char *program, struct host_version *ret)
{
	const char *slash = strrchr(program, '/');
	const char *number = slash ? str_after(slash + 1, "python") : NULL;

	copy_number(number ? number : "", ret->number);
}

/* Debian's own package has its code in a library, which is named by the version of its interface.
 */
static void tell_node_by_library(const char *prefix, struct host_version *ret)
{
	static const struct {
		const char *name;
		const char *number;
	} libraries[] = { { "libnode.so.108", "18" }, { "libnode.so.115", "20" },
		{ "libnode.so.127", "22" }, { "libnode.so.137", "24" } };
	static const char *const places[] = { "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
		"lib" };
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_SIZE(libraries) * ARRAY_SIZE(places); i++) {
		size_t k = i / ARRAY_SIZE(places);

		(void)snprintf(path, sizeof(path), "%s/%s/%s", prefix,
			places[i % ARRAY_SIZE(places)], libraries[k].name);
		if (access(path, F_OK) == 0)
			(void)snprintf(ret->number, sizeof(ret->number), "%s", libraries[k].number);
	}
}

static void tell_node(const char *program, struct host_version *ret)
{
	static const char *const parts[] = { "NODE_MAJOR_VERSION ", "NODE_MINOR_VERSION ",
		"NODE_PATCH_VERSION " };
	char prefix[PATH_MAX];
	char text[TEXT_MAX];
	size_t n = 0;

	prefix_of(program, prefix, sizeof(prefix));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *at = read_after(prefix, "include/node/node_version.h", parts[i], text);
		char part[HOST_VERSION_SIZE];

		copy_number(at ? at : "", part);
		if (!part[0] || n + strlen(part) + 2 > sizeof(ret->number))
			break;
		n += (size_t)snprintf(
			ret->number + n, sizeof(ret->number) - n, "%s%s", n > 0 ? "." : "", part);
	}
	if (n == 0)
		tell_node_by_library(prefix, ret);
}

static void tell_go(const char *program, struct host_version *ret)
{
	char prefix[PATH_MAX];
	char text[TEXT_MAX];

	prefix_of(program, prefix, sizeof(prefix));
	const char *at = read_after(prefix, "VERSION", "go", text);
	copy_number(at ? at : "", ret->number);
}

static void tell_java(const char *program, struct host_version *ret)
{
	char prefix[PATH_MAX];
	char text[TEXT_MAX];

	prefix_of(program, prefix, sizeof(prefix));
	const char *at = read_after(prefix, "release", "JAVA_VERSION=\"", text);
	copy_number(at ? at : "", ret->number);
}

/* The program uses the newest SDK that is installed beside it: /usr/lib/dotnet/sdk/8.0.100. */
static void tell_dotnet(const char *program, struct host_version *ret)
{
	char path[PATH_MAX + 8];
	char dir[PATH_MAX];

	(void)snprintf(dir, sizeof(dir), "%s", program);
	char *slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	(void)snprintf(path, sizeof(path), "%s/sdk", dir);
	AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(fd_close_dirp) DIR *d = fd >= 0 ? fd_open_dir(fd) : NULL;
	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
		if (isdigit((unsigned char)e->d_name[0]) && strverscmp(e->d_name, ret->number) > 0)
			copy_number(e->d_name, ret->number);
	}
}

static const struct {
	const char *program;      /* its name; NULL: a distribution */
	const char *distribution; /* its ID in os-release */
	void (*tell)(const char *program, struct host_version *ret); /* NULL: not known */
} things[HOST_THING_COUNT] = {
	[HOST_PYTHON] = { "python3", NULL, tell_python },
	[HOST_NODE] = { "node", NULL, tell_node },
	[HOST_GO] = { "go", NULL, tell_go },
	[HOST_JAVA] = { "java", NULL, tell_java },
	[HOST_DOTNET] = { "dotnet", NULL, tell_dotnet },
	[HOST_BUSYBOX] = { "busybox", NULL, NULL },
	[HOST_DEBIAN] = { NULL, "debian", NULL },
	[HOST_UBUNTU] = { NULL, "ubuntu", NULL },
	[HOST_ALPINE] = { NULL, "alpine", NULL },
};

/* Where the program is after all links; found in the order of a guest's usual PATH. */
static bool find_program(const char *top, const char *name, char real[static PATH_MAX])
{
	static const char *const places[] = { "/usr/local/bin", "/usr/bin", "/bin" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		(void)snprintf(path, sizeof(path), "%s%s/%s", top, places[i], name);
		if (access(path, X_OK) == 0 && realpath(path, real))
			return true;
	}
	return false;
}

/* The value of `key` in the text of an os-release file, without its quotes. */
static void read_release(const char *text, const char *key, char value[static HOST_VERSION_SIZE])
{
	size_t len = strlen(key);

	value[0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) != 0 || line[len] != '=')
			continue;
		line += len + 1;
		line += *line == '"';
		size_t n = strcspn(line, "\"\n");
		if (n < HOST_VERSION_SIZE)
			(void)snprintf(value, HOST_VERSION_SIZE, "%.*s", (int)n, line);
		return;
	}
}

static int find_distribution(const char *top, const char *id, struct host_version *ret)
{
	struct host_version found = { 0 };
	char is[HOST_VERSION_SIZE];
	char text[TEXT_MAX];
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/etc/os-release", top);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -ENOENT;
	read_release(text, "ID", is);
	if (!streq(is, id))
		return -ENOENT;
	read_release(text, "VERSION_ID", found.number);
	read_release(text, "VERSION_CODENAME", found.codename);
	*ret = found;
	return 0;
}

int host_version_find(const char *top, enum host_thing thing, struct host_version *ret)
{
	struct host_version found = { 0 };
	char program[PATH_MAX];

	if (!things[thing].program)
		return find_distribution(top, things[thing].distribution, ret);
	if (!find_program(top, things[thing].program, program))
		return -ENOENT;
	if (things[thing].tell)
		things[thing].tell(program, &found);
	*ret = found;
	return 0;
}
