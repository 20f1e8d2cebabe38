#include "core/token.h"

#include <errno.h>
#include <jwt.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "core/identity.h"
#include "core/settings.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define NOW    1700000000
#define CLAIMS "\"sub\":\"alice\",\"exp\":1700000001"

/* Made in Python with hmac; its exp is the year 2100, its role admin. */
#define FROM_PYTHON                                                                                \
	"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."                                                    \
	"eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwicm9sZSI6ImFkbWluIn0."                         \
	"l7mNDBXzIEi7-PA4vNykPDaOPLaD8gNwaPjI_9xpG1g"
#define UNSIGNED                                                                                   \
	"eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0."                                                     \
	"eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMCwicm9sZSI6ImFkbWluIn0."

static char secret[] = SECRET;
static char hs256[] = "HS256";
static char rs256[] = "RS256";
static char es256[] = "ES256";

/* A token with these headers, beside its own, and these claims; the caller frees it. */
static char *make_token_with(
	const char *headers, jwt_alg_t alg, const char *key, const char *claims)
{
	jwt_t *jwt = NULL;

	CHECK_EQ(jwt_new(&jwt), 0);
	CHECK_EQ(jwt_add_headers_json(jwt, headers), 0);
	CHECK_EQ(jwt_add_grants_json(jwt, claims), 0);
	CHECK_EQ(jwt_set_alg(jwt, alg, (const unsigned char *)key, (int)strlen(key)), 0);
	char *text = jwt_encode_str(jwt);
	CHECK(text != NULL);
	jwt_free(jwt);
	return text;
}

static char *make_token(jwt_alg_t alg, const char *key, const char *claims)
{
	return make_token_with("{}", alg, key, claims);
}

static struct token *open_token(struct settings *c)
{
	struct token *t = NULL;
	struct err err = { 0 };

	if (token_open(c, &t, &err) < 0)
		fail_msg("%s", err.text);
	return t;
}

static int check_claims(struct settings *c, const char *claims, struct identity *ret)
{
	CLEANUP(token_freep) struct token *t = open_token(c);
	AUTO_FREE char *text = make_token(JWT_ALG_HS256, SECRET, claims);

	return token_check(t, text, NOW, ret);
}

TEST(somebody_elses_good_token_is_good_here)
{
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };
	CLEANUP(token_freep) struct token *t = open_token(&c);
	struct identity id = { 0 };

	CHECK_EQ(token_check(t, FROM_PYTHON, NOW, &id), 0);
	CHECK_STR(id.user_id, "alice");
	CHECK(id.admin);
	CHECK_EQ(token_check(t, FROM_PYTHON, 4102444799, &id), 0);
	CHECK_EQ(token_check(t, FROM_PYTHON, 4102444800, &id), -EACCES);
}

TEST(a_signature_must_be_there_and_right)
{
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };
	CLEANUP(token_freep) struct token *t = open_token(&c);
	struct identity id = { .user_id = "before" };
	AUTO_FREE char *other =
		make_token(JWT_ALG_HS256, "another secret of thirty-two bytes", "{" CLAIMS "}");
	AUTO_FREE char *longer = make_token(JWT_ALG_HS512, SECRET, "{" CLAIMS "}");
	char cut[] = FROM_PYTHON;

	CHECK_EQ(token_check(t, other, NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, longer, NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, UNSIGNED, NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, UNSIGNED "AAAA", NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, "a.b.c", NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, "..", NOW, &id), -EACCES);
	cut[strlen(cut) - 1] = '\0';
	CHECK_EQ(token_check(t, cut, NOW, &id), -EACCES);
	*strrchr(cut, '.') = '\0';
	CHECK_EQ(token_check(t, cut, NOW, &id), -EACCES);
	cut[50] ^= 1;
	CHECK_EQ(token_check(t, cut, NOW, &id), -EACCES);
	CHECK_STR(id.user_id, "before");
}

