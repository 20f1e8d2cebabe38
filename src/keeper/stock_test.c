#include "keeper/stock.h"

#include "lib/test.h"

#define MS UINT64_C(1000000)

TEST(what_is_missed_is_wanted)
{
	struct stock s = { .n_max = 100 };

	CHECK_EQ(stock_wanted(&s, 1), STOCK_MIN);
	for (int i = 0; i < 5; i++)
		stock_count(&s, STOCK_HOST, false, 1);
	CHECK_EQ(stock_wanted(&s, 1), STOCK_MIN + 5);
	stock_count(&s, STOCK_HOST, true, 2);
	CHECK_EQ(stock_wanted(&s, 2), STOCK_MIN + 5);
	CHECK_EQ(s.tally[STOCK_HOST].hits, 1);
	CHECK_EQ(s.tally[STOCK_HOST].misses, 5);
}

TEST(memory_bounds_it)
{
	struct stock s = { 0 };

	stock_limit(&s, 10 << 20, 1 << 20);
	for (int i = 0; i < 50; i++)
		stock_count(&s, STOCK_HOST, false, 1);
	CHECK_EQ(stock_wanted(&s, 1), 10);
	stock_limit(&s, 1 << 20, 1 << 20);
	CHECK_EQ(stock_wanted(&s, 1), 1);
	stock_limit(&s, 0, 1 << 20);
	CHECK_EQ(stock_wanted(&s, 1), 0);
}

TEST(it_shrinks_when_nobody_comes)
{
	struct stock s = { .n_max = 100 };

	for (int i = 0; i < 50; i++)
		stock_count(&s, STOCK_HOST, false, MS);
	CHECK_EQ(stock_wanted(&s, MS + STOCK_IDLE_MS * MS - 1), STOCK_MIN + 50);
	CHECK_EQ(stock_most(&s, MS + STOCK_IDLE_MS * MS - 1), 100);
	CHECK_EQ(stock_wanted(&s, MS + STOCK_IDLE_MS * MS), STOCK_MIN);
	CHECK_EQ(stock_most(&s, MS + STOCK_IDLE_MS * MS), STOCK_MIN);
	/* And grows from there. */
	stock_count(&s, STOCK_HOST, false, MS + STOCK_IDLE_MS * MS);
	CHECK_EQ(stock_wanted(&s, MS + STOCK_IDLE_MS * MS), STOCK_MIN + 1);
}

TEST(when_it_is_to_shrink_is_known_before)
{
	struct stock s = { .n_max = 100, .n = STOCK_MIN };

	stock_count(&s, STOCK_HOST, true, MS);
	CHECK_EQ(stock_surplus_ms(&s, MS), -1);
	s.n = STOCK_MIN + 1;
	CHECK_EQ(stock_surplus_ms(&s, MS), STOCK_IDLE_MS);
	CHECK_EQ(stock_surplus_ms(&s, 2 * MS + 1), STOCK_IDLE_MS - 1);
	CHECK_EQ(stock_surplus_ms(&s, MS + STOCK_IDLE_MS * MS), 1);
	CHECK(s.n > stock_most(&s, MS + STOCK_IDLE_MS * MS));
	stock_limit(&s, 1, 1);
	s.n = 1;
	CHECK_EQ(stock_surplus_ms(&s, MS), -1);
}

TESTS(UNIT(what_is_missed_is_wanted), UNIT(memory_bounds_it), UNIT(it_shrinks_when_nobody_comes),
	UNIT(when_it_is_to_shrink_is_known_before))
