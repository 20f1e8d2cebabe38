#include "core/git_url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

/* ssh is missing for two reasons: the server has no key of its own to offer, and libgit2's
 * transport for it does not work on sockets that are ours (core/git_wire.h). */
static const struct scheme {
	const char *name;
	bool is_local; /* has a path and no host */
} schemes[] = {
	{ "https", false },
	{ "http", false },
	{ "git", false },
	{ "file", true },
};

/* The parts of a URL, as offsets into it. */
struct parts {
	size_t n_scheme;
	const char *user; /* what stands before the "@", or NULL */
	size_t n_user;
	const char *host; /* with the port */
	size_t n_host;
	const char *path;
};

static bool split(const char *url, struct parts *ret)
{
	const char *mark = strstr(url, "://");

	if (!mark)
		return false;
	const char *rest = mark + 3;
	size_t n = strcspn(rest, "/?#");
	const char *at = memrchr(rest, '@', n);
	*ret = (struct parts){ .n_scheme = (size_t)(mark - url), .host = rest, .n_host = n };
	ret->path = rest + n;
	if (at) {
		ret->user = rest;
		ret->n_user = (size_t)(at - rest);
		ret->host = at + 1;
		ret->n_host = n - ret->n_user - 1;
	}
	return true;
}

static bool has_only(const char *text, size_t size, const char *more)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (size_t i = 0; i < size; i++)
		if (!text[i] || (!strchr(letters, text[i]) && !strchr(more, text[i])))
			return false;
	return true;
}

/* Nothing, or a colon and digits. */
static bool port_is_good(const char *port, size_t size)
{
	return size == 0 || (port[0] == ':' && strspn(port + 1, "0123456789") >= size - 1);
}

static bool host_is_good(const char *host, size_t size)
{
	if (size == 0 || size > 255 || host[0] == '-' || host[0] == ':')
		return false;
	if (host[0] != '[') {
		const char *colon = memchr(host, ':', size);
		size_t n = colon ? (size_t)(colon - host) : size;

		return has_only(host, n, "0123456789.-_") && port_is_good(host + n, size - n);
	}
	const char *end = memchr(host, ']', size);
	return end && has_only(host + 1, (size_t)(end - host - 1), "0123456789:.") &&
	       port_is_good(end + 1, size - (size_t)(end + 1 - host));
}

static bool text_is_good(const char *url)
{
	for (const char *p = url; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '\\' || *p == '"')
			return false;
	return true;
}

static const struct scheme *find_scheme(const char *url, size_t size)
{
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strlen(schemes[i].name) == size && memcmp(schemes[i].name, url, size) == 0)
			return &schemes[i];
	return NULL;
}

static bool is_allowed(const char *name, char *const *allow)
{
	for (; allow && *allow; allow++)
		if (streq(*allow, name))
			return true;
	return false;
}

int git_url_check(const char *url, char *const *allow, struct err *err)
{
	struct parts p;

	if (strlen(url) > GIT_URL_MAX)
		return err_set(
			err, -EINVAL, "the repository's URL is longer than %u bytes", GIT_URL_MAX);
	if (!text_is_good(url) || !split(url, &p))
		return err_set(err, -EINVAL,
			"the repository must be a URL like https://host/path, without blanks");
	const struct scheme *s = find_scheme(url, p.n_scheme);
	if (!s)
		return err_set(err, -EPERM,
			"the repository's URL must begin with https://, or another scheme that is "
			"allowed here");
	if (!is_allowed(s->name, allow))
		return err_set(err, -EPERM, "%s:// repositories are not allowed here", s->name);
	if (s->is_local && (p.user || p.n_host > 0 || p.path[0] != '/' || strchr(p.path, '%')))
		return err_set(err, -EINVAL, "a file:// URL must be file:///path");
	if (!s->is_local && (!host_is_good(p.host, p.n_host) || p.path[0] != '/'))
		return err_set(err, -EINVAL, "the repository's URL needs a host and a path");
	return 0;
}

void git_url_show(const char *url, char *ret, size_t size)
{
	struct parts p;

	if (!split(url, &p))
		(void)snprintf(ret, size, "(no URL)");
	else
		(void)snprintf(ret, size, "%.*s://%.*s%.*s", (int)p.n_scheme, url, (int)p.n_host,
			p.host, (int)strcspn(p.path, "?#"), p.path);
}

static void hide(char *text, const char *secret, size_t size)
{
	/* Shorter ones are everywhere. */
	if (size < 3)
		return;
	for (char *p = text; (p = memmem(p, strlen(p), secret, size)); p += size)
		memset(p, '*', size);
}

void git_url_scrub(const char *url, char *text)
{
	struct parts p;

	if (!split(url, &p))
		return;
	size_t n_query = strcspn(p.path, "?");
	if (p.path[n_query])
		hide(text, p.path + n_query + 1, strlen(p.path + n_query + 1));
	if (!p.user)
		return;
	hide(text, p.user, p.n_user);
	const char *colon = memchr(p.user, ':', p.n_user);
	if (colon)
		hide(text, colon + 1, p.n_user - (size_t)(colon + 1 - p.user));
}
