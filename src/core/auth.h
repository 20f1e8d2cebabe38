/* Who is asking: from the values of two headers to an identity. Knows nothing of HTTP. The
 * server has one `struct auth`, on its loop thread.
 *
 * For one user: the key of SANDBOX_API_KEY, or of <root>/data/api_key, which is made at the first
 * start; the user is "single_user" and an admin. Users in <root>/users come in addition, as soon
 * as they are there. With SANDBOX_USERS_FILE or tokens (token.h), or both, there is no such key. */
#pragma once
#include <stdbool.h>

#include "base/cleanup.h"
#include "core/identity.h"

struct auth;
struct err;
struct settings;

#define AUTH_SINGLE_USER "single_user"

/* `c` must outlive it. Returns 0 with an object the caller must auth_free(). */
int auth_open(const struct settings *c, struct auth **ret, struct err *err);
void auth_free(struct auth *a);

/* The values of the headers X-API-KEY and Authorization, either may be NULL. With both, the
 * first counts. "Bearer x" and "X-API-KEY x" are understood; an x that is not like a.b.c is
 * a key. Returns 0, -ENOENT without credentials, or -EACCES for wrong ones: both are a 401.
 * Takes the same time for any wrong key of one length. */
int auth_check(
	struct auth *a, const char *api_key, const char *authorization, struct identity *ret);

/* Who comes without credentials by a socket that only the server's owner and root can use: whose
 * the key is, 0; or where there is no such key nobody, -ENOENT. */
int auth_local(const struct auth *a, struct identity *ret);

/* The key of whoever starts the server; NULL when a users file or tokens were asked for. */
const char *auth_single_key(const struct auth *a);

DEFINE_CLEANUP(struct auth, auth_free)
