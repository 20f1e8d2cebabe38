/* What store.h promises about changes and about answers, checked against every backend. */
#include "lib/harness.h"

#define H ((struct harness *)*state)

static struct store_batch *batch(struct harness *h)
{
	return store_batch_new(h->store);
}

TEST(a_row_comes_back_as_it_was)
{
	struct session_row in = {
		.id = T("s1"),
		.user_id = T(""),
		.env = T("{\"A\": \"\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x94'; DROP TABLE x\"}"),
		.labels = NULL,
		.cpu_limit = 0.1,
		.memory_mb = INT64_MAX,
		.timeout_sec = INT64_MIN + 1,
		.expires_sec = STORE_NULL,
		.uid = 0,
	};
	ANSWER(a, &session_table);

	CHECK_EQ(harness_put(H, &session_table, &in), 0);
	CHECK_EQ(harness_get(H, &session_table, &in, &a), 0);
	const struct session_row *out = a.rows.data;
	CHECK_STR(out->id, "s1");
	CHECK_STR(out->user_id, "");
	CHECK_STR(out->env, in.env);
	CHECK(out->labels == NULL);
	CHECK(out->cpu_limit == 0.1);
	CHECK(out->memory_mb == INT64_MAX);
	CHECK(out->timeout_sec == INT64_MIN + 1);
	CHECK(out->expires_sec == STORE_NULL);
	CHECK_EQ(out->uid, 0);
}

TEST(a_real_number_may_be_missing)
{
	struct session_row in = { .id = T("s1"), .cpu_limit = NAN };
	ANSWER(a, &session_table);

	CHECK_EQ(harness_put(H, &session_table, &in), 0);
	CHECK_EQ(harness_get(H, &session_table, &in, &a), 0);
	CHECK(isnan(((struct session_row *)a.rows.data)->cpu_limit));
}

TEST(a_large_text_comes_back)
{
	struct run_row in = harness_run("r");
	AUTO_FREE char *text = malloc(3000001);
	ANSWER(a, &run_table);

	memset(text, 'x', 3000000);
	text[3000000] = '\0';
	in.request = text;
	CHECK_EQ(harness_put(H, &run_table, &in), 0);
	CHECK_EQ(harness_get(H, &run_table, &in, &a), 0);
	CHECK_STR(((struct run_row *)a.rows.data)->request, text);
}

TEST(an_absent_row_is_enoent)
{
	struct run_row key = harness_run("nobody");
	ANSWER(a, &run_table);

	CHECK_EQ(harness_get(H, &run_table, &key, &a), -ENOENT);
}

TEST(a_row_is_found_by_all_parts_of_its_key)
{
	struct idempotency_row in = { .endpoint = T("runs"), .user_key = T("u"), .key = T("k") };
	struct idempotency_row other = { .endpoint = T("runs"), .user_key = T("u"), .key = T("l") };
	ANSWER(a, &idempotency_table);
	ANSWER(b, &idempotency_table);

	CHECK_EQ(harness_put(H, &idempotency_table, &in), 0);
	CHECK_EQ(harness_get(H, &idempotency_table, &other, &a), -ENOENT);
	CHECK_EQ(harness_get(H, &idempotency_table, &in, &b), 0);
}

TEST(put_replaces_every_column)
{
	struct run_row first = harness_run("r");
	struct run_row second = harness_run("r");
	ANSWER(a, &run_table);

	first.phase = T("running");
	first.request = T("{}");
	first.started_at = T("2026");
	first.log_bytes = 5;
	second.phase = T("completed");
	second.finished_at = T("2027");
	second.exit_code = 0;
	second.log_bytes = 6;
	CHECK_EQ(harness_put(H, &run_table, &first), 0);
	CHECK_EQ(harness_put(H, &run_table, &second), 0);
	CHECK_EQ(harness_put(H, &run_table, &second), 0);
	CHECK_EQ(harness_get(H, &run_table, &first, &a), 0);
	const struct run_row *out = a.rows.data;
	CHECK_STR(out->phase, "completed");
	CHECK(out->request == NULL);
	CHECK(out->started_at == NULL);
	CHECK_STR(out->finished_at, "2027");
	CHECK_EQ(out->exit_code, 0);
	CHECK_EQ(out->log_bytes, 6);
}

