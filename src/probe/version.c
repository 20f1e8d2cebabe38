#include "probe/version.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define VERSION_PART_MAX 9999
#define FIXES_MAX        8

/* One number at `*at`, which moves behind it. */
static int take_number(const char **at, unsigned *ret)
{
	unsigned v = 0;
	const char *p = *at;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		v = v * 10 + (unsigned)(*p - '0');
		if (v > VERSION_PART_MAX)
			return -EINVAL;
	}
	*at = p;
	*ret = v;
	return 0;
}

int version_parse(const char *text, struct version *ret)
{
	struct version v = { 0 };

	if (take_number(&text, &v.major) < 0 || *text++ != '.')
		return -EINVAL;
	if (take_number(&text, &v.minor) < 0)
		return -EINVAL;
	if (*text == '.' && isdigit((unsigned char)text[1])) {
		text++;
		if (take_number(&text, &v.patch) < 0)
			return -EINVAL;
	}
	*ret = v;
	return 0;
}

int version_compare(const struct version *a, const struct version *b)
{
	if (a->major != b->major)
		return a->major < b->major ? -1 : 1;
	if (a->minor != b->minor)
		return a->minor < b->minor ? -1 : 1;
	if (a->patch != b->patch)
		return a->patch < b->patch ? -1 : 1;
	return 0;
}

static bool is_same_branch(const struct version *a, const struct version *b)
{
	return a->major == b->major && a->minor == b->minor;
}

int version_of_kernel(
	const char *release, const char *build, const char *signature, struct version *ret)
{
	struct version named = { 0 };
	struct version exact = { 0 };
	const char *debian = strstr(build, "Debian ");
	const char *ubuntu = strrchr(signature, ' ');

	int r = version_parse(release, &named);
	if (r < 0)
		return r;
	*ret = named;
	/* a text that speaks of another branch is about something else */
	if (debian && version_parse(debian + strlen("Debian "), &exact) == 0 &&
		is_same_branch(&named, &exact))
		*ret = exact;
	if (ubuntu && version_parse(ubuntu + 1, &exact) == 0 && is_same_branch(&named, &exact))
		*ret = exact;
	return 0;
}

#define V(...)                                                                                     \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define FLAW(name_, since_, mainline_, ...)                                                        \
	{                                                                                          \
		.name = (name_), .since = since_, .mainline = mainline_, .fixes = { __VA_ARGS__ }  \
	}

/* Only fixes that are known are listed, rather too late a version than too early:
 * a branch that is absent counts as not known to be fixed, and the advice is to
 * ask the distribution. */
static const struct flaw {
	const char *name;
	struct version since;
	struct version mainline;         /* from here on every version is free of it */
	struct version fixes[FIXES_MAX]; /* first good version of older branches */
} flaws[] = {
	FLAW("Dirty Pipe (CVE-2022-0847)", V(5, 8, 0), V(5, 17, 0), V(5, 10, 102), V(5, 15, 25),
		V(5, 16, 11)),
	FLAW("Copy Fail (CVE-2026-31431)", V(4, 14, 0), V(7, 0, 0), V(5, 10, 254), V(5, 15, 204),
		V(6, 1, 170), V(6, 6, 137), V(6, 12, 85), V(6, 18, 22), V(6, 19, 12)),
	FLAW("Dirty Frag (CVE-2026-43284, CVE-2026-43500)", V(4, 11, 0), V(7, 1, 0), V(6, 1, 172),
		V(6, 6, 139), V(6, 12, 88), V(6, 18, 29), V(7, 0, 6)),
};

static bool has_flaw(const struct version *v, const struct flaw *f)
{
	if (version_compare(v, &f->since) < 0 || version_compare(v, &f->mainline) >= 0)
		return false;
	for (size_t i = 0; i < FIXES_MAX && f->fixes[i].major; i++) {
		if (is_same_branch(v, &f->fixes[i]))
			return version_compare(v, &f->fixes[i]) < 0;
	}
	return true;
}

size_t version_page_cache_flaws(const struct version *v, char *buf, size_t size)
{
	size_t n = 0;
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(flaws); i++) {
		if (!has_flaw(v, &flaws[i]))
			continue;
		int w = snprintf(buf + used, size - used, "%s%s", n ? ", " : "", flaws[i].name);
		if (w > 0 && (size_t)w < size - used)
			used += (size_t)w;
		n++;
	}
	return n;
}
