#include "api/download.h"

#include <string.h>

#include "lib/test.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(gzip_is_taken_when_it_is_named_and_not_refused)
{
	static const struct {
		const char *header;
		bool takes;
	} cases[] = {
		{ NULL, false },
		{ "", false },
		{ "gzip", true },
		{ "GZip", true },
		{ "x-gzip", true },
		{ "deflate, gzip, br", true },
		{ "deflate,\tgzip;q=0.5", true },
		{ "gzip;q=1.0", true },
		{ "gzip;q=0.001", true },
		{ "gzip ; q=1", true },
		{ "gzip;q=0", false },
		{ "gzip;q=0.000", false },
		{ "gzip; q=0, *", false },
		{ "*;q=0, gzip", true },
		{ "*", true },
		{ "*;q=0", false },
		{ "br, identity", false },
		{ "gzipped", false },
		{ "notgzip", false },
		{ ",,,gzip", true },
		{ "gzip;q=", true },
		{ ";", false },
		{ ";;;q=0", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (download_takes_gzip(cases[i].header) != cases[i].takes)
			fail_msg("'%s'", cases[i].header);
	}
}

TEST(a_known_tag_is_found_in_a_list)
{
	CHECK(download_is_known("\"" SHA "\"", SHA));
	CHECK(download_is_known("W/\"" SHA "\"", SHA));
	CHECK(download_is_known("\"x\", \"" SHA "\"", SHA));
	CHECK(download_is_known("\"x\",W/\"" SHA "\" ", SHA));
	CHECK(download_is_known("*", SHA));
	CHECK(!download_is_known(NULL, SHA));
	CHECK(!download_is_known("", SHA));
	CHECK(!download_is_known(SHA, SHA));
	CHECK(!download_is_known("\"" SHA, SHA));
	CHECK(!download_is_known("\"x" SHA "\"", SHA));
	CHECK(!download_is_known("w/\"" SHA "\"", SHA));
	CHECK(!download_is_known("W/", SHA));
}

TEST(only_the_strong_tag_lets_a_range_count)
{
	CHECK(download_may_resume(NULL, SHA));
	CHECK(download_may_resume("\"" SHA "\"", SHA));
	CHECK(!download_may_resume("W/\"" SHA "\"", SHA));
	CHECK(!download_may_resume("\"x\"", SHA));
	CHECK(!download_may_resume("Sat, 31 Jan 2026 12:00:00 GMT", SHA));
	CHECK(!download_may_resume("", SHA));
}

TEST(tags_are_quoted)
{
	char tag[DOWNLOAD_ETAG_SIZE];

	download_etag(SHA, false, tag);
	CHECK_STR(tag, "\"" SHA "\"");
	download_etag(SHA, true, tag);
	CHECK_STR(tag, "W/\"" SHA "\"");
}

static void check_disposition(const char *path, const char *expected)
{
	char text[DOWNLOAD_DISPOSITION_SIZE(64)];

	download_disposition(path, text);
	CHECK_STR(text, expected);
}

TEST(a_disposition_has_the_name_in_both_forms)
{
	check_disposition("out.txt", "attachment; filename=\"out.txt\"; filename*=UTF-8''out.txt");
	check_disposition(
		"a/b/c d.csv", "attachment; filename=\"c d.csv\"; filename*=UTF-8''c%20d.csv");
	check_disposition(
		"\xc3\xa4.png", "attachment; filename=\"__.png\"; filename*=UTF-8''%C3%A4.png");
	check_disposition("a\"\\;\r\n%41", "attachment; filename=\"a__;___41\"; "
					   "filename*=UTF-8''a%22%5C%3B%0D%0A%2541");
}

TESTS(UNIT(gzip_is_taken_when_it_is_named_and_not_refused), UNIT(a_known_tag_is_found_in_a_list),
	UNIT(only_the_strong_tag_lets_a_range_count), UNIT(tags_are_quoted),
	UNIT(a_disposition_has_the_name_in_both_forms))
