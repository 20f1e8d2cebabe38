#include "base/percent.h"

#include "lib/test.h"

static void check(const char *text, const char *encoded)
{
	AUTO_FREE char *got = percent_encode(text);

	CHECK_STR(got, encoded);
}

TEST(what_has_a_meaning_in_a_url_is_escaped)
{
	check("", "");
	check("plots/a-b_c.~1/z.png", "plots/a-b_c.~1/z.png");
	check("a b?c#d&e=f%20", "a%20b%3Fc%23d%26e%3Df%2520");
	check("\xc3\xa9\n\x7f", "%C3%A9%0A%7F");
}

TESTS(UNIT(what_has_a_meaning_in_a_url_is_escaped))
