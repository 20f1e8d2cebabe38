#include "http/range.h"

#include "lib/test.h"

static const struct {
	const char *header;
	uint64_t file_size;
	enum range_verdict verdict;
	uint64_t offset;
	uint64_t size;
} cases[] = {
	{ NULL, 10, RANGE_WHOLE, 0, 10 },
	{ NULL, 0, RANGE_WHOLE, 0, 0 },
	{ "bytes=0-0", 10, RANGE_PART, 0, 1 },
	{ "bytes=2-5", 10, RANGE_PART, 2, 4 },
	{ "Bytes=2-5", 10, RANGE_PART, 2, 4 },
	{ "bytes=2-", 10, RANGE_PART, 2, 8 },
	{ "bytes=-3", 10, RANGE_PART, 7, 3 },
	{ "bytes=-30", 10, RANGE_PART, 0, 10 },
	{ "bytes=9-9", 10, RANGE_PART, 9, 1 },
	{ "bytes=5-99999999999999999999999999", 10, RANGE_PART, 5, 5 },
	{ "bytes=0-18446744073709551615", UINT64_MAX, RANGE_PART, 0, UINT64_MAX },
	{ "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=10-12", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=5-4", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=50-40", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=-1", 0, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=0-1,3-4", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=99999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "lines=0-1", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=-", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=1", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=a-b", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes=1-2x", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "bytes= 1-2", 10, RANGE_UNSATISFIABLE, 0, 0 },
	{ "", 10, RANGE_UNSATISFIABLE, 0, 0 },
};

TEST(each_header_means_what_it_says)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t offset = 0;
		uint64_t size = 0;

		print_message("%s of %ju\n", cases[i].header ? cases[i].header : "none",
			(uintmax_t)cases[i].file_size);
		CHECK_EQ(range_parse(cases[i].header, cases[i].file_size, &offset, &size),
			cases[i].verdict);
		CHECK_EQ(offset, cases[i].offset);
		CHECK_EQ(size, cases[i].size);
	}
}

TEST(several_are_counted)
{
	static const struct {
		const char *header;
		size_t n;
	} table[] = {
		{ "bytes=0-1,3-4", 2 },
		{ "Bytes=0-1, -5 ,\t7-", 3 },
		{ "bytes=0-1,", 1 },
		{ "bytes=0-1", 1 },
		{ "bytes=x,y", 2 },
		{ "bytes=", 0 },
		{ "lines=0-1,3-4", 0 },
		{ "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		CHECK_EQ(range_count(table[i].header), table[i].n);
}

TESTS(UNIT(each_header_means_what_it_says), UNIT(several_are_counted))
