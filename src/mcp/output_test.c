#include "mcp/output.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "lib/test.h"

static void check_text(const char *data, size_t size, const char *text)
{
	AUTO_JSON *json = output_text(data, size);

	CHECK_STR(json_string_value(json), text);
}

TEST(what_is_no_text_is_replaced)
{
	check_text("", 0, "");
	check_text("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
	check_text("a\xff"
		   "b",
		3,
		"a\xef\xbf\xbd"
		"b");
	check_text("a\0b", 3,
		"a\xef\xbf\xbd"
		"b");
	check_text("\xc3", 1, "\xef\xbf\xbd");
	check_text("\xff\xff", 2, "\xef\xbf\xbd\xef\xbf\xbd");
}

/* Wherever the cuts are, no character is in two, and the numbers add up. */
TEST(of_too_much_the_ends_are_kept_and_the_rest_is_counted)
{
	AUTO_FREE char *data = xcalloc(1, 3001);
	const char *units[] = { "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };

	for (size_t u = 0; u < ARRAY_SIZE(units); u++) {
		size_t unit = strlen(units[u]);

		for (size_t i = 0; i < 3000; i += unit)
			memcpy(data + i, units[u], unit);
		for (size_t n = 1; n < 40; n++) {
			AUTO_JSON *json = output_join(data, n, data + 3000 - n, n, 3000);
			const char *text = json_string_value(json);
			const char *line = strstr(text, "\n[... ");
			size_t size = strlen(text);

			CHECK(strstr(text, "\xef\xbf\xbd") == NULL);
			CHECK(line != NULL);
			CHECK(strstr(text, "of 3000 bytes are not shown here ...]\n") != NULL);
			size_t missing = strtoul(line + 6, NULL, 10);
			size_t n_line = (size_t)(strstr(text, "...]\n") + 5 - line);
			CHECK_EQ(missing + size - n_line, 3000);
		}
	}
}

TEST(of_what_is_whole_nothing_is_said_to_be_missing)
{
	AUTO_JSON *json = output_join("a\xc3", 2, "\xa4z", 2, 4);
	AUTO_JSON *tail = output_join("", 0, "all", 3, 3);

	CHECK_STR(json_string_value(json), "a\xc3\xa4z");
	CHECK_STR(json_string_value(tail), "all");
}

static void check_bound(const char *text, size_t skipped, size_t size)
{
	size_t got = 0;

	CHECK(output_bound_traceback(text, &got) == text + skipped);
	CHECK_EQ(got, size);
}

#define BLOCK "Traceback (most recent call last):\n  File \"a\", line 1\n    x\nE: m\n"

TEST(a_traceback_ends_with_what_may_be_its_message)
{
	static const char chained[] = "\nDuring handling\n\n" BLOCK "note\n";
	const size_t block = strlen(BLOCK);
	const size_t many = OUTPUT_MESSAGE_MAX / 2 * 2;
	AUTO_FREE char *text = xcalloc(1, 2 * block + 2 * many + 100);
	char *rest = text + block;

	memcpy(text, BLOCK, block);

	check_bound(text, 0, block);
	for (size_t i = 0; i < many; i += 2)
		memcpy(rest + i, "z\n", 2);
	check_bound(text, 0, block + many);
	memcpy(rest + many, "z\nz", 3);
	check_bound(text, 0, block + many);
	/* Another one is part of it, unless all that is between them. */
	memcpy(rest + many, "z\n" BLOCK, block + 3);
	check_bound(text, block + many + 2, block);
	memcpy(rest, chained, sizeof(chained));
	check_bound(text, 0, strlen(text));
	check_bound("  File \"a\", line 1\n    x\nSyntaxError: m", 0, 39);
}

TEST(a_traceback_is_found_from_its_first_line)
{
	static const char words[] = "noise\nTraceback (most recent call last):\n  File \"<code>\", "
				    "line 1\nE: x\n\nDuring handling\n\nTraceback (most recent "
				    "call last):\nF: y\n";

	CHECK(output_find_traceback(words, "<code>") == words + 6);
	CHECK(output_find_traceback(words + 6, "<code>") == words + 6);
	CHECK(output_find_traceback("no Traceback (most recent call last):", "<code>") == NULL);
	CHECK_STR(output_find_traceback("w\n  File \"<code>\", line 1\nSyntaxError: x", "<code>"),
		"  File \"<code>\", line 1\nSyntaxError: x");
	CHECK(output_find_traceback("", "<code>") == NULL);
	CHECK(output_find_traceback("\n", "<code>") == NULL);
}

/* Text without a newline, such as a bar of progress, is no part of it, and hides nothing. */
TEST(a_traceback_is_found_behind_text_without_a_newline)
{
	static const char chained[] =
		"50%|##Traceback (most recent call last):\n  File \"<code>\", "
		"line 1\nE: x\n\nThe above exception\n\nTraceback (most "
		"recent call last):\n  File \"<code>\", line 2\nF: y\n";

	CHECK(output_find_traceback(chained, "<code>") == chained + 6);
	CHECK(output_find_traceback("say Traceback (most recent call last):\nno", "<code>") ==
		NULL);
}

TEST(a_traceback_of_a_group_is_found)
{
	static const char group[] =
		"noise\n  + Exception Group Traceback (most recent call last):\n"
		"  |   File \"<code>\", line 1, in <module>\n"
		"  | ExceptionGroup: g (1 sub-exception)\n"
		"  +-+---------------- 1 ----------------\n"
		"    | Traceback (most recent call last):\n"
		"    |   File \"<code>\", line 1, in <module>\n"
		"    | ValueError: x\n"
		"    +------------------------------------\n";

	CHECK(output_find_traceback(group, "<code>") == group + 6);
	CHECK(output_find_traceback(group + 6, "<code>") == group + 6);
	CHECK(output_find_traceback(group + 5, "<code>") == group + 6);
	CHECK(output_find_traceback("50%  + Exception Group Traceback (most recent call last):\n"
				    "  |   File \"<code>\"",
		      "<code>") != NULL);
}

TESTS(UNIT(what_is_no_text_is_replaced),
	UNIT(of_too_much_the_ends_are_kept_and_the_rest_is_counted),
	UNIT(of_what_is_whole_nothing_is_said_to_be_missing),
	UNIT(a_traceback_ends_with_what_may_be_its_message),
	UNIT(a_traceback_is_found_from_its_first_line),
	UNIT(a_traceback_is_found_behind_text_without_a_newline),
	UNIT(a_traceback_of_a_group_is_found))
