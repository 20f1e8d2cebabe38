#include "core/sign.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "core/keyfile.h"
#include "core/settings.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define SECRET "test-secret"
#define EXP    UINT64_C(1700000000)
#define TOKEN  "9cebdfeda94a489cc91ed675e55a977e65cf284b8a5a092ce6f09017ee535a54"

TEST(the_vector_of_the_interface)
{
	char token[SIGN_SIZE + 1];

	sign_make(SECRET, "run-1", EXP, token);
	CHECK_STR(token, TOKEN);
}

TEST(a_good_token_is_good_until_its_moment)
{
	CHECK_EQ(sign_check(SECRET, "run-1", "1700000000", TOKEN, EXP - 1), 0);
	CHECK_EQ(sign_check(SECRET, "run-1", "1700000000", TOKEN, EXP), -ETIME);
	CHECK_EQ(sign_check(SECRET, "run-1", "1700000000", TOKEN, EXP + 1), -ETIME);
	CHECK_EQ(sign_check(SECRET, "run-1", "2023-11-14T22:13:20Z", TOKEN, EXP - 1), 0);
	CHECK_EQ(sign_check(SECRET, "run-1", "2023-11-14T22:13:20", TOKEN, EXP - 1), 0);
	CHECK_EQ(sign_check(SECRET, "run-1", "2023-11-14T23:13:20+01:00", TOKEN, EXP - 1), 0);
}

TEST(anything_else_is_refused)
{
	static const struct {
		const char *secret;
		const char *run;
		const char *exp;
		const char *token;
	} bad[] = {
		{ "test-secres", "run-1", "1700000000", TOKEN },
		{ SECRET, "run-2", "1700000000", TOKEN },
		{ SECRET, "run-1", "1700000001", TOKEN },
		{ SECRET, "run-1:1", "700000000", TOKEN },
		{ SECRET, "run-1", "2023-11-14T22:13:21Z", TOKEN },
		{ SECRET, "run-1", "", TOKEN },
		{ SECRET, "run-1", "-1", TOKEN },
		{ SECRET, "run-1", "99999999999999999999", TOKEN },
		{ SECRET, "run-1", NULL, TOKEN },
		{ SECRET, "run-1", "1700000000", NULL },
		{ SECRET, "run-1", "1700000000", "" },
		{ SECRET, "run-1", "1700000000", TOKEN "0" },
		{ SECRET, "run-1", "1700000000",
			"9CEBDFEDA94A489CC91ED675E55A977E65CF284B8A5A092CE6F09017EE535A54" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(sign_check(bad[i].secret, bad[i].run, bad[i].exp, bad[i].token, 1),
			-EACCES);
}

#define SESSION "0e4e8a2a-4c7c-4c31-9d3c-0123456789ab"

static int check_file(const char *session_id, const char *path, const char *exp, const char *token)
{
	struct sign_claim claim = { session_id, path, exp, token };

	return sign_check_file(SECRET, SIGN_REMOTE, &claim, EXP - 1);
}

TEST(a_file_is_signed_by_session_path_and_moment)
{
	char token[SIGN_SIZE + 1];
	struct sign_claim claim = { SESSION, "a/b.txt", "1700000000", token };

	sign_make_file(SECRET, SIGN_REMOTE, SESSION, "a/b.txt", EXP, token);
	CHECK_EQ(sign_check_file(SECRET, SIGN_REMOTE, &claim, EXP - 1), 0);
	CHECK_EQ(sign_check_file(SECRET, SIGN_REMOTE, &claim, EXP), -ETIME);
	CHECK_EQ(sign_check_file("another", SIGN_REMOTE, &claim, EXP - 1), -EACCES);
	CHECK_EQ(check_file(SESSION, "a/c.txt", "1700000000", token), -EACCES);
	CHECK_EQ(check_file(SESSION, "a/b.txt", "1700000001", token), -EACCES);
	CHECK_EQ(check_file("1" SESSION, "a/b.txt", "1700000000", token), -EACCES);
	CHECK_EQ(check_file(SESSION, "a/b.txt", "1700000000", NULL), -EACCES);
	CHECK_EQ(check_file(SESSION, "a/b.txt", NULL, token), -EACCES);
	CHECK_EQ(check_file(SESSION, "a/b.txt", "soon", token), -EACCES);
}

TEST(signatures_of_one_kind_are_none_of_the_other)
{
	char token[SIGN_SIZE + 1];

	sign_make(SECRET, SESSION, EXP, token);
	CHECK_EQ(check_file(SESSION, "", "1700000000", token), -EACCES);
	CHECK_EQ(check_file("", SESSION ":1700000000", "1700000000", token), -EACCES);
	/* A URL of a local client is good where those of others are not, so they differ. */
	struct sign_claim claim = { SESSION, "a", "1700000000", token };
	sign_make_file(SECRET, SIGN_LOCAL, SESSION, "a", EXP, token);
	CHECK_EQ(sign_check_file(SECRET, SIGN_LOCAL, &claim, EXP - 1), 0);
	CHECK_EQ(sign_check_file(SECRET, SIGN_REMOTE, &claim, EXP - 1), -EACCES);
	sign_make_file(SECRET, SIGN_REMOTE, SESSION, "a", EXP, token);
	CHECK_EQ(sign_check_file(SECRET, SIGN_LOCAL, &claim, EXP - 1), -EACCES);
	/* What stands before and behind a line break can not be exchanged. */
	sign_make_file(SECRET, SIGN_REMOTE, "a", "1700000000\nb", EXP, token);
	CHECK_EQ(check_file("a\n1700000000", "b", "1700000000", token), -EACCES);
	CHECK_EQ(sign_check(SECRET, "a", "1700000000", token, 1), -EACCES);
}

TEST(the_secret_is_that_of_the_settings_or_made)
{
	SCRATCH(dir);
	char given[] = "from-the-settings";
	struct settings c = { .root = dir.path, .ws_signing_secret = given };
	struct err err = { 0 };
	char *secret = NULL;

	CHECK_EQ(sign_load_secret(&c, &secret, &err), 0);
	CHECK_STR(secret, given);
	keyfile_wipe(secret);
	CHECK(!scratch_has(dir.fd, "signing_secret"));
	c.ws_signing_secret = NULL;
	CHECK_EQ(sign_load_secret(&c, &secret, &err), 0);
	CHECK_EQ(strlen(secret), KEYFILE_KEY_SIZE);
	keyfile_wipe(secret);
	CHECK(scratch_has(dir.fd, "signing_secret"));
}

TESTS(UNIT(the_vector_of_the_interface), UNIT(a_good_token_is_good_until_its_moment),
	UNIT(anything_else_is_refused), UNIT(a_file_is_signed_by_session_path_and_moment),
	UNIT(signatures_of_one_kind_are_none_of_the_other),
	UNIT(the_secret_is_that_of_the_settings_or_made))