TEST(a_token_that_demands_an_extension_is_refused)
{
	static const char *const crits[] = { "{\"crit\":[\"b64\"],\"b64\":false}",
		"{\"crit\":[\"x\"]}", "{\"crit\":[]}", "{\"crit\":\"exp\"}", "{\"crit\":null}" };
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };
	CLEANUP(token_freep) struct token *t = open_token(&c);
	struct identity id = { .user_id = "before" };

	for (size_t i = 0; i < ARRAY_SIZE(crits); i++) {
		AUTO_FREE char *text =
			make_token_with(crits[i], JWT_ALG_HS256, SECRET, "{" CLAIMS "}");

		CHECK_EQ(token_check(t, text, NOW, &id), -EACCES);
	}
	AUTO_FREE char *harmless =
		make_token_with("{\"kid\":\"1\"}", JWT_ALG_HS256, SECRET, "{" CLAIMS "}");
	CHECK_EQ(token_check(t, harmless, NOW, &id), 0);
}

TEST(claims_are_checked)
{
	static const struct {
		const char *claims;
		int r;
	} rows[] = {
		{ "{" CLAIMS "}", 0 },
		{ "{\"sub\":\"alice\",\"exp\":1700000000.5}", 0 },
		{ "{\"sub\":\"alice\"}", -EACCES },
		{ "{\"sub\":\"alice\",\"exp\":1700000000}", -EACCES },
		{ "{\"sub\":\"alice\",\"exp\":\"1700000001\"}", -EACCES },
		{ "{\"sub\":\"alice\",\"exp\":null}", -EACCES },
		{ "{\"exp\":1700000001}", -EACCES },
		{ "{\"sub\":7,\"exp\":1700000001}", -EACCES },
		{ "{\"sub\":\"\",\"exp\":1700000001}", -EACCES },
		{ "{\"sub\":\"../etc\",\"exp\":1700000001}", -EACCES },
		{ "{\"sub\":\"images\",\"exp\":1700000001}", -EACCES },
		{ "{" CLAIMS ",\"nbf\":1700000000}", 0 },
		{ "{" CLAIMS ",\"nbf\":1700000001}", -EACCES },
		{ "{" CLAIMS ",\"nbf\":\"soon\"}", -EACCES },
	};
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };
	struct identity id;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (check_claims(&c, rows[i].claims, &id) != rows[i].r)
			fail_msg("%s", rows[i].claims);
	}
}

TEST(issuer_and_audience_are_checked_when_set)
{
	char issuer[] = "me";
	char audience[] = "box";
	struct settings c = { .jwt_alg = hs256,
		.jwt_secret = secret,
		.jwt_issuer = issuer,
		.jwt_audience = audience };
	struct identity id;

	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"iss\":\"me\",\"aud\":\"box\"}", &id), 0);
	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"iss\":\"me\",\"aud\":[\"x\",\"box\"]}", &id), 0);
	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"iss\":\"me\",\"aud\":[\"x\"]}", &id), -EACCES);
	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"iss\":\"me\"}", &id), -EACCES);
	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"aud\":\"box\"}", &id), -EACCES);
	CHECK_EQ(check_claims(&c, "{" CLAIMS ",\"iss\":[\"me\"],\"aud\":\"box\"}", &id), -EACCES);
}

TEST(roles_make_an_admin)
{
	static const struct {
		const char *claims;
		bool admin;
	} rows[] = {
		{ "{" CLAIMS "}", false },
		{ "{" CLAIMS ",\"role\":\"admin\"}", true },
		{ "{" CLAIMS ",\"role\":\"Admin\"}", false },
		{ "{" CLAIMS ",\"role\":true}", false },
		{ "{" CLAIMS ",\"role\":\"sandbox_admin\"}", true },
		{ "{" CLAIMS ",\"role\":[\"sandbox_admin\"]}", false },
		{ "{" CLAIMS ",\"is_admin\":true}", true },
		{ "{" CLAIMS ",\"is_admin\":false}", false },
		{ "{" CLAIMS ",\"is_admin\":1}", false },
		{ "{" CLAIMS ",\"is_admin\":\"true\"}", false },
		{ "{" CLAIMS ",\"roles\":[\"user\",\"admin\"]}", true },
		{ "{" CLAIMS ",\"roles\":[\"sandbox_admin\"]}", true },
		{ "{" CLAIMS ",\"roles\":[\"user\"]}", false },
		{ "{" CLAIMS ",\"roles\":{\"admin\":true}}", false },
	};
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct identity id = { 0 };
		CHECK_EQ(check_claims(&c, rows[i].claims, &id), 0);
		CHECK_EQ(id.admin, rows[i].admin);
	}
}

