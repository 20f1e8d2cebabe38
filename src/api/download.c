#include "api/download.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* What may stand between the parts of a header's list. */
#define BLANKS " \t"

void download_etag(const char *sha256, bool is_weak, char ret[DOWNLOAD_ETAG_SIZE])
{
	(void)snprintf(ret, DOWNLOAD_ETAG_SIZE, "%s\"%.*s\"", is_weak ? "W/" : "", DIGEST_HEX_SIZE,
		sha256);
}

/* --- Accept-Encoding --- */

/* Take the next element off a list: its size without blanks around it, and where it begins. */
static size_t next_element(const char **rest, const char **ret)
{
	const char *at = *rest + strspn(*rest, BLANKS ",");
	size_t size = strcspn(at, ",");

	*ret = at;
	*rest = at + size;
	while (size > 0 && strchr(BLANKS, at[size - 1]))
		size--;
	return size;
}

/* The weight "q=0", "q=0.0", ...: the only one that refuses. */
static bool is_refused(const char *at, const char *end)
{
	while (at < end && (at = memchr(at, ';', (size_t)(end - at)))) {
		at += 1 + strspn(at + 1, BLANKS);
		if (end - at < 3 || strncasecmp(at, "q=", 2) != 0)
			continue;
		at += 2;
		return at[strspn(at, "0.")] < '1' || at[strspn(at, "0.")] > '9';
	}
	return false;
}

bool download_takes_gzip(const char *header)
{
	static const char *const names[] = { "gzip", "x-gzip", "*" };
	bool by_star = false;
	const char *at = NULL;

	for (size_t size; header && (size = next_element(&header, &at)) > 0;) {
		size_t n = strcspn(at, ";" BLANKS);
		n = n < size ? n : size;
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			if (strlen(names[i]) != n || strncasecmp(at, names[i], n) != 0)
				continue;
			if (*at != '*')
				return !is_refused(at, at + size);
			by_star = !is_refused(at, at + size);
		}
	}
	return by_star;
}

/* --- what a client has --- */

/* Is this element of a list the tag of `sha256`? */
static bool is_tag(const char *at, size_t size, const char *sha256)
{
	if (size >= 2 && strncmp(at, "W/", 2) == 0) {
		at += 2;
		size -= 2;
	}
	return size == DIGEST_HEX_SIZE + 2 && at[0] == '"' && at[size - 1] == '"' &&
	       strncmp(at + 1, sha256, DIGEST_HEX_SIZE) == 0;
}

bool download_is_known(const char *header, const char *sha256)
{
	const char *at = NULL;

	for (size_t size; header && (size = next_element(&header, &at)) > 0;) {
		if ((size == 1 && *at == '*') || is_tag(at, size, sha256))
			return true;
	}
	return false;
}

bool download_may_resume(const char *header, const char *sha256)
{
	char tag[DOWNLOAD_ETAG_SIZE];

	download_etag(sha256, false, tag);
	return !header || streq(header, tag);
}

/* --- names --- */

static const char unreserved[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

/* Append `c`, escaped when that is safer; where it ends. */
static char *put_escaped(char *to, char c)
{
	static const char digits[] = "0123456789ABCDEF";

	if (strchr(unreserved, c)) {
		*to++ = c;
		return to;
	}
	*to++ = '%';
	*to++ = digits[(unsigned char)c >> 4];
	*to++ = digits[(unsigned char)c & 15];
	return to;
}

/* In quotes: printable ASCII but what quotes and clients give a meaning. */
static char *put_plain(char *to, const char *name)
{
	for (; *name; name++)
		*to++ = *name >= ' ' && *name < 0x7f && !strchr("\"\\%/", *name) ? *name : '_';
	return to;
}

void download_disposition(const char *path, char *ret)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *to = stpcpy(ret, "attachment; filename=\"");

	to = put_plain(to, name);
	to = stpcpy(to, "\"; filename*=UTF-8''");
	for (; *name; name++)
		to = put_escaped(to, *name);
	*to = '\0';
}
