#include "core/image_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "core/host_version.h"
#include "image/image.h"

/* A curated repository, what of the host stands for it, and what to install where the host
 * lacks it. */
static const struct curated {
	const char *repository;
	const char *label; /* in resolved_image */
	enum host_thing thing;
	const char *package; /* NULL: not a package, but another distribution */
	const char *variant; /* how its name is shown in the list of defaults; NULL: not there */
} curated[] = {
	{ "python", "python", HOST_PYTHON, "python3", "-slim" },
	{ "node", "node", HOST_NODE, "nodejs", "-slim" },
	{ "golang", "go", HOST_GO, "golang-go", "" },
	{ "eclipse-temurin", "java", HOST_JAVA, "default-jre-headless", "-jre" },
	{ "dotnet/sdk", "dotnet", HOST_DOTNET, "dotnet-sdk-8.0", "" },
	{ "dotnet/runtime", "dotnet", HOST_DOTNET, "dotnet-sdk-8.0", NULL },
	{ "busybox", "busybox", HOST_BUSYBOX, "busybox", NULL },
	{ "debian", "debian", HOST_DEBIAN, NULL, "" },
	{ "ubuntu", "ubuntu", HOST_UBUNTU, NULL, "" },
	{ "alpine", "alpine", HOST_ALPINE, NULL, "" },
};

/* Tags that ask for no version. */
static bool is_any_version(const char *tag)
{
	static const char *const tags[] = { "latest", "slim", "alpine" };

	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		if (streq(tags[i], tag))
			return true;
	}
	return false;
}

/* Whether "3.11-slim", "3" or "bookworm" asks for what is there. A version that is more exact
 * than the one we know is not taken for the same. */
static bool is_version(const struct host_version *v, const char *tag)
{
	size_t n = strcspn(tag, "-");

	if (is_any_version(tag))
		return true;
	if (n == 0)
		return false;
	if (strlen(v->codename) == n && strncmp(v->codename, tag, n) == 0)
		return true;
	return strncmp(v->number, tag, n) == 0 && isdigit((unsigned char)tag[n - 1]) &&
	       (v->number[n] == '\0' || v->number[n] == '.');
}

/* What somebody else calls "python" is something else: only the places where the curated
 * repositories are published count, for those who write all of the name. */
static const char *skip_place(const char *name)
{
	static const char *const places[] = { "docker.io/library/", "docker.io/", "library/",
		"mcr.microsoft.com/" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *rest = str_after(name, places[i]);

		if (rest)
			return rest;
	}
	return name;
}

static const struct curated *find_curated(const char *name, const char **ret_tag)
{
	const char *base = skip_place(name);
	size_t n = strcspn(base, ":");

	/* A digest means that very image and no other. */
	if (strchr(name, '@'))
		return NULL;
	*ret_tag = base[n] == ':' ? base + n + 1 : "latest";
	for (size_t i = 0; i < ARRAY_SIZE(curated); i++) {
		if (strlen(curated[i].repository) == n &&
			strncmp(curated[i].repository, base, n) == 0)
			return &curated[i];
	}
	return NULL;
}

static void choose_host(
	const struct curated *c, const struct host_version *v, struct image_choice *ret)
{
	*ret = (struct image_choice){ .image = IMAGE_HOST };
	(void)snprintf(ret->resolved, sizeof(ret->resolved), "host (%s%s%s)", c->label,
		v->number[0] ? " " : "", v->number);
}

/* Says what the host lacks, and what to do. */
static int refuse(const struct curated *c, const char *name, struct err *err)
{
	if (!c->package)
		return err_set(err, -ENOENT,
			"there is no image '%.80s', and the host is not %s: use 'host', or import the "
			"image with 'belljar image import'",
			name, c->label);
	return err_set(err, -ENOENT,
		"there is no image '%.80s', and the host has no %s: install the package %s, or "
		"import the image with 'belljar image import'",
		name, c->label, c->package);
}

int image_name_match(const char *top, const char *name, struct image_choice *ret, struct err *err)
{
	struct host_version v;
	const char *tag;
	const struct curated *c = find_curated(name, &tag);

	if (!c)
		return err_set(err, -EINVAL, "'%.80s' is not a curated name", name);
	if (host_version_find(top, c->thing, &v) < 0)
		return refuse(c, name, err);
	if (!is_version(&v, tag))
		return err_set(err, -ENOENT,
			"there is no image '%.80s', and the host has %s %.30s: ask for '%s:%.30s', "
			"or import the image with 'belljar image import'",
			name, c->label, v.number[0] ? v.number : "of unknown version",
			c->repository, v.number[0] ? v.number : "latest");
	choose_host(c, &v, ret);
	return 0;
}

int image_name_resolve(
	const char *root, const char *name, struct image_choice *ret, struct err *err)
{
	char hex[IMAGE_HEX_SIZE + 1];
	struct err missing = { 0 };
	int r = image_resolve(root, name, hex, &missing);

	if (r == 0) {
		*ret = (struct image_choice){ 0 };
		(void)snprintf(ret->image, sizeof(ret->image), "%s", hex);
		if (!streq(hex, IMAGE_HOST))
			(void)snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", hex);
		(void)snprintf(ret->resolved, sizeof(ret->resolved), "%.255s", name);
		return 0;
	}
	struct err mismatch = { 0 };
	int m = image_name_match("", name, ret, &mismatch);
	if (m == 0)
		return 0;
	return m == -EINVAL ? err_set(err, r, "%s", missing.text)
			    : err_set(err, m, "%s", mismatch.text);
}

/* The part of a version that tags usually have: "20" of node's 20.20.2, "3.11" of python's. */
static int usual_length(const struct curated *c, const char *number)
{
	bool is_major = c->thing == HOST_NODE || c->thing == HOST_JAVA;
	size_t n = strcspn(number, ".");

	if (!is_major && number[n] == '.')
		n += 1 + strcspn(number + n + 1, ".");
	return (int)n;
}

const char *const *image_name_defaults(void)
{
	static char names[ARRAY_SIZE(curated)][96];
	static const char *list[ARRAY_SIZE(curated) + 2];
	struct host_version v;
	size_t n = 0;

	if (list[0])
		return list;
	for (size_t i = 0; i < ARRAY_SIZE(curated); i++) {
		const struct curated *c = &curated[i];

		if (!c->variant || host_version_find("", c->thing, &v) < 0 || !v.number[0])
			continue;
		(void)snprintf(names[n], sizeof(names[n]), "%s:%.*s%s", c->repository,
			usual_length(c, v.number), v.number, c->variant);
		list[n] = names[n];
		n++;
	}
	list[n] = IMAGE_HOST;
	return list;
}
