/* The URLs a repository may be fetched from, and how to speak about one without giving its
 * password away. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

#define GIT_URL_MAX 2048u

/* Check `url`: "scheme://[user[:password]@]host[:port]/path", or "file:///path", with a
 * scheme that we know and that `allow`, ended by NULL, names. -EINVAL for one that is
 * malformed, -EPERM for one that is not allowed; the sentence holds no secret. What looks like
 * "host:path", "ext::command" or a bare path is malformed. */
int git_url_check(const char *url, char *const *allow, struct err *err);

/* Without user, password, query and fragment: for logs. */
void git_url_show(const char *url, char *ret, size_t size);

/* Put stars where `text` repeats what stands before the "@" of `url`, or the part of that
 * which is the password, or what follows its "?"; in place. */
void git_url_scrub(const char *url, char *text);
