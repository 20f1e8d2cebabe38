#include "core/token.h"

#include <errno.h>
#include <fcntl.h>
#include <jwt.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/identity.h"
#include "core/settings.h"

#define KEY_FILE_MAX ((size_t)64 << 10)

/* What an algorithm is called here, in libjwt, and the kind of its public key. */
static const struct algorithm {
	const char *name;
	jwt_alg_t jwt;
	int key; /* EVP_PKEY_..., 0 for a shared secret */
} algorithms[] = {
	{ "HS256", JWT_ALG_HS256, 0 },
	{ "RS256", JWT_ALG_RS256, EVP_PKEY_RSA },
	{ "ES256", JWT_ALG_ES256, EVP_PKEY_EC },
};

struct token {
	const struct settings *c;
	const struct algorithm *algorithm;
	char *key;
	size_t key_size;
};

static const struct algorithm *find_algorithm(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(algorithms); i++) {
		if (streq(algorithms[i].name, name))
			return &algorithms[i];
	}
	return NULL;
}

/* libjwt would find out with the first token; better when the server starts. */
static int check_public_key(const struct token *t, const char *path, struct err *err)
{
	BIO *bio = BIO_new_mem_buf(t->key, (int)t->key_size);
	EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
	int kind = key ? EVP_PKEY_get_base_id(key) : 0;

	EVP_PKEY_free(key);
	BIO_free(bio);
	ERR_clear_error();
	if (kind == t->algorithm->key)
		return 0;
	return err_set(err, -EINVAL,
		"SANDBOX_JWT_PUBLIC_KEY_FILE: %.100s is not a PEM public key for %s", path,
		t->algorithm->name);
}

static int read_public_key(struct token *t, const char *path, struct err *err)
{
	AUTO_FD fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, KEY_FILE_MAX, &t->key, &t->key_size);

	if (r < 0)
		return err_set(
			err, r, "SANDBOX_JWT_PUBLIC_KEY_FILE: %.128s: %s", path, strerror(-r));
	return check_public_key(t, path, err);
}

int token_open(const struct settings *c, struct token **ret, struct err *err)
{
	CLEANUP(token_freep) struct token *t = xnew(struct token);
	int r = 0;

	t->c = c;
	t->algorithm = find_algorithm(c->jwt_alg);
	if (!t->algorithm)
		return err_set(err, -EINVAL, "SANDBOX_JWT_ALG: '%.32s' is not known", c->jwt_alg);
	if (t->algorithm->key) {
		r = read_public_key(t, c->jwt_public_key_file, err);
	} else {
		t->key = xstrdup(c->jwt_secret);
		t->key_size = strlen(t->key);
	}
	if (r == 0)
		*ret = TAKE(t);
	return r;
}

void token_free(struct token *t)
{
	if (!t)
		return;
	if (t->key)
		explicit_bzero(t->key, t->key_size);
	free(t->key);
	free(t);
}

/* A token with a `crit` header demands that its reader understands the extensions it names
 * (RFC 7515, 4.1.11). No extension is understood here. */
static bool demands_extension(jwt_t *jwt)
{
	AUTO_FREE char *crit = jwt_get_headers_json(jwt, "crit");

	return crit != NULL;
}

/* The claims of a token that is signed with our key. Decoding checks the signature by the
 * algorithm that the token names: what makes it ours is that this is the one we want. */
static json_t *read_claims(const struct token *t, const char *text)
{
	jwt_t *jwt = NULL;
	json_t *claims = NULL;

	if (jwt_decode(&jwt, text, (const unsigned char *)t->key, (int)t->key_size) != 0)
		return NULL;
	bool is_ours = jwt_get_alg(jwt) == t->algorithm->jwt && !demands_extension(jwt);
	AUTO_FREE char *json = is_ours ? jwt_get_grants_json(jwt, NULL) : NULL;
	jwt_free(jwt);
	if (json && json_read(json, strlen(json), &claims, NULL) < 0)
		return NULL;
	return claims;
}

/* A time that is there must be a number. */
static bool time_is_ok(const json_t *claims, int64_t now_sec)
{
	const json_t *exp = json_object_get(claims, "exp");
	const json_t *nbf = json_object_get(claims, "nbf");

	if (!json_is_number(exp) || json_number_value(exp) <= (double)now_sec)
		return false;
	return !nbf || (json_is_number(nbf) && json_number_value(nbf) <= (double)now_sec);
}

static bool is_text(const json_t *value, const char *text)
{
	return json_is_string(value) && streq(json_string_value(value), text);
}

/* `value` is the text, or a list that holds it. */
static bool holds_text(const json_t *value, const char *text)
{
	size_t i;
	const json_t *item;

	json_array_foreach(value, i, item)
	{
		if (is_text(item, text))
			return true;
	}
	return is_text(value, text);
}

/* By a claim that is true, or by a role. */
static bool is_admin(const json_t *claims)
{
	static const char *const names[] = { "admin", "sandbox_admin" };
	const json_t *role = json_object_get(claims, "role");
	const json_t *roles = json_object_get(claims, "roles");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (is_text(role, names[i]) || holds_text(roles, names[i]))
			return true;
	}
	return json_is_true(json_object_get(claims, "is_admin"));
}

int token_check(const struct token *t, const char *text, int64_t now_sec, struct identity *ret)
{
	const struct settings *c = t->c;

	if (strlen(text) > TOKEN_SIZE_MAX)
		return -EACCES;
	AUTO_JSON *claims = read_claims(t, text);
	const char *sub = json_string_value(json_object_get(claims, "sub"));
	if (!sub || !time_is_ok(claims, now_sec))
		return -EACCES;
	if (c->jwt_issuer && !is_text(json_object_get(claims, "iss"), c->jwt_issuer))
		return -EACCES;
	if (c->jwt_audience && !holds_text(json_object_get(claims, "aud"), c->jwt_audience))
		return -EACCES;
	return identity_make(sub, is_admin(claims), ret) ? 0 : -EACCES;
}