/* Both halves of a fresh key, as PEM; the caller frees them. */
static void make_pair(EVP_PKEY *key, char **ret_private, char **ret_public)
{
	for (int i = 0; i < 2; i++) {
		BIO *bio = BIO_new(BIO_s_mem());
		char *at = NULL;

		CHECK_EQ(i ? PEM_write_bio_PUBKEY(bio, key)
			   : PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL),
			1);
		long n = BIO_get_mem_data(bio, &at);
		*(i ? ret_public : ret_private) = strndup(at, (size_t)n);
		BIO_free(bio);
	}
	EVP_PKEY_free(key);
}

static void check_public(EVP_PKEY *key, char *alg, jwt_alg_t jwt_alg)
{
	SCRATCH(dir);
	AUTO_FREE char *private = NULL;
	AUTO_FREE char *public = NULL;
	struct identity id = { 0 };
	char path[96];

	CHECK(key != NULL);
	make_pair(key, &private, &public);
	scratch_write(dir.fd, "key", public);
	(void)snprintf(path, sizeof(path), "%s/key", dir.path);
	struct settings c = { .jwt_alg = alg, .jwt_public_key_file = path };
	CLEANUP(token_freep) struct token *t = open_token(&c);
	AUTO_FREE char *good = make_token(jwt_alg, private, "{" CLAIMS "}");
	CHECK_EQ(token_check(t, good, NOW, &id), 0);
	CHECK_STR(id.user_id, "alice");
	/* The public key is known to everyone: as the secret of an HMAC it proves nothing. */
	AUTO_FREE char *forged = make_token(JWT_ALG_HS256, public, "{" CLAIMS "}");
	CHECK_EQ(token_check(t, forged, NOW, &id), -EACCES);
	good[strlen(good) - 8] ^= 1;
	CHECK_EQ(token_check(t, good, NOW, &id), -EACCES);
	CHECK_EQ(token_check(t, UNSIGNED, NOW, &id), -EACCES);
}

TEST(public_keys_work_and_are_no_secrets)
{
	check_public(EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048), rs256, JWT_ALG_RS256);
	check_public(EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), es256, JWT_ALG_ES256);
}

TEST(a_key_of_the_wrong_kind_is_found_at_the_start)
{
	SCRATCH(dir);
	AUTO_FREE char *private = NULL;
	AUTO_FREE char *public = NULL;
	struct token *t = NULL;
	struct err err = { 0 };
	char path[96];

	make_pair(EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), &private, &public);
	(void)snprintf(path, sizeof(path), "%s/key", dir.path);
	struct settings c = { .jwt_alg = rs256, .jwt_public_key_file = path };
	CHECK_EQ(token_open(&c, &t, &err), -ENOENT);
	scratch_write(dir.fd, "key", public);
	CHECK_EQ(token_open(&c, &t, &err), -EINVAL);
	CHECK(strstr(err.text, path) && strstr(err.text, "RS256"));
	c.jwt_alg = es256;
	scratch_write(dir.fd, "key", private);
	CHECK_EQ(token_open(&c, &t, &err), -EINVAL);
	scratch_write(dir.fd, "key", "swordfish");
	CHECK_EQ(token_open(&c, &t, &err), -EINVAL);
	CHECK(!strstr(err.text, "swordfish"));
}

TEST(a_token_has_a_size)
{
	struct settings c = { .jwt_alg = hs256, .jwt_secret = secret };
	CLEANUP(token_freep) struct token *t = open_token(&c);
	AUTO_FREE char *large = xcalloc(1, 3 * TOKEN_SIZE_MAX);
	struct identity id;

	(void)snprintf(
		large, 3 * TOKEN_SIZE_MAX, "{" CLAIMS ",\"x\":\"%*s\"}", (int)TOKEN_SIZE_MAX, "");
	AUTO_FREE char *text = make_token(JWT_ALG_HS256, SECRET, large);
	CHECK_EQ(token_check(t, text, NOW, &id), -EACCES);
}

TESTS(UNIT(somebody_elses_good_token_is_good_here), UNIT(a_signature_must_be_there_and_right),
	UNIT(a_token_that_demands_an_extension_is_refused), UNIT(claims_are_checked),
	UNIT(issuer_and_audience_are_checked_when_set), UNIT(roles_make_an_admin),
	UNIT(public_keys_work_and_are_no_secrets),
	UNIT(a_key_of_the_wrong_kind_is_found_at_the_start), UNIT(a_token_has_a_size))
