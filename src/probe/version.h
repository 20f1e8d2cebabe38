/* Kernel versions: what the running one really is, and which known flaws it is
 * too old to be free of. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct version {
	unsigned major;
	unsigned minor;
	unsigned patch;
};

/* Read "6.1.76-1-amd64" or "5.15": two or three numbers at the beginning; what
 * stands behind them is ignored. 0 or -EINVAL. */
int version_parse(const char *text, struct version *ret);

/* Below zero, zero or above it, as strcmp() does. */
int version_compare(const struct version *a, const struct version *b);

/* The upstream version of the running kernel. Debian and Ubuntu leave the patch
 * level out of the release ("6.1.0-18-amd64") and name it elsewhere: Debian in
 * `build`, the version field of uname(2), Ubuntu in `signature`, the text of
 * /proc/version_signature. Either may be "". 0 or -EINVAL. */
int version_of_kernel(
	const char *release, const char *build, const char *signature, struct version *ret);

/* Names of the known flaws by which a guest could write to cached pages of files
 * it may only read, and which version `v` is not known to have fixed, separated
 * by ", "; "" when there are none. Returns how many there are. */
size_t version_page_cache_flaws(const struct version *v, char *buf, size_t size);