/* More sets of changed columns than statements are kept of. */
TEST(put_changes_any_set_of_columns)
{
	struct run_row row = harness_run("r");
	char text[16];

	for (unsigned i = 0; i < 200; i++) {
		ANSWER(a, &run_table);
		(void)snprintf(text, sizeof(text), "%u", i);
		char **fields[] = { &row.phase, &row.message, &row.labels, &row.usage, &row.source,
			&row.trace_id, &row.approval, &row.runtime };
		for (size_t j = 0; j < ARRAY_SIZE(fields); j++) {
			if (i & 1u << j)
				*fields[j] = *fields[j] ? NULL : T("set");
		}
		row.message = text;
		CHECK_EQ(harness_put(H, &run_table, &row), 0);
		CHECK_EQ(harness_get(H, &run_table, &row, &a), 0);
		const struct run_row *out = a.rows.data;
		CHECK_STR(out->message, text);
		CHECK_EQ(out->phase == NULL, row.phase == NULL);
		CHECK_EQ(out->approval == NULL, row.approval == NULL);
		CHECK_EQ(out->source == NULL, row.source == NULL);
	}
}

TEST(insert_of_a_present_key_takes_the_batch_back)
{
	struct run_row old = harness_run("old");
	struct run_row new = harness_run("new");
	struct usage_row usage = { .user_id = T("u") };
	struct store_batch *b = batch(H);
	ANSWER(a1, &run_table);
	ANSWER(a2, &run_table);
	ANSWER(a3, &usage_table);

	old.phase = T("kept");
	CHECK_EQ(harness_put(H, &run_table, &old), 0);
	old.phase = T("lost");
	store_batch_insert(b, &run_table, &new);
	store_batch_add(b, &usage_table, &usage, "runs_count", 1);
	store_batch_put(b, &run_table, &old);
	store_batch_delete(b, &run_table, &old);
	store_batch_insert(b, &run_table, &new);
	CHECK_EQ(harness_commit(H, b), -EEXIST);
	CHECK_EQ(harness_get(H, &run_table, &new, &a1), -ENOENT);
	CHECK_EQ(harness_get(H, &run_table, &old, &a2), 0);
	CHECK_STR(((struct run_row *)a2.rows.data)->phase, "kept");
	CHECK_EQ(harness_get(H, &usage_table, &usage, &a3), -ENOENT);
}

TEST(changes_of_a_batch_apply_in_order)
{
	struct run_row row = harness_run("r");
	struct store_batch *b = batch(H);
	ANSWER(a, &run_table);

	store_batch_insert(b, &run_table, &row);
	store_batch_delete(b, &run_table, &row);
	row.phase = T("second");
	store_batch_insert(b, &run_table, &row);
	row.phase = T("third");
	store_batch_put(b, &run_table, &row);
	row.phase = T("not asked for");
	CHECK_EQ(harness_commit(H, b), 0);
	CHECK_EQ(harness_get(H, &run_table, &row, &a), 0);
	CHECK_STR(((struct run_row *)a.rows.data)->phase, "third");
}

TEST(delete_removes_and_is_content_with_nothing)
{
	struct run_row row = harness_run("r");
	ANSWER(a, &run_table);

	CHECK_EQ(harness_put(H, &run_table, &row), 0);
	for (int i = 0; i < 2; i++) {
		struct store_batch *b = batch(H);
		store_batch_delete(b, &run_table, &row);
		CHECK_EQ(harness_commit(H, b), 0);
	}
	CHECK_EQ(harness_get(H, &run_table, &row, &a), -ENOENT);
}

TEST(an_empty_batch_succeeds)
{
	CHECK_EQ(harness_commit(H, batch(H)), 0);
}

TEST(a_batch_may_be_dropped)
{
	struct run_row row = harness_run("r");
	struct store_batch *b = batch(H);
	ANSWER(a, &run_table);

	store_batch_put(b, &run_table, &row);
	store_batch_free(b);
	store_batch_free(NULL);
	CHECK_EQ(harness_get(H, &run_table, &row, &a), -ENOENT);
}

