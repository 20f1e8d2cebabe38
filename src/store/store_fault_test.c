#include "lib/harness.h"

static void check_refused(const char *url, const char *why)
{
	struct store *s = NULL;
	struct err err = { 0 };
	uv_loop_t loop;

	CHECK_EQ(uv_loop_init(&loop), 0);
	CHECK_EQ(store_open(&loop, url, false, &s, &err), -EINVAL);
	CHECK(strstr(err.text, why) != NULL);
	CHECK_EQ(uv_loop_close(&loop), 0);
}

TEST(an_url_must_make_sense)
{
	static const char *const bad_faults[] = { "fault:", "fault:memory:", "fault:0:memory:",
		"fault:x:memory:", "fault:-1:memory:", "fault:3",
		"fault:99999999999:memory:", "fault:111111111111111111111111111111:memory:" };

	for (size_t i = 0; i < ARRAY_SIZE(bad_faults); i++)
		check_refused(bad_faults[i], "'fault:'");
	check_refused("fault:1:nothing:", "'nothing'");
	check_refused("trace:", "unknown store");
	check_refused("memory", "unknown store");
	check_refused("mem:", "'mem'");
	check_refused("", "unknown store");
	check_refused("memory:x", "'memory:x'");
	check_refused("redis://user:password@host", "'redis'");
}

/* Every kind of call, each the second of its store. */
static int second_call(struct harness *h, int kind)
{
	struct run_row row = harness_run("r");
	struct query q = { .table = &run_table };
	struct sum_query sum = { .table = &run_table };
	ANSWER(a, &run_table);

	switch (kind) {
	case 0:
		return harness_put(h, &run_table, &row);
	case 1:
		return harness_get(h, &run_table, &row, &a);
	case 2:
		return harness_list(h, &q, &a);
	default:
		return harness_sum(h, &sum, &a);
	}
}

static void check_fault(const char *url)
{
	struct run_row row = harness_run("r");

	for (int kind = 0; kind < 4; kind++) {
		CLEANUP(harness_freep) struct harness *h = harness_new(url);
		ANSWER(a, &run_table);
		struct run_row first = harness_run("first");
		CHECK_EQ(harness_put(h, &run_table, &first), 0);
		CHECK_EQ(second_call(h, kind), -EIO);
		CHECK_EQ(store_health(h->store), kind == 0 ? -EIO : 0);
		CHECK_EQ(harness_get(h, &run_table, &row, &a), -ENOENT);
		CHECK_EQ(harness_put(h, &run_table, &row), 0);
		CHECK_EQ(store_health(h->store), 0);
	}
}

TEST(the_nth_call_fails_and_nothing_of_it_happens)
{
	check_fault("fault:2:memory:");
	check_fault("fault:2:sqlite:@/store.db");
	check_fault("trace:fault:2:sqlite:@/store.db");
}

TEST(a_fault_is_answered_in_its_turn)
{
	CLEANUP(harness_freep) struct harness *h = harness_new("fault:2:sqlite:@/store.db");
	struct answer answers[3] = { 0 };

	for (int i = 0; i < 3; i++)
		store_commit(store_batch_new(h->store), on_done, &answers[i]);
	CHECK_EQ(answers[1].n_calls, 0);
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
	CHECK_EQ(answers[0].r, 0);
	CHECK_EQ(answers[1].r, -EIO);
	CHECK_EQ(answers[2].r, 0);
	CHECK_STR(store_mode(h->store), "sqlite");
}

TESTS(UNIT(an_url_must_make_sense), UNIT(the_nth_call_fails_and_nothing_of_it_happens),
	UNIT(a_fault_is_answered_in_its_turn))
