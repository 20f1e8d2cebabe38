#include "core/image_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "image/image.h"

/* A curated repository, the program of the host that stands for it, and how the version of
 * that is found without executing anything: the name of a directory or file that has it. */
static const struct curated {
	const char *repository;
	const char *language;
	const char *program;
	const char *version_path; /* %s is the version; NULL: any will do */
	const char *versions[16]; /* that could be there; ends with NULL */
} curated[] = {
	{ "python", "python", "/usr/bin/python3", "/usr/bin/python%s",
		{ "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", NULL } },
	{ "node", "javascript", "/usr/bin/node", NULL, { NULL } },
	{ "golang", "go", "/usr/bin/go", "/usr/lib/go-%s",
		{ "1.19", "1.20", "1.21", "1.22", "1.23", "1.24", "1.25", NULL } },
	{ "eclipse-temurin", "java", "/usr/bin/java", "/usr/lib/jvm/java-%s-openjdk-amd64",
		{ "11", "17", "21", "25", NULL } },
	{ "busybox", "shell", "/bin/sh", NULL, { NULL } },
	{ "ubuntu", "shell", "/bin/sh", NULL, { NULL } },
	{ "debian", "shell", "/bin/sh", NULL, { NULL } },
	{ "alpine", "shell", "/bin/sh", NULL, { NULL } },
};

static bool has_version(const struct curated *c, const char *version)
{
	char path[128];

	if (!c->version_path)
		return access(c->program, X_OK) == 0;
	for (size_t i = 0; c->versions[i]; i++) {
		if (!streq(c->versions[i], version))
			continue;
		const char *mark = strstr(c->version_path, "%s");
		(void)snprintf(path, sizeof(path), "%.*s%s%s", (int)(mark - c->version_path),
			c->version_path, version, mark + 2);
		return access(path, F_OK) == 0;
	}
	return false;
}

/* A major version alone, "3", or one with a patch level, "3.11.2", of the `known` "3.11". */
static bool is_kin(const char *version, const char *known)
{
	size_t len = strlen(version);
	size_t n = strlen(known);
	bool is_major = strncmp(known, version, len) == 0 && known[len] == '.';
	bool has_patch = strncmp(version, known, n) == 0 && version[n] == '.';

	return is_major || has_patch;
}

/* Which version of the host's a tag stands for: "3.11-slim" -> "3.11", "3" -> one that is
 * there, "latest" -> "", whatever it is; NULL when the host has no such thing. */
static const char *find_version(const struct curated *c, const char *tag)
{
	char version[32];
	size_t n = strcspn(tag, "-");

	if (streq(tag, "latest") || !c->version_path)
		return access(c->program, X_OK) == 0 ? "" : NULL;
	if (n >= sizeof(version))
		return NULL;
	(void)snprintf(version, sizeof(version), "%.*s", (int)n, tag);
	for (size_t i = 0; c->versions[i]; i++) {
		const char *known = c->versions[i];

		if ((streq(known, version) || is_kin(version, known)) && has_version(c, known))
			return known;
	}
	return NULL;
}

/* Where a curated repository is looked for by those who write all of its name. What somebody
 * else calls "python" is something else. */
static bool is_usual_place(const char *name, size_t n)
{
	static const char *const places[] = { "", "library/", "docker.io/", "docker.io/library/" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (strlen(places[i]) == n && strncmp(places[i], name, n) == 0)
			return true;
	}
	return false;
}

static const struct curated *find_curated(const char *name, const char **ret_tag)
{
	const char *slash = strrchr(name, '/');
	const char *base = slash ? slash + 1 : name;
	size_t n = strcspn(base, ":");

	/* A digest means that very image and no other. */
	if (strchr(name, '@') || !is_usual_place(name, (size_t)(base - name)))
		return NULL;
	*ret_tag = base[n] == ':' ? base + n + 1 : "latest";
	for (size_t i = 0; i < ARRAY_SIZE(curated); i++) {
		if (strlen(curated[i].repository) == n &&
			strncmp(curated[i].repository, base, n) == 0)
			return &curated[i];
	}
	return NULL;
}

static void choose_host(const struct curated *c, const char *version, struct image_choice *ret)
{
	*ret = (struct image_choice){ .image = IMAGE_HOST };
	(void)snprintf(ret->resolved, sizeof(ret->resolved), "host (%s%s%s)", c->language,
		version[0] ? " " : "", version);
}

int image_name_resolve(
	const char *root, const char *name, struct image_choice *ret, struct err *err)
{
	char hex[IMAGE_HEX_SIZE + 1];
	struct err missing = { 0 };
	const char *tag;
	int r = image_resolve(root, name, hex, &missing);

	if (r == 0) {
		*ret = (struct image_choice){ 0 };
		(void)snprintf(ret->image, sizeof(ret->image), "%s", hex);
		if (!streq(hex, IMAGE_HOST))
			(void)snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", hex);
		(void)snprintf(ret->resolved, sizeof(ret->resolved), "%.255s", name);
		return 0;
	}
	const struct curated *c = find_curated(name, &tag);
	const char *version = c ? find_version(c, tag) : NULL;
	if (version) {
		choose_host(c, version, ret);
		return 0;
	}
	if (c)
		return err_set(err, -ENOENT,
			"there is no image '%.100s', and the host has no such %s; import it with "
			"'belljar image import'",
			name, c->language);
	return err_set(err, r, "%s", missing.text);
}

const char *const *image_name_defaults(void)
{
	static char names[4][32];
	static const char *list[6];
	size_t n = 0;

	if (list[0])
		return list;
	for (size_t i = 0; curated[0].versions[i] && n < 3; i++) {
		if (!has_version(&curated[0], curated[0].versions[i]))
			continue;
		(void)snprintf(
			names[n], sizeof(names[n]), "python:%s-slim", curated[0].versions[i]);
		list[n] = names[n];
		n++;
	}
	if (access("/usr/bin/node", X_OK) == 0)
		list[n++] = "node:20-alpine";
	list[n] = "host";
	return list;
}