static int64_t add(struct harness *h, int64_t delta)
{
	struct daily_row key = { .user_id = T("u"), .day = T("2026-01-31"), .runs_count = 77 };
	struct store_batch *b = store_batch_new(h->store);
	ANSWER(a, &daily_table);

	store_batch_add(b, &daily_table, &key, "cpu_us", delta);
	CHECK_EQ(harness_commit(h, b), 0);
	CHECK_EQ(harness_get(h, &daily_table, &key, &a), 0);
	const struct daily_row *row = a.rows.data;
	CHECK_STR(row->day, "2026-01-31");
	CHECK_EQ(row->runs_count, 0);
	CHECK_EQ(row->artifact_bytes, 0);
	return row->cpu_us;
}

TEST(add_counts_between_zero_and_the_largest)
{
	static const struct {
		int64_t delta;
		int64_t sum;
	} steps[] = {
		{ -7, 0 },
		{ 5, 5 },
		{ -2, 3 },
		{ 0, 3 },
		{ -4, 0 },
		{ INT64_MAX, INT64_MAX },
		{ 1, INT64_MAX },
		{ INT64_MAX, INT64_MAX },
		{ -1, INT64_MAX - 1 },
		{ 1, INT64_MAX },
		{ INT64_MIN, 0 },
		{ 1, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		CHECK(add(H, steps[i].delta) == steps[i].sum);
}

TEST(add_counts_no_value_as_zero_and_leaves_the_rest)
{
	struct run_row row = harness_run("r");
	struct store_batch *b = batch(H);
	ANSWER(a, &run_table);

	row.phase = T("x");
	row.log_bytes = 3;
	store_batch_put(b, &run_table, &row);
	store_batch_add(b, &run_table, &row, "exit_code", 2);
	CHECK_EQ(harness_commit(H, b), 0);
	CHECK_EQ(harness_get(H, &run_table, &row, &a), 0);
	const struct run_row *out = a.rows.data;
	CHECK_EQ(out->exit_code, 2);
	CHECK_EQ(out->log_bytes, 3);
	CHECK(out->signal == STORE_NULL);
	CHECK_STR(out->phase, "x");
}

TEST(add_makes_a_row_of_zeroes)
{
	struct session_row row = { .id = T("s"), .user_id = T("not looked at"), .uid = 9 };
	struct store_batch *b = batch(H);
	ANSWER(a, &session_table);

	store_batch_add(b, &session_table, &row, "memory_mb", 2);
	CHECK_EQ(harness_commit(H, b), 0);
	CHECK_EQ(harness_get(H, &session_table, &row, &a), 0);
	const struct session_row *out = a.rows.data;
	CHECK_EQ(out->memory_mb, 2);
	CHECK_EQ(out->uid, 0);
	CHECK(out->cpu_limit == 0);
	CHECK(out->user_id == NULL);
}

static void fail_with(struct harness *h, const struct table *t, const void *row, const char *column)
{
	struct store_batch *b = store_batch_new(h->store);

	if (column)
		store_batch_add(b, t, row, column, 1);
	else
		store_batch_put(b, t, row);
	CHECK_EQ(harness_commit(h, b), -EINVAL);
}

TEST(what_makes_no_sense_is_refused)
{
	struct run_row no_key = { .phase = T("x") };
	struct run_row row = harness_run("r");
	struct table unknown = run_table;
	struct daily_row half = { .user_id = T("u") };
	ANSWER(a, &run_table);
	ANSWER(b, &run_table);

	fail_with(H, &run_table, &no_key, NULL);
	fail_with(H, &daily_table, &half, NULL);
	fail_with(H, &unknown, &row, NULL);
	fail_with(H, &run_table, &row, "no_such");
	fail_with(H, &run_table, &row, "phase");
	fail_with(H, &session_table, &row, "cpu_limit");
	CHECK_EQ(harness_get(H, &run_table, &no_key, &a), -EINVAL);
	CHECK_EQ(store_health(H->store), 0);
	CHECK_EQ(harness_get(H, &run_table, &row, &b), -ENOENT);
}

/* Every answer notes its place. */
struct order {
	int next;
	int places[8];
	int results[8];
};

struct ticket {
	struct order *order;
	int number;
};

static void note(struct ticket *t, int r)
{
	t->order->places[t->number] = t->order->next++;
	t->order->results[t->number] = r;
}

static void note_done(void *ctx, int r)
{
	note(ctx, r);
}

static void note_row(void *ctx, int r, const void *row)
{
	(void)row;
	note(ctx, r);
}

static void note_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	(void)rows;
	(void)total;
	note(ctx, r < 0 ? r : (int)n);
}

/* One of everything, without waiting. */
static void ask(struct harness *h, struct ticket tickets[8])
{
	struct run_row row = harness_run("r");
	struct query q = { .table = &run_table };
	struct query bad = { .table = &run_table, .sort = "no_such" };
	struct store_batch *b[4];

	for (int i = 0; i < 4; i++)
		b[i] = store_batch_new(h->store);
	store_batch_insert(b[0], &run_table, &row);
	store_batch_insert(b[1], &run_table, &row);
	store_batch_delete(b[2], &run_table, &row);
	store_batch_insert(b[3], &run_table, &row);
	store_get(h->store, &run_table, &row, note_row, &tickets[0]);
	store_commit(b[0], note_done, &tickets[1]);
	store_get(h->store, &run_table, &row, note_row, &tickets[2]);
	store_commit(b[1], note_done, &tickets[3]);
	store_list(h->store, &bad, note_rows, &tickets[4]);
	store_commit(b[2], note_done, &tickets[5]);
	store_list(h->store, &q, note_rows, &tickets[6]);
	store_commit(b[3], note_done, &tickets[7]);
}

static const int asked_results[8] = { -ENOENT, 0, 0, -EEXIST, -EINVAL, 0, 0, 0 };

TEST(answers_come_in_the_order_of_calls_and_never_inside_one)
{
	struct order order = { 0 };
	struct ticket tickets[8];

	for (int i = 0; i < 8; i++)
		tickets[i] = (struct ticket){ &order, i };
	ask(H, tickets);
	CHECK_EQ(order.next, 0);
	(void)uv_run(&H->loop, UV_RUN_DEFAULT);
	CHECK_EQ(order.next, 8);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(order.places[i], i);
		CHECK_EQ(order.results[i], asked_results[i]);
	}
}

