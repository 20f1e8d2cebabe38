#include "core/ratelimit.h"

#include "lib/test.h"

#define SECOND UINT64_C(1000000000)

TEST(a_minutes_worth_may_come_at_once_and_then_one_by_one)
{
	CLEANUP(ratelimit_freep) struct ratelimit *l = ratelimit_new(6);
	uint64_t now = 5 * SECOND;

	for (int i = 0; i < 6; i++)
		CHECK_EQ(ratelimit_take(l, "alice", now), 0);
	CHECK_EQ(ratelimit_take(l, "alice", now), 10);
	CHECK_EQ(ratelimit_take(l, "bob", now), 0);
	CHECK_EQ(ratelimit_take(l, "alice", now + SECOND / 2), 10);
	CHECK_EQ(ratelimit_take(l, "alice", now + 9 * SECOND), 1);
	CHECK_EQ(ratelimit_take(l, "alice", now + 10 * SECOND), 0);
	CHECK_EQ(ratelimit_take(l, "alice", now + 10 * SECOND), 10);
}

TEST(a_bucket_does_not_overflow)
{
	CLEANUP(ratelimit_freep) struct ratelimit *l = ratelimit_new(3);

	for (int i = 0; i < 3; i++)
		CHECK_EQ(ratelimit_take(l, "alice", 0), 0);
	CHECK_EQ(ratelimit_take(l, "alice", 0), 20);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(ratelimit_take(l, "alice", 3600 * SECOND), 0);
	CHECK_EQ(ratelimit_take(l, "alice", 3600 * SECOND), 20);
}

TEST(zero_is_no_limit)
{
	CLEANUP(ratelimit_freep) struct ratelimit *l = ratelimit_new(0);

	for (int i = 0; i < 100000; i++)
		CHECK_EQ(ratelimit_take(l, "alice", 1), 0);
}

TEST(strangers_do_not_wash_away_those_who_wait)
{
	CLEANUP(ratelimit_freep) struct ratelimit *l = ratelimit_new(2);
	char key[32];

	CHECK_EQ(ratelimit_take(l, "greedy", SECOND), 0);
	CHECK_EQ(ratelimit_take(l, "greedy", SECOND), 0);
	CHECK_EQ(ratelimit_take(l, "greedy", SECOND), 30);
	for (unsigned i = 0; i < 16 * RATELIMIT_KEYS; i++) {
		(void)snprintf(key, sizeof(key), "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
		CHECK_EQ(ratelimit_take(l, key, SECOND), 0);
	}
	CHECK_EQ(ratelimit_take(l, "greedy", SECOND), 30);
}

TESTS(UNIT(a_minutes_worth_may_come_at_once_and_then_one_by_one), UNIT(a_bucket_does_not_overflow),
	UNIT(zero_is_no_limit), UNIT(strangers_do_not_wash_away_those_who_wait))
