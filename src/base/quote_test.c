#include "base/quote.h"

#include <string.h>

#include "lib/test.h"

TEST(plain_names_are_only_quoted)
{
	CHECK_STR(quote("usr/bin/python3").text, "'usr/bin/python3'");
	CHECK_STR(quote("").text, "''");
}

TEST(what_a_terminal_would_obey_is_escaped)
{
	CHECK_STR(quote("a\x1b[31m\n\\\x7f\xc2\x9b").text, "'a\\x1b[31m\\x0a\\x5c\\x7f\\xc2\\x9b'");
}

TEST(long_names_lose_their_middle)
{
	char name[4096];

	memset(name, 'a', sizeof(name));
	memcpy(name, "head", 4);
	memcpy(name + sizeof(name) - 5, "tail", 5);
	struct quoted q = quote(name);
	CHECK(strlen(q.text) < QUOTE_SIZE);
	CHECK(strstr(q.text, "'head") && strstr(q.text, "...") && strstr(q.text, "tail'"));
}

TEST(no_text_overflows)
{
	char name[300];

	for (size_t n = 0; n < sizeof(name); n++) {
		memset(name, '\x01', sizeof(name));
		name[n] = '\0';
		struct quoted q = quote(name);
		CHECK(strlen(q.text) < QUOTE_SIZE);
		CHECK(q.text[0] == '\'' && q.text[strlen(q.text) - 1] == '\'');
	}
}

TESTS(UNIT(plain_names_are_only_quoted), UNIT(what_a_terminal_would_obey_is_escaped),
	UNIT(long_names_lose_their_middle), UNIT(no_text_overflows))
