#include "core/auth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "core/keyfile.h"
#include "core/settings.h"
#include "core/token.h"
#include "core/users.h"

#define CREDENTIAL_SIZE_MAX (16u << 10)

/* What is not configured is NULL, and lets nobody in. */
struct auth {
	char *key;
	struct users *users;
	struct token *token;
};

/* The file that is named, or the one that `belljar user` makes, whenever it does. */
static int open_users(struct auth *a, const struct settings *c, struct err *err)
{
	if (c->users_file)
		return users_open(c->users_file, &a->users, err);
	return c->root ? users_open_default(c->root, &a->users, err) : 0;
}

static int open_key(struct auth *a, const struct settings *c, struct err *err)
{
	if (c->auth_mode != AUTH_MODE_KEY)
		return 0;
	if (!c->api_key)
		return keyfile_load(c->keys_dir ? c->keys_dir : c->root, "api_key", &a->key, err);
	a->key = xstrdup(c->api_key);
	return 0;
}

int auth_open(const struct settings *c, struct auth **ret, struct err *err)
{
	CLEANUP(auth_freep) struct auth *a = xnew(struct auth);
	int r = open_key(a, c, err);
	if (r == 0)
		r = open_users(a, c, err);
	if (r == 0 && c->jwt_alg)
		r = token_open(c, &a->token, err);

	if (r == 0)
		*ret = TAKE(a);
	return r;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	keyfile_wipe(a->key);
	users_free(a->users);
	token_free(a->token);
	free(a);
}

/* By their digests, so that neither where they differ nor how long the right one is shows. */
static bool is_same_key(const char *a, const char *b)
{
	unsigned char left[SHA256_DIGEST_LENGTH];
	unsigned char right[SHA256_DIGEST_LENGTH];

	(void)SHA256((const unsigned char *)a, strlen(a), left);
	(void)SHA256((const unsigned char *)b, strlen(b), right);
	return CRYPTO_memcmp(left, right, sizeof(left)) == 0;
}

static int check_key(struct auth *a, const char *key, struct identity *ret)
{
	if (a->key && is_same_key(a->key, key))
		return identity_make(AUTH_SINGLE_USER, true, ret) ? 0 : -EACCES;
	const struct user *user = a->users ? users_find_key(a->users, key) : NULL;
	return user && identity_make(user->name, user->admin, ret) ? 0 : -EACCES;
}

/* The value behind a scheme we know, or NULL. */
static const char *find_credential(const char *authorization)
{
	static const char *const schemes[] = { "Bearer", "X-API-KEY" };

	authorization += strspn(authorization, " \t");
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (strncasecmp(authorization, schemes[i], n) == 0 &&
			(authorization[n] == ' ' || authorization[n] == '\t'))
			return authorization + n + strspn(authorization + n, " \t");
	}
	return NULL;
}

static bool looks_like_token(const char *text)
{
	const char *first = strchr(text, '.');
	const char *second = first ? strchr(first + 1, '.') : NULL;

	return second && !strchr(second + 1, '.');
}

/* Blanks around a header's value are no part of it. */
static bool is_empty(const char *text)
{
	return !text || text[strspn(text, " \t")] == '\0';
}

int auth_check(struct auth *a, const char *api_key, const char *authorization, struct identity *ret)
{
	bool by_key = !is_empty(api_key);

	if (!by_key && is_empty(authorization))
		return -ENOENT;
	const char *text = by_key ? api_key : find_credential(authorization);
	if (!text || strlen(text) > CREDENTIAL_SIZE_MAX)
		return -EACCES;
	if (!by_key && a->token && looks_like_token(text))
		return token_check(a->token, text, (int64_t)time(NULL), ret);
	return check_key(a, text, ret);
}

int auth_local(const struct auth *a, struct identity *ret)
{
	return a->key && identity_make(AUTH_SINGLE_USER, true, ret) ? 0 : -ENOENT;
}

const char *auth_single_key(const struct auth *a)
{
	return a->key;
}
