#include "base/str.h"

#include <errno.h>

#include "lib/test.h"

TEST(bytes_take_units_of_1024)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64K", 65536 },
		{ "256M", 256ULL << 20 },
		{ "1.5G", 3ULL << 29 },
		{ "256MiB", 256ULL << 20 },
		{ "2t", 2ULL << 40 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		uint64_t v = 1;

		CHECK_EQ(str_parse_bytes(good[i].text, &v), 0);
		CHECK_EQ(v, good[i].bytes);
	}
}

TEST(bad_numbers_are_refused_and_leave_the_output_alone)
{
	static const char *const bad[] = { "", "M", "-1", "+1", " 1", "1 ", "1..5M", "1.M", ".5M",
		"1X", "0x10", "1e9", "1M1", "nan", "1,5M", "∞", "1.0000000001M", "1.0000000",
		/* ten to the power of this many zeros is 0 in 64 bits */
		"1.0000000000000000000000000000000000000000000000000000000000000000" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t v = 77;

		CHECK(str_parse_bytes(bad[i], &v) < 0);
		CHECK(str_parse_duration(bad[i], &v) < 0);
		CHECK_EQ(v, 77);
	}
}

TEST(numbers_that_overflow_are_out_of_range)
{
	uint64_t v = 77;

	CHECK_EQ(str_parse_u64("18446744073709551616", UINT64_MAX, &v), -ERANGE);
	CHECK_EQ(str_parse_u64("256", 255, &v), -ERANGE);
	CHECK_EQ(str_parse_u64("7", 5, &v), -ERANGE);
	CHECK_EQ(str_parse_u64("1", 0, &v), -ERANGE);
	CHECK_EQ(str_parse_bytes("99999999999999T", &v), -ERANGE);
	CHECK_EQ(v, 77);
	CHECK_EQ(str_parse_u64("18446744073709551615", UINT64_MAX, &v), 0);
	CHECK(v == UINT64_MAX);
}

TEST(durations_are_milliseconds_and_bare_numbers_seconds)
{
	uint64_t v = 0;

	CHECK_EQ(str_parse_duration("20s", &v), 0);
	CHECK_EQ(v, 20000);
	CHECK_EQ(str_parse_duration("1.5m", &v), 0);
	CHECK_EQ(v, 90000);
	CHECK_EQ(str_parse_duration("500ms", &v), 0);
	CHECK_EQ(v, 500);
	CHECK_EQ(str_parse_duration("3", &v), 0);
	CHECK_EQ(v, 3000);
}

TEST(the_nearest_word_is_a_slip_away_or_none)
{
	static const char *const words[] = { "--memory", "--timeout", "--env" };

	CHECK_STR(str_nearest("--memroy", words, 3), "--memory");
	CHECK_STR(str_nearest("--timeot", words, 3), "--timeout");
	CHECK(str_nearest("--frobnicate", words, 3) == NULL);
	CHECK(str_nearest("", words, 3) == NULL);
}

TEST(words_of_a_list_are_matched_whole)
{
	CHECK(str_has_word("rw,memory", "memory"));
	CHECK(str_has_word("cpu,cpuacct", "cpu"));
	CHECK(str_has_word("cpuset cpu\n", "cpu"));
	CHECK(str_has_word("numpy\npandas", "pandas"));
	CHECK(!str_has_word("rw,cpuacct", "cpu"));
	CHECK(!str_has_word("", "cpu"));
	CHECK(!str_has_word(",, ", "cpu"));
}

TEST(hex_is_lower_case_and_exact)
{
	CHECK(str_is_hex("00ff", 4));
	CHECK(!str_is_hex("00FF", 4));
	CHECK(!str_is_hex("00ff0", 4));
	CHECK(!str_is_hex("00f", 4));

	char text[9];
	str_hex("\x00\x0f\xa9\xff", 4, text);
	CHECK_STR(text, "000fa9ff");
}

TESTS(UNIT(bytes_take_units_of_1024), UNIT(bad_numbers_are_refused_and_leave_the_output_alone),
	UNIT(numbers_that_overflow_are_out_of_range),
	UNIT(durations_are_milliseconds_and_bare_numbers_seconds),
	UNIT(the_nearest_word_is_a_slip_away_or_none), UNIT(words_of_a_list_are_matched_whole),
	UNIT(hex_is_lower_case_and_exact))
