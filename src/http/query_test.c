#include "http/query.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

static void check_unescape(const char *text, const char *want)
{
	char out[64];
	int n = query_unescape(text, strlen(text), out);

	print_message("%s\n", text);
	if (!want) {
		CHECK_EQ(n, -EBADMSG);
		return;
	}
	CHECK_EQ(n, strlen(want));
	CHECK_STR(out, want);
}

TEST(escapes_are_decoded_once)
{
	check_unescape("", "");
	check_unescape("plain", "plain");
	check_unescape("a%20b", "a b");
	check_unescape("%2Fa%2fb", "/a/b");
	check_unescape("%2541", "%41");
	check_unescape("a+b", "a+b");
	check_unescape("%c3%a9", "\xc3\xa9");
}

TEST(what_is_no_escape_is_refused)
{
	check_unescape("%", NULL);
	check_unescape("%4", NULL);
	check_unescape("a%", NULL);
	check_unescape("%zz", NULL);
	check_unescape("%4z", NULL);
	check_unescape("%00", NULL);
	check_unescape("a%00b", NULL);
}

TEST(decoding_may_be_in_place)
{
	char text[] = "%41%42c";

	CHECK_EQ(query_unescape(text, strlen(text), text), 3);
	CHECK_STR(text, "ABc");
}

TEST(pairs_are_found)
{
	char text[] = "a=1&b=x%26y+z&&c&=empty&a=2&d==";
	struct query_pair pairs[QUERY_PAIRS_MAX];
	static const char *const want[][2] = { { "a", "1" }, { "b", "x&y z" }, { "c", "" },
		{ "", "empty" }, { "a", "2" }, { "d", "=" } };

	CHECK_EQ(query_parse(text, pairs), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		CHECK_STR(pairs[i].name, want[i][0]);
		CHECK_STR(pairs[i].value, want[i][1]);
	}
}

TEST(a_malformed_query_is_refused)
{
	struct query_pair pairs[QUERY_PAIRS_MAX];
	char name[] = "a%=1";
	char value[] = "a=%0";
	char nul[] = "a=%00";

	CHECK_EQ(query_parse(name, pairs), -EBADMSG);
	CHECK_EQ(query_parse(value, pairs), -EBADMSG);
	CHECK_EQ(query_parse(nul, pairs), -EBADMSG);
}

TEST(there_is_a_limit_to_pairs)
{
	struct query_pair pairs[QUERY_PAIRS_MAX];
	char most[2 * QUERY_PAIRS_MAX + 1] = "";
	char more[2 * QUERY_PAIRS_MAX + 3] = "";

	for (size_t i = 0; i < QUERY_PAIRS_MAX; i++)
		memcpy(most + 2 * i, "a&", 2);
	memcpy(more, most, sizeof(most));
	memcpy(more + 2 * QUERY_PAIRS_MAX, "b", 2);
	CHECK_EQ(query_parse(most, pairs), QUERY_PAIRS_MAX);
	CHECK_EQ(query_parse(more, pairs), -E2BIG);
}

TESTS(UNIT(escapes_are_decoded_once), UNIT(what_is_no_escape_is_refused),
	UNIT(decoding_may_be_in_place), UNIT(pairs_are_found), UNIT(a_malformed_query_is_refused),
	UNIT(there_is_a_limit_to_pairs))
