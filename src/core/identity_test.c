#include "core/identity.h"

#include <string.h>

#include "base/str.h"
#include "lib/test.h"

#define TEN  "0123456789"
#define ID64 TEN TEN TEN TEN TEN TEN "abcd"

TEST(a_user_id_can_be_a_directory_and_nothing_else)
{
	static const char *const good[] = { "a", "Alice.B-c_d@example.org", "-", "_", ID64, "a.." };
	static const char *const bad[] = { "", ".", "..", ".a", "a/b", "a b", "a\n", "\xc3\xa4",
		ID64 "e", "a:b", "images", "api_key", "users", "audit", "keeper.sock" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(identity_is_user_id(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!identity_is_user_id(bad[i]));
}

TEST(a_bad_id_changes_nothing)
{
	struct identity id = { .user_id = "before" };

	CHECK(!identity_make("../x", true, &id));
	CHECK_STR(id.user_id, "before");
	CHECK(!id.admin);
	CHECK(identity_make(ID64, true, &id));
	CHECK_STR(id.user_id, ID64);
	CHECK(id.admin);
}

TESTS(UNIT(a_user_id_can_be_a_directory_and_nothing_else), UNIT(a_bad_id_changes_nothing))
