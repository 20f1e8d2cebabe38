#include "core/queue.h"

#include "lib/random.h"
#include "lib/test.h"

static void queue_finip(struct queue *q)
{
	queue_fini(q);
}

#define QUEUE(name, max, max_per_user)                                                             \
	CLEANUP(queue_finip) struct queue name;                                                    \
	queue_init(&name, max, max_per_user)

TEST(one_user_is_served_in_order_and_only_while_there_is_room)
{
	QUEUE(q, 2, 0);
	struct queue_entry e[3];

	CHECK(queue_pop(&q) == NULL);
	CHECK(queue_has_room(&q, "a"));
	for (size_t i = 0; i < 3; i++)
		queue_push(&q, &e[i], "a", i);
	CHECK_EQ(q.n_waiting, 3);
	CHECK_EQ(queue_waiting_of(&q, "a"), 3);
	CHECK_EQ(queue_waiting_of(&q, "b"), 0);
	CHECK(!queue_has_room(&q, "b")); /* it would pass those who wait */
	CHECK(queue_pop(&q) == &e[0]);
	CHECK(e[0].user == NULL);
	CHECK(queue_pop(&q) == &e[1]);
	CHECK(queue_pop(&q) == NULL);
	CHECK_EQ(queue_active_of(&q, "a"), 2);
	queue_end(&q, "a");
	CHECK(queue_pop(&q) == &e[2]);
	CHECK(queue_pop(&q) == NULL);
	queue_end(&q, "a");
	queue_end(&q, "a");
	CHECK_EQ(q.n_active, 0);
	CHECK_EQ(q.n_waiting, 0);
	CHECK(q.users == NULL); /* nobody is remembered */
}

TEST(what_is_held_takes_a_place_and_has_no_turn)
{
	QUEUE(q, 1, 0);
	struct queue_entry held[2];
	struct queue_entry waiting;

	queue_hold(&q, &held[0], "a");
	CHECK(held[0].user == NULL);
	CHECK_EQ(queue_waiting_of(&q, "a"), 1);
	CHECK(queue_has_room(&q, "b")); /* it passes nobody who could begin */
	CHECK(queue_pop(&q) == NULL);
	CHECK(queue_oldest(&q) == NULL);
	queue_hold(&q, &held[1], "a");
	CHECK(queue_has_place(&q, "a", 3));
	CHECK(!queue_has_place(&q, "a", 2));
	CHECK(queue_has_place(&q, "b", 2)); /* a burst does not turn others away */
	queue_push(&q, &waiting, "a", 1);
	CHECK(!queue_has_place(&q, "a", 3));
	queue_remove(&q, &held[0]);
	queue_remove(&q, &held[0]);
	CHECK_EQ(queue_waiting_of(&q, "a"), 2);
	queue_push(&q, &held[0], "a", 2);
	CHECK(queue_pop(&q) == &waiting);
	queue_end(&q, "a");
	CHECK(queue_pop(&q) == &held[0]);
	queue_end(&q, "a");
	CHECK_EQ(q.n_held, 1);
	queue_remove(&q, &held[1]);
	CHECK_EQ(q.n_held, 0);
	CHECK(q.users == NULL);
}

TEST(what_is_parked_keeps_its_place_and_has_no_turn)
{
	QUEUE(q, 1, 0);
	struct queue_entry e[3];

	queue_park(&q, &e[1], "a", 20);
	CHECK(queue_has_room(&q, "a") && queue_has_room(&q, "b"));
	CHECK(!queue_has_place(&q, "a", 1));
	CHECK(queue_pop(&q) == NULL);
	queue_push(&q, &e[2], "a", 30);
	CHECK_EQ(queue_position(&q, &e[2]), 0);
	CHECK(queue_oldest(&q) == &e[1]);
	queue_park(&q, &e[0], "a", 10);
	CHECK(queue_oldest(&q) == &e[0]);
	CHECK_EQ(queue_waiting_of(&q, "a"), 3);
	CHECK(queue_pop(&q) == &e[2]);
	queue_end(&q, "a");
	queue_wake(&e[1]);
	CHECK(!queue_has_room(&q, "b"));
	queue_wake(&e[0]);
	CHECK_EQ(queue_position(&q, &e[1]), 1);
	CHECK(queue_pop(&q) == &e[0]);
	queue_end(&q, "a");
	queue_park(&q, &e[0], "a", 10);
	queue_remove(&q, &e[0]);
	CHECK(queue_pop(&q) == &e[1]);
	queue_end(&q, "a");
	CHECK(q.users == NULL);
}

