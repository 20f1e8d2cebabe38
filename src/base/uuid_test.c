#include "base/uuid.h"

#include <string.h>

#include "lib/test.h"

TEST(a_made_one_is_valid_and_of_version_4)
{
	char a[UUID_SIZE + 1];
	char b[UUID_SIZE + 1];

	uuid_make(a);
	uuid_make(b);
	CHECK(uuid_is_valid(a));
	CHECK_EQ(a[14], '4');
	CHECK(strchr("89ab", a[19]) != NULL);
	CHECK(strcmp(a, b) != 0);
}

TEST(what_is_not_one_is_not_valid)
{
	static const char *const bad[] = {
		"",
		"123e4567-e89b-42d3-a456-42661417400",
		"123e4567-e89b-42d3-a456-4266141740000",
		"123E4567-e89b-42d3-a456-426614174000",
		"123e4567ae89b-42d3-a456-426614174000",
		"123e4567-e89b-42d3-a456-42661417400/",
	};

	CHECK(uuid_is_valid("123e4567-e89b-42d3-a456-426614174000"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(!uuid_is_valid(bad[i]));
}

TEST(dashes_come_and_go)
{
	char hex[33];
	char back[UUID_SIZE + 1];

	uuid_to_hex("123e4567-e89b-42d3-a456-426614174000", hex);
	CHECK_STR(hex, "123e4567e89b42d3a456426614174000");
	uuid_from_hex(hex, back);
	CHECK_STR(back, "123e4567-e89b-42d3-a456-426614174000");
}

TESTS(UNIT(a_made_one_is_valid_and_of_version_4), UNIT(what_is_not_one_is_not_valid),
	UNIT(dashes_come_and_go))
