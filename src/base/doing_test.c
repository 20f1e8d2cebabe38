#include "base/doing.h"

#include "lib/test.h"

TEST(what_is_done_within_something_ends_before_it)
{
	CHECK(doing_what() == NULL);
	const char *before = doing_begin("outer");
	const char *within = doing_begin("inner");
	CHECK_STR(doing_what(), "inner");
	doing_end(within);
	CHECK_STR(doing_what(), "outer");
	doing_end(before);
	CHECK(doing_what() == NULL);
}

TESTS(UNIT(what_is_done_within_something_ends_before_it))
