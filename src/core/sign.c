#include "core/sign.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void sign_make(const char *secret, const char *run_id, uint64_t exp_sec, char ret[SIGN_SIZE + 1])
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	char text[128];
	int n = snprintf(text, sizeof(text), "%s:%" PRIu64, run_id, exp_sec);

	/* Ids are UUIDs; a cut one would be signed for others that begin like it. */
	if (n < 0 || (size_t)n >= sizeof(text) ||
		!HMAC(EVP_sha256(), secret, (int)strlen(secret), (unsigned char *)text, (size_t)n,
			raw, NULL))
		abort();
	for (size_t i = 0; i < SIGN_SIZE / 2; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", raw[i]);
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

int sign_check(const char *secret, const char *run_id, const char *exp, const char *token,
	uint64_t now_sec)
{
	char right[SIGN_SIZE + 1];
	uint64_t exp_sec = 0;

	if (!exp || !token || strlen(token) != SIGN_SIZE || strlen(run_id) > 64 ||
		parse_exp(exp, &exp_sec) < 0)
		return -EACCES;
	sign_make(secret, run_id, exp_sec, right);
	if (CRYPTO_memcmp(right, token, SIGN_SIZE) != 0)
		return -EACCES;
	return exp_sec > now_sec ? 0 : -ETIME;
}