TEST(freeing_answers_what_is_pending)
{
	struct order order = { 0 };
	struct ticket tickets[8];

	for (int i = 0; i < 8; i++)
		tickets[i] = (struct ticket){ &order, i };
	ask(H, tickets);
	CHECK_EQ(order.next, 0);
	store_free(TAKE(H->store));
	CHECK_EQ(order.next, 8);
	for (int i = 0; i < 8; i++) {
		CHECK_EQ(order.places[i], i);
		CHECK_EQ(order.results[i], asked_results[i]);
	}
}

static void free_it(void *ctx, int r)
{
	struct harness *h = ctx;

	CHECK_EQ(r, 0);
	store_free(TAKE(h->store));
}

TEST(a_callback_may_free_the_store)
{
	struct answer late = { .r = 1 };

	store_commit(batch(H), free_it, H);
	store_commit(batch(H), on_done, &late);
	(void)uv_run(&H->loop, UV_RUN_DEFAULT);
	CHECK(H->store == NULL);
	CHECK_EQ(late.n_calls, 1);
	CHECK_EQ(late.r, 0);
}

struct asker {
	struct store *store;
	struct answer answer;
};

static void ask_more(void *ctx, int r)
{
	struct asker *a = ctx;

	CHECK_EQ(r, 0);
	store_commit(store_batch_new(a->store), on_done, &a->answer);
}

TEST(what_is_asked_for_while_closing_is_canceled)
{
	struct asker a = { .store = H->store };

	store_commit(batch(H), ask_more, &a);
	store_free(TAKE(H->store));
	CHECK_EQ(a.answer.n_calls, 1);
	CHECK_EQ(a.answer.r, -ECANCELED);
}

