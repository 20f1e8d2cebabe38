#include "image/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

TEST(each_counter_has_the_whole_budget)
{
	struct budget b;
	struct err err = { 0 };
	AUTO_FD fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	budget_init(&b, 100, fd);
	CHECK_EQ(budget_take_content(&b, 60, NULL), 0);
	CHECK_EQ(budget_take_stream(&b, 100, NULL), 0);
	CHECK_EQ(budget_take_raw(&b, 100, NULL), 0);
	CHECK_EQ(budget_take_content(&b, 41, &err), -EFBIG);
	CHECK(strstr(err.text, "100 bytes") && strstr(err.text, "--max-size"));
	CHECK_EQ(budget_take_content(&b, 40, NULL), 0);
	CHECK_EQ(budget_take_stream(&b, 1, NULL), -EFBIG);
	CHECK_EQ(budget_take_raw(&b, 1, NULL), -EFBIG);
}

TEST(sums_do_not_wrap)
{
	struct budget b;
	AUTO_FD fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	budget_init(&b, UINT64_MAX - 1, fd);
	CHECK_EQ(budget_take_stream(&b, UINT64_MAX - 2, NULL), 0);
	CHECK_EQ(budget_take_stream(&b, UINT64_MAX - 2, NULL), -EFBIG);
	CHECK_EQ(budget_take_stream(&b, UINT64_MAX, NULL), -EFBIG);
}

TEST(what_the_disk_can_not_hold_is_refused_before_it_is_written)
{
	struct budget b;
	struct err err = { 0 };
	AUTO_FD fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	budget_init(&b, UINT64_MAX, fd);
	CHECK_EQ(budget_take_content(&b, UINT64_C(1) << 60, &err), -ENOSPC);
	CHECK(strstr(err.text, "do not fit"));
}

TEST(entries_are_counted)
{
	struct budget b;
	AUTO_FD fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

	budget_init(&b, 1, fd);
	for (uint64_t i = 0; i < BUDGET_ENTRIES_MAX; i++)
		CHECK_EQ(budget_take_entry(&b, NULL), 0);
	CHECK_EQ(budget_take_entry(&b, NULL), -EFBIG);
}

TESTS(UNIT(each_counter_has_the_whole_budget), UNIT(sums_do_not_wrap),
	UNIT(what_the_disk_can_not_hold_is_refused_before_it_is_written), UNIT(entries_are_counted))
