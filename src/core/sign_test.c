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
	UNIT(anything_else_is_refused), UNIT(the_secret_is_that_of_the_settings_or_made))