TEST(an_idle_store_lets_the_loop_end)
{
	CHECK_EQ(uv_loop_alive(&H->loop), 0);
	CHECK_EQ(uv_run(&H->loop, UV_RUN_DEFAULT), 0);
	CHECK_EQ(harness_commit(H, batch(H)), 0);
	CHECK_EQ(uv_loop_alive(&H->loop), 0);
	store_commit(batch(H), NULL, NULL);
	CHECK(uv_loop_alive(&H->loop) != 0);
	CHECK_EQ(uv_run(&H->loop, UV_RUN_DEFAULT), 0);
}

struct chain {
	struct harness *h;
	int n_left;
};

static void go_on(void *ctx, int r)
{
	struct chain *c = ctx;

	CHECK_EQ(r, 0);
	if (c->n_left-- > 0)
		store_commit(store_batch_new(c->h->store), go_on, c);
}

TEST(a_callback_may_ask_for_more)
{
	struct chain chain = { H, 100 };

	store_commit(batch(H), go_on, &chain);
	(void)uv_run(&H->loop, UV_RUN_DEFAULT);
	CHECK_EQ(chain.n_left, -1);
}

TEST(a_failing_batch_leaves_its_neighbours_alone)
{
	enum { N = 300 };
	struct answer answers[N] = { 0 };
	struct usage_row usage = { .user_id = T("u") };
	ANSWER(a, &usage_table);
	char id[16];

	for (int i = 0; i < N; i++) {
		struct store_batch *b = batch(H);
		(void)snprintf(id, sizeof(id), "%d", i % 3 == 2 ? i - 1 : i);
		struct run_row row = harness_run(id);
		store_batch_add(b, &usage_table, &usage, "runs_count", 1);
		store_batch_insert(b, &run_table, &row);
		store_commit(b, on_done, &answers[i]);
	}
	(void)uv_run(&H->loop, UV_RUN_DEFAULT);
	for (int i = 0; i < N; i++)
		CHECK_EQ(answers[i].r, i % 3 == 2 ? -EEXIST : 0);
	CHECK_EQ(harness_get(H, &usage_table, &usage, &a), 0);
	CHECK_EQ(((struct usage_row *)a.rows.data)->runs_count, N / 3 * 2);
	CHECK_EQ(store_health(H->store), 0);
}

TEST(it_says_what_it_is)
{
	CHECK_STR(store_mode(H->store), strstr(H->url, "sqlite") ? "sqlite" : "memory");
	CHECK_EQ(store_health(H->store), 0);
}

static const struct harness_case cases[] = {
	HARNESS_CASE(a_row_comes_back_as_it_was),
	HARNESS_CASE(a_real_number_may_be_missing),
	HARNESS_CASE(a_large_text_comes_back),
	HARNESS_CASE(an_absent_row_is_enoent),
	HARNESS_CASE(a_row_is_found_by_all_parts_of_its_key),
	HARNESS_CASE(put_replaces_every_column),
	HARNESS_CASE(put_changes_any_set_of_columns),
	HARNESS_CASE(insert_of_a_present_key_takes_the_batch_back),
	HARNESS_CASE(changes_of_a_batch_apply_in_order),
	HARNESS_CASE(delete_removes_and_is_content_with_nothing),
	HARNESS_CASE(an_empty_batch_succeeds),
	HARNESS_CASE(a_batch_may_be_dropped),
	HARNESS_CASE(add_counts_between_zero_and_the_largest),
	HARNESS_CASE(add_counts_no_value_as_zero_and_leaves_the_rest),
	HARNESS_CASE(add_makes_a_row_of_zeroes),
	HARNESS_CASE(what_makes_no_sense_is_refused),
	HARNESS_CASE(answers_come_in_the_order_of_calls_and_never_inside_one),
	HARNESS_CASE(freeing_answers_what_is_pending),
	HARNESS_CASE(a_callback_may_free_the_store),
	HARNESS_CASE(what_is_asked_for_while_closing_is_canceled),
	HARNESS_CASE(an_idle_store_lets_the_loop_end),
	HARNESS_CASE(a_callback_may_ask_for_more),
	HARNESS_CASE(a_failing_batch_leaves_its_neighbours_alone),
	HARNESS_CASE(it_says_what_it_is),
};

int main(void)
{
	return harness_main(cases, ARRAY_SIZE(cases));
}
