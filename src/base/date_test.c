#include "base/date.h"

#include <errno.h>

#include "lib/test.h"

TEST(a_moment_is_written_with_microseconds_and_a_z)
{
	char text[DATE_SIZE + 1];
	char day[DATE_DAY_SIZE + 1];

	date_format(UINT64_C(1761652800123456789), text);
	CHECK_STR(text, "2025-10-28T12:00:00.123456Z");
	date_format_day(UINT64_C(1761652800123456789), day);
	CHECK_STR(day, "2025-10-28");
	date_format(0, text);
	CHECK_STR(text, "1970-01-01T00:00:00.000000Z");
}

TEST(the_same_moment_is_read_in_many_forms)
{
	static const char *const same[] = {
		"2025-10-28T12:00:00Z",
		"2025-10-28T12:00:00",
		"2025-10-28T12:00",
		"2025-10-28 12:00:00.000Z",
		"2025-10-28T13:00:00+01:00",
		"2025-10-28T13:00:00 01:00",
		"2025-10-28T07:30:00-0430",
		"2025-10-28t12:00:00,0z",
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		uint64_t ns = 0;

		CHECK_EQ(date_parse(same[i], &ns), 0);
		CHECK_EQ(ns, UINT64_C(1761652800000000000));
	}
}

TEST(a_day_alone_is_its_beginning)
{
	uint64_t ns = 1;

	CHECK_EQ(date_parse("1970-01-02", &ns), 0);
	CHECK_EQ(ns, UINT64_C(86400000000000));
}

TEST(what_was_written_is_read_back)
{
	char text[DATE_SIZE + 1];
	uint64_t ns = 0;

	date_format(UINT64_C(1761652800123456000), text);
	CHECK_EQ(date_parse(text, &ns), 0);
	CHECK_EQ(ns, UINT64_C(1761652800123456000));
}

TEST(nonsense_is_refused_and_leaves_the_output_alone)
{
	static const char *const bad[] = {
		"",
		"now",
		"2025-13-01",
		"2025-00-01",
		"2025-02-30",
		"2025-04-31T00:00:00Z",
		"2025-10-28T25:00:00Z",
		"2025-10-28T12:00:00Q",
		"2025-10-28T12:00:00Z ",
		"2025-10-28T12:00:00.Z",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+01:00",
		"2025-10-28T",
		"20251028",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t ns = 7;

		CHECK_EQ(date_parse(bad[i], &ns), -EINVAL);
		CHECK_EQ(ns, 7);
	}
}

TESTS(UNIT(a_moment_is_written_with_microseconds_and_a_z),
	UNIT(the_same_moment_is_read_in_many_forms), UNIT(a_day_alone_is_its_beginning),
	UNIT(what_was_written_is_read_back), UNIT(nonsense_is_refused_and_leaves_the_output_alone))
