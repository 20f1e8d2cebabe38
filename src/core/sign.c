#include "core/sign.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/str.h"
#include "core/keyfile.h"
#include "core/settings.h"

#define NS_PER_SEC UINT64_C(1000000000)

int sign_load_secret(const struct settings *c, char **ret, struct err *err)
{
	if (!c->ws_signing_secret)
		return keyfile_load(
			c->keys_dir ? c->keys_dir : c->root, "signing_secret", ret, err);
	*ret = xstrdup(c->ws_signing_secret);
	return 0;
}

static void hmac(const void *key, size_t key_size, const char *text, size_t size,
	unsigned char ret[EVP_MAX_MD_SIZE])
{
	if (!HMAC(EVP_sha256(), key, (int)key_size, (const unsigned char *)text, size, ret, NULL))
		abort();
}

static void write_hex(const unsigned char *raw, char ret[SIGN_SIZE + 1])
{
	str_hex(raw, SIGN_SIZE / 2, ret);
}

void sign_make(const char *secret, const char *run_id, uint64_t exp_sec, char ret[SIGN_SIZE + 1])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	char text[128];
	int n = snprintf(text, sizeof(text), "%s:%" PRIu64, run_id, exp_sec);

	/* Ids are UUIDs; a cut one would be signed for others that begin like it. */
	if (n < 0 || (size_t)n >= sizeof(text))
		abort();
	hmac(secret, strlen(secret), text, (size_t)n, raw);
	write_hex(raw, ret);
}

/* With a key of its own, derived from the secret, so that no text of the other kind is ever
 * signed with it. What is free to choose, the path, comes last. */
void sign_make_file(const char *secret, enum sign_reach reach, const char *session_id,
	const char *path, uint64_t exp_sec, char ret[SIGN_SIZE + 1])
{
	static const char *const purposes[] = {
		[SIGN_REMOTE] = "files of sessions",
		[SIGN_LOCAL] = "files of sessions, for local clients",
	};
	const char *purpose = purposes[reach];
	unsigned char key[EVP_MAX_MD_SIZE];
	unsigned char raw[EVP_MAX_MD_SIZE];
	AUTO_FREE char *text = NULL;
	int n = asprintf(&text, "%s\n%" PRIu64 "\n%s", session_id, exp_sec, path);

	if (n < 0)
		abort();
	hmac(secret, strlen(secret), purpose, strlen(purpose), key);
	hmac(key, SIGN_SIZE / 2, text, (size_t)n, raw);
	explicit_bzero(key, sizeof(key));
	write_hex(raw, ret);
}

static int parse_exp(const char *text, uint64_t *ret_sec)
{
	uint64_t ns = 0;

	if (str_parse_u64(text, UINT64_MAX / NS_PER_SEC, ret_sec) == 0)
		return 0;
	int r = date_parse(text, &ns);
	if (r == 0)
		*ret_sec = ns / NS_PER_SEC;
	return r;
}

static int compare(const char *right, const char *token, uint64_t exp_sec, uint64_t now_sec)
{
	if (CRYPTO_memcmp(right, token, SIGN_SIZE) != 0)
		return -EACCES;
	return exp_sec > now_sec ? 0 : -ETIME;
}

int sign_check(const char *secret, const char *run_id, const char *exp, const char *token,
	uint64_t now_sec)
{
	char right[SIGN_SIZE + 1];
	uint64_t exp_sec = 0;

	if (!exp || !token || strlen(token) != SIGN_SIZE || strlen(run_id) > 64 ||
		parse_exp(exp, &exp_sec) < 0)
		return -EACCES;
	sign_make(secret, run_id, exp_sec, right);
	return compare(right, token, exp_sec, now_sec);
}

int sign_check_file(
	const char *secret, enum sign_reach reach, const struct sign_claim *claim, uint64_t now_sec)
{
	char right[SIGN_SIZE + 1];
	uint64_t exp_sec = 0;

	/* A line break in the id would let it reach into what follows. */
	if (!claim->exp || !claim->token || strlen(claim->token) != SIGN_SIZE ||
		strchr(claim->session_id, '\n') || parse_exp(claim->exp, &exp_sec) < 0)
		return -EACCES;
	sign_make_file(secret, reach, claim->session_id, claim->path, exp_sec, right);
	return compare(right, claim->token, exp_sec, now_sec);
}
