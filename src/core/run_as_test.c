#include "core/run_as.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

#include "base/err.h"
#include "lib/test.h"

TEST(who_is_named_is_found)
{
	struct run_as user = { .uid = 7 };

	CHECK_EQ(run_as_find("root", &user, NULL), 0);
	CHECK_EQ(user.uid, 0);
	CHECK(!user.is_shared);
}

TEST(who_is_named_and_not_there_is_not_replaced)
{
	struct run_as user = { .uid = 7 };
	struct err err = { 0 };

	CHECK_EQ(run_as_find("no-such-user", &user, &err), -ENOENT);
	CHECK_STR(err.text, "there is no user 'no-such-user' to become");
	CHECK_EQ(user.uid, 7);
}

TEST(without_a_name_it_is_our_own_user_or_nobody)
{
	struct run_as user = { 0 };
	bool has_own = getpwnam("belljar") != NULL;

	CHECK_EQ(run_as_find(NULL, &user, NULL), 0);
	CHECK_EQ(user.is_shared, !has_own);
	CHECK_EQ(user.uid, getpwnam(has_own ? "belljar" : "nobody")->pw_uid);
}

TEST(the_environment_says_who_the_server_is)
{
	struct run_as usual = { 0 };

	CHECK_EQ(unsetenv("SANDBOX_RUN_AS"), 0);
	CHECK_EQ(run_as_find(NULL, &usual, NULL), 0);
	CHECK(run_as_is_server(usual.uid));
	CHECK(!run_as_is_server(0));
	CHECK_EQ(setenv("SANDBOX_RUN_AS", "", 1), 0);
	CHECK(run_as_is_server(usual.uid));
	CHECK_EQ(setenv("SANDBOX_RUN_AS", "daemon", 1), 0);
	CHECK(run_as_is_server(getpwnam("daemon")->pw_uid));
	CHECK(!run_as_is_server(usual.uid));
	CHECK_EQ(setenv("SANDBOX_RUN_AS", "no-such-user", 1), 0);
	CHECK(!run_as_is_server(usual.uid));
	CHECK_EQ(unsetenv("SANDBOX_RUN_AS"), 0);
}

TESTS(UNIT(who_is_named_is_found), UNIT(who_is_named_and_not_there_is_not_replaced),
	UNIT(without_a_name_it_is_our_own_user_or_nobody),
	UNIT(the_environment_says_who_the_server_is))