TEST(one_run_is_second_behind_a_burst)
{
	QUEUE(q, 1, 0);
	struct queue_entry burst[50];
	struct queue_entry single;

	for (size_t i = 0; i < 50; i++)
		queue_push(&q, &burst[i], "greedy", i);
	queue_push(&q, &single, "modest", 50);
	CHECK_EQ(queue_position(&q, &burst[0]), 0);
	CHECK_EQ(queue_position(&q, &single), 1);
	CHECK_EQ(queue_position(&q, &burst[1]), 2);
	CHECK_EQ(queue_position(&q, &burst[49]), 50);
	CHECK(queue_pop(&q) == &burst[0]);
	queue_end(&q, "greedy");
	CHECK(queue_pop(&q) == &single);
	queue_end(&q, "modest");
	for (size_t i = 1; i < 50; i++) {
		CHECK(queue_pop(&q) == &burst[i]);
		queue_end(&q, "greedy");
	}
	CHECK(q.users == NULL);
}

/* As it really happens: the first of the burst never waits. */
TEST(who_comes_while_a_burst_runs_is_next)
{
	QUEUE(q, 2, 0);
	struct queue_entry burst[10];
	struct queue_entry single[2];

	queue_begin(&q, "greedy");
	queue_begin(&q, "greedy");
	CHECK(!queue_has_room(&q, "greedy"));
	for (size_t i = 0; i < 10; i++)
		queue_push(&q, &burst[i], "greedy", i);
	queue_push(&q, &single[0], "modest", 10);
	CHECK_EQ(queue_position(&q, &single[0]), 0);
	CHECK_EQ(queue_position(&q, &burst[0]), 1);
	queue_end(&q, "greedy");
	CHECK(queue_pop(&q) == &single[0]);
	queue_push(&q, &single[1], "third", 11);
	CHECK_EQ(queue_position(&q, &burst[0]), 0);
	CHECK_EQ(queue_position(&q, &single[1]), 1);
	queue_end(&q, "greedy");
	CHECK(queue_pop(&q) == &burst[0]);
	queue_end(&q, "modest");
	CHECK(queue_pop(&q) == &single[1]);
}

/* Users who come back for one more, again and again, do not pass somebody for ever. */
TEST(newcomers_starve_nobody)
{
	QUEUE(q, 1, 0);
	struct queue_entry patient[2];
	struct queue_entry others[3];
	static const char *const names[] = { "x", "y", "z" };
	size_t n_turns = 0;

	queue_push(&q, &patient[0], "patient", 0);
	queue_push(&q, &patient[1], "patient", 0);
	for (size_t i = 0; i < 3; i++)
		queue_push(&q, &others[i], names[i], 1);
	CHECK(queue_pop(&q) == &patient[0]);
	queue_end(&q, "patient");
	for (; patient[1].user; n_turns++) {
		struct queue_entry *e = queue_pop(&q);
		CHECK(e != NULL);
		if (e == &patient[1])
			break;
		queue_end(&q, names[e - others]);
		queue_push(&q, e, names[e - others], 2);
	}
	CHECK_EQ(n_turns, 3);
}

TEST(a_user_has_a_limit_of_their_own)
{
	QUEUE(q, 10, 2);
	struct queue_entry a[4];
	struct queue_entry b;

	for (size_t i = 0; i < 4; i++)
		queue_push(&q, &a[i], "a", i);
	CHECK(queue_pop(&q) == &a[0]);
	CHECK(queue_pop(&q) == &a[1]);
	CHECK(queue_pop(&q) == NULL);
	CHECK(!queue_has_room(&q, "a"));
	CHECK(queue_has_room(&q, "b")); /* those who wait could not start anyway */
	queue_push(&q, &b, "b", 9);
	CHECK(queue_pop(&q) == &b);
	queue_end(&q, "b");
	CHECK(queue_pop(&q) == NULL);
	queue_end(&q, "a");
	CHECK(queue_pop(&q) == &a[2]);
	CHECK(queue_pop(&q) == NULL);
	CHECK_EQ(queue_waiting_of(&q, "a"), 1);
	CHECK_EQ(queue_active_of(&q, "a"), 2);
}

