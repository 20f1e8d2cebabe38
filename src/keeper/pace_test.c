#include "keeper/pace.h"

#include "base/log.h"
#include "lib/test.h"

#define SECOND UINT64_C(1000000000)

TEST(a_step_that_takes_long_is_a_stall)
{
	struct pace p = { 0 };

	log_set_level(LOG_LEVEL_ERROR);
	pace_step(&p, "short", 10 * SECOND);
	pace_step(&p, "long", 11 * SECOND);
	pace_step(&p, "short", 14 * SECOND);
	CHECK_EQ(p.n_stalls, 1);
	CHECK_EQ(p.last_ms, 3000);
	CHECK_STR(p.last_step, "long");
	pace_sleep(&p, 15 * SECOND);
	CHECK_EQ(p.n_stalls, 1);
}

TEST(sleep_is_none_unless_nobody_woke_it)
{
	struct pace p = { 0 };

	log_set_level(LOG_LEVEL_ERROR);
	pace_sleep(&p, 10 * SECOND);
	pace_wake(&p, -1, 100 * SECOND);
	pace_sleep(&p, 100 * SECOND);
	pace_wake(&p, 30000, 130 * SECOND);
	pace_step(&p, "next", 130 * SECOND);
	CHECK_EQ(p.n_stalls, 0);
	pace_sleep(&p, 130 * SECOND);
	pace_wake(&p, 1000, 134 * SECOND);
	CHECK_EQ(p.n_stalls, 1);
	CHECK_EQ(p.last_ms, 4000);
}

TESTS(UNIT(a_step_that_takes_long_is_a_stall), UNIT(sleep_is_none_unless_nobody_woke_it))
