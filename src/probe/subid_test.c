#include "probe/subid.h"

#include <string.h>

#include "lib/test.h"

static const char file[] = "# a comment\n"
			   "alice:100000:65536\n"
			   "bob:165536:65536\n"
			   "alice:300000:1000\n"
			   "1001:400000:10\n"
			   "alice\n"
			   "alice:\n"
			   "alice:x:5\n"
			   "alice:5:-5\n"
			   "alice:4294967295:2\n"
			   "carol:500000:7";

TEST(ranges_of_a_name_add_up_and_bad_lines_are_skipped)
{
	CHECK_EQ(subid_count(file, "alice", 1000), 66536);
	CHECK_EQ(subid_count(file, "bob", 1002), 65536);
	CHECK_EQ(subid_count(file, "carol", 1003), 7); /* no newline at the end */
}

TEST(a_number_counts_as_well_as_a_name)
{
	CHECK_EQ(subid_count(file, "dave", 1001), 10);
	CHECK_EQ(subid_count(file, "", 1001), 10);
}

TEST(a_name_is_matched_whole)
{
	CHECK_EQ(subid_count(file, "alic", 7), 0);
	CHECK_EQ(subid_count(file, "alice2", 7), 0);
	CHECK_EQ(subid_count(file, "100", 100), 0);
	CHECK_EQ(subid_count("", "alice", 1000), 0);
}

TEST(an_endless_line_is_no_entry)
{
	char text[2000];

	memset(text, 'a', sizeof(text));
	memcpy(text + sizeof(text) - 10, "\nbob:1:9\n", 10);
	CHECK_EQ(subid_count(text, "bob", 7), 9);
}

TESTS(UNIT(ranges_of_a_name_add_up_and_bad_lines_are_skipped),
	UNIT(a_number_counts_as_well_as_a_name), UNIT(a_name_is_matched_whole),
	UNIT(an_endless_line_is_no_entry))