TEST(one_may_leave_from_anywhere_and_twice)
{
	QUEUE(q, 1, 0);
	struct queue_entry e[4];

	for (size_t i = 0; i < 4; i++)
		queue_push(&q, &e[i], "a", i);
	queue_remove(&q, &e[3]); /* the last: what is pushed now must not hang on it */
	queue_remove(&q, &e[3]);
	queue_remove(&q, &e[1]);
	queue_push(&q, &e[3], "a", 4);
	CHECK_EQ(queue_position(&q, &e[3]), 2);
	queue_remove(&q, &e[0]);
	CHECK(queue_pop(&q) == &e[2]);
	queue_remove(&q, &e[2]); /* it does not wait any more */
	CHECK_EQ(q.n_waiting, 1);
	queue_remove(&q, &e[3]);
	CHECK_EQ(q.n_waiting, 0);
	CHECK_EQ(queue_active_of(&q, "a"), 1);
	queue_end(&q, "a");
	queue_end(&q, "a"); /* one too many is none */
	CHECK_EQ(q.n_active, 0);
	CHECK(q.users == NULL);
	CHECK_EQ(queue_position(&q, &e[3]), 0);
}

TEST(the_oldest_is_found_among_all_users)
{
	QUEUE(q, 1, 0);
	struct queue_entry e[3];

	CHECK(queue_oldest(&q) == NULL);
	queue_push(&q, &e[0], "a", 30);
	queue_push(&q, &e[1], "b", 10);
	queue_push(&q, &e[2], "b", 20);
	CHECK(queue_oldest(&q) == &e[1]);
	queue_remove(&q, &e[1]);
	CHECK(queue_oldest(&q) == &e[2]);
	queue_remove(&q, &e[2]);
	CHECK(queue_oldest(&q) == &e[0]);
}

/* What a position promises is what happens, when runs end one by one. */
TEST(positions_come_true)
{
	struct queue_entry e[40];
	size_t promised[40];
	uint64_t seed = 1;

	for (int round = 0; round < 50; round++) {
		QUEUE(q, 1, 0);
		const char *last = NULL;

		for (size_t i = 0; i < 40; i++) {
			static const char *const names[] = { "a", "b", "c", "d", "e" };
			if (i == 20)
				queue_begin(&q, last = "c");
			queue_push(&q, &e[i], names[random_below(&seed, 5)], i);
		}
		for (size_t i = 0; i < 40; i++)
			promised[i] = queue_position(&q, &e[i]);
		queue_end(&q, last);
		for (size_t n = 0; n < 40; n++) {
			struct queue_entry *next = queue_pop(&q);
			CHECK(next != NULL);
			CHECK_EQ(promised[next - e], n);
			for (const char *u = "a\0b\0c\0d\0e\0"; *u; u += 2)
				if (queue_active_of(&q, u))
					queue_end(&q, u);
		}
	}
}

TEST(a_full_queue_has_a_place_for_who_has_less_than_a_share)
{
	QUEUE(q, 1, 0);
	struct queue_entry greedy[4];
	struct queue_entry others[4];

	for (size_t i = 0; i < 4; i++) {
		CHECK(queue_has_place(&q, "greedy", 4));
		queue_push(&q, &greedy[i], "greedy", i);
	}
	CHECK(!queue_has_place(&q, "greedy", 4));
	for (size_t i = 0; i < 2; i++) {
		CHECK(queue_has_place(&q, "b", 4));
		queue_push(&q, &others[i], "b", i);
	}
	CHECK(!queue_has_place(&q, "b", 4)); /* half of them */
	CHECK(queue_has_place(&q, "c", 4));
	queue_push(&q, &others[2], "c", 0);
	queue_push(&q, &others[3], "d", 0);
	CHECK(!queue_has_place(&q, "e", 4)); /* there is an end to that */
	CHECK(!queue_has_place(&q, "e", 0));
}

TESTS(UNIT(one_user_is_served_in_order_and_only_while_there_is_room),
	UNIT(what_is_parked_keeps_its_place_and_has_no_turn),
	UNIT(what_is_held_takes_a_place_and_has_no_turn), UNIT(one_run_is_second_behind_a_burst),
	UNIT(who_comes_while_a_burst_runs_is_next), UNIT(newcomers_starve_nobody),
	UNIT(a_user_has_a_limit_of_their_own), UNIT(one_may_leave_from_anywhere_and_twice),
	UNIT(the_oldest_is_found_among_all_users), UNIT(positions_come_true),
	UNIT(a_full_queue_has_a_place_for_who_has_less_than_a_share))
