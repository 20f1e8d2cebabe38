/* What store.h promises about listings and sums, checked against every backend. */
#include "lib/harness.h"

#define H ((struct harness *)*state)

/* id, user, phase, started, message, log bytes */
static const struct sample {
	const char *id;
	const char *user;
	const char *phase;
	const char *started;
	const char *message;
	int64_t log_bytes;
} samples[] = {
	{ "a", "ann", "completed", "2026-01-03", "Hello World", 10 },
	{ "b", "bob", "failed", "2026-01-01", "hello", 20 },
	{ "c", "ann", "queued", NULL, NULL, STORE_NULL },
	{ "d", "bob", "completed", "2026-01-02", "100%_\\", 5 },
	{ "e", NULL, "completed", "2026-01-02", "\xc3\x84rger", -1 },
	{ "f", "Ann", "queued", NULL, "", 0 },
};

static void fill(struct harness *h)
{
	struct store_batch *b = store_batch_new(h->store);

	for (size_t i = ARRAY_SIZE(samples); i-- > 0;) {
		struct run_row row = harness_run(samples[i].id);
		row.user_id = (char *)samples[i].user;
		row.phase = (char *)samples[i].phase;
		row.started_at = (char *)samples[i].started;
		row.message = (char *)samples[i].message;
		row.log_bytes = samples[i].log_bytes;
		store_batch_put(b, &run_table, &row);
	}
	CHECK_EQ(harness_commit(h, b), 0);
}

static void check_list(struct harness *h, struct query q, const char *keys, uint64_t total)
{
	char found[256];
	ANSWER(a, &run_table);

	q.table = &run_table;
	q.count = true;
	CHECK_EQ(harness_list(h, &q, &a), 0);
	CHECK_STR(answer_keys(&a, found, sizeof(found)), keys);
	CHECK_EQ(a.total, total);
}

TEST(a_listing_is_sorted_with_missing_values_first)
{
	static const struct {
		const char *sort;
		bool descending;
		const char *keys;
	} orders[] = {
		{ NULL, false, "a b c d e f" },
		{ NULL, true, "f e d c b a" },
		{ "started_at", false, "c f b d e a" },
		{ "started_at", true, "a e d b f c" },
		{ "log_bytes", false, "c e f d a b" },
		{ "log_bytes", true, "b a d f e c" },
		{ "user_id", false, "e f a c b d" },
		{ "exit_code", true, "f e d c b a" },
		{ "id", true, "f e d c b a" },
	};

	fill(H);
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		check_list(H,
			(struct query){
				.sort = orders[i].sort, .descending = orders[i].descending },
			orders[i].keys, 6);
}

TEST(real_numbers_sort_too)
{
	static const double limits[] = { 2, NAN, 0.5, -1 };
	struct store_batch *b = store_batch_new(H->store);
	struct query q = { .table = &session_table, .sort = "cpu_limit" };
	char id[2] = "a";
	char keys[32];
	ANSWER(a, &session_table);

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++, id[0]++) {
		struct session_row row = { .id = id, .cpu_limit = limits[i] };
		store_batch_put(b, &session_table, &row);
	}
	CHECK_EQ(harness_commit(H, b), 0);
	CHECK_EQ(harness_list(H, &q, &a), 0);
	CHECK_STR(answer_keys(&a, keys, sizeof(keys)), "b d c a");
	CHECK_EQ(a.total, 0);
}

TEST(a_listing_has_pages)
{
	static const struct {
		uint64_t limit;
		uint64_t offset;
		const char *keys;
	} pages[] = {
		{ 2, 0, "a b" },
		{ 2, 4, "e f" },
		{ 4, 4, "e f" },
		{ 2, 6, "" },
		{ 0, 4, "e f" },
		{ UINT64_MAX, 5, "f" },
		{ 3, UINT64_MAX, "" },
		{ UINT64_MAX, UINT64_MAX, "" },
	};

	fill(H);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		check_list(H, (struct query){ .limit = pages[i].limit, .offset = pages[i].offset },
			pages[i].keys, 6);
}

TEST(filters_choose_rows)
{
	static const struct {
		struct filter filter;
		const char *keys;
	} cases[] = {
		{ { "user_id", FILTER_EQ, "ann", 0 }, "a c" },
		{ { "user_id", FILTER_EQ, "", 0 }, "" },
		{ { "user_id", FILTER_EQ, NULL, 0 }, "e" },
		{ { "id", FILTER_EQ, "d", 0 }, "d" },
		{ { "log_bytes", FILTER_EQ, NULL, 20 }, "b" },
		{ { "log_bytes", FILTER_EQ, NULL, 0 }, "f" },
		{ { "log_bytes", FILTER_EQ, NULL, STORE_NULL }, "c" },
		{ { "log_bytes", FILTER_GE, NULL, 10 }, "a b" },
		{ { "log_bytes", FILTER_LE, NULL, 0 }, "e f" },
		{ { "started_at", FILTER_GE, "2026-01-02", 0 }, "a d e" },
		{ { "started_at", FILTER_LE, "2026-01-02", 0 }, "b d e" },
		{ { "started_at", FILTER_GE, "", 0 }, "a b d e" },
		{ { "phase", FILTER_IN, "queued,failed", 0 }, "b c f" },
		{ { "phase", FILTER_IN, "queued", 0 }, "c f" },
		{ { "phase", FILTER_IN, "", 0 }, "" },
		{ { "message", FILTER_IN, "", 0 }, "f" },
		{ { "message", FILTER_IN, "x,,hello", 0 }, "b f" },
		{ { "phase", FILTER_IN, "queued, failed", 0 }, "c f" },
		{ { "message", FILTER_CONTAINS, "HELLO", 0 }, "a b" },
		{ { "message", FILTER_CONTAINS, "o w", 0 }, "a" },
		{ { "message", FILTER_CONTAINS, "%_\\", 0 }, "d" },
		{ { "message", FILTER_CONTAINS, "%", 0 }, "d" },
		{ { "message", FILTER_CONTAINS, "", 0 }, "a b d e f" },
		{ { "message", FILTER_CONTAINS, "\xc3\x84R", 0 }, "e" },
		{ { "message", FILTER_CONTAINS, "\xc3\xa4r", 0 }, "" },
		{ { "message|user_id", FILTER_CONTAINS, "an", 0 }, "a c f" },
		{ { "phase|message", FILTER_CONTAINS, "PLE", 0 }, "a d e" },
		{ { "user_id", FILTER_EQ, "x' OR 1=1 --", 0 }, "" },
	};

	fill(H);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct query q = { .filters = { cases[i].filter }, .n_filters = 1 };
		size_t size = strlen(cases[i].keys);
		check_list(H, q, cases[i].keys, (size + 1) / 2);
	}
}

TEST(filters_hold_together)
{
	struct query q = {
		.filters = {
			{ "phase", FILTER_EQ, "completed", 0 },
			{ "started_at", FILTER_GE, "2026-01-02", 0 },
			{ "started_at", FILTER_LE, "2026-01-02", 0 },
			{ "log_bytes", FILTER_GE, NULL, 0 },
		},
		.n_filters = 4,
		.sort = "started_at",
		.descending = true,
		.limit = 5,
	};

	fill(H);
	check_list(H, q, "d", 1);
	q.n_filters = 3;
	check_list(H, q, "e d", 2);
	q.limit = 1;
	check_list(H, q, "e", 2);
}

TEST(the_total_is_counted_only_if_asked_for)
{
	struct query q = { .table = &run_table, .limit = 2 };
	ANSWER(a, &run_table);

	fill(H);
	CHECK_EQ(harness_list(H, &q, &a), 0);
	CHECK_EQ(a.rows.n, 2);
	CHECK_EQ(a.total, 0);
}

static void check_bad_query(struct harness *h, struct query q)
{
	ANSWER(a, &run_table);

	q.table = q.table ? q.table : &run_table;
	CHECK_EQ(harness_list(h, &q, &a), -EINVAL);
	CHECK_EQ(a.rows.n, 0);
}

TEST(a_query_that_makes_no_sense_is_refused)
{
	static const struct filter filters[] = {
		{ "no_such", FILTER_EQ, "x", 0 },
		{ "", FILTER_EQ, "x", 0 },
		{ NULL, FILTER_EQ, "x", 0 },
		{ "phase; DROP TABLE sandbox_runs", FILTER_EQ, "x", 0 },
		{ "phase|no_such", FILTER_CONTAINS, "x", 0 },
		{ "phase|runtime", FILTER_EQ, "x", 0 },
		{ "phase|runtime|labels|usage|message", FILTER_CONTAINS, "x", 0 },
		{ "log_bytes", FILTER_CONTAINS, "x", 0 },
		{ "log_bytes", FILTER_IN, "1", 0 },
		{ "log_bytes", FILTER_GE, NULL, STORE_NULL },
		{ "phase", FILTER_GE, NULL, 0 },
		{ "phase", FILTER_CONTAINS, NULL, 0 },
		{ "phase", FILTER_IN, NULL, 0 },
		{ "phase", (enum filter_op)17, "x", 0 },
	};
	struct table unknown = run_table;

	fill(H);
	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		check_bad_query(H, (struct query){ .filters = { filters[i] }, .n_filters = 1 });
	check_bad_query(H, (struct query){ .sort = "no_such" });
	check_bad_query(H, (struct query){ .sort = "" });
	check_bad_query(H, (struct query){ .sort = "id DESC" });
	check_bad_query(H, (struct query){ .table = &unknown });
	check_bad_query(H, (struct query){ .n_filters = STORE_FILTERS_MAX + 1 });
	check_list(H, (struct query){ 0 }, "a b c d e f", 6);
}

TEST(a_list_of_values_has_a_limit)
{
	char many[STORE_IN_MAX + 2];
	struct query q = { .filters = { { "phase", FILTER_IN, many, 0 } }, .n_filters = 1 };

	memset(many, ',', sizeof(many));
	many[STORE_IN_MAX] = '\0';
	check_bad_query(H, q);
	many[STORE_IN_MAX - 1] = '\0';
	check_list(H, q, "", 0);
}

TEST(every_filter_there_is_room_for_holds)
{
	struct query q = { .n_filters = STORE_FILTERS_MAX };

	fill(H);
	for (size_t i = 0; i < STORE_FILTERS_MAX; i++)
		q.filters[i] = (struct filter){ "phase", FILTER_IN, "queued,failed", 0 };
	q.filters[STORE_FILTERS_MAX - 1].text = "failed";
	check_list(H, q, "b", 1);
}

static void check_group(const struct answer *a, size_t i, const char *by0, const char *by1,
	int64_t n_rows, int64_t sum)
{
	CHECK_STR(a->texts[i][0], by0);
	CHECK_STR(a->texts[i][1], by1);
	CHECK_EQ(a->groups[i].n_rows, n_rows);
	CHECK_EQ(a->groups[i].sums[1], sum);
	CHECK_EQ(a->groups[i].sums[0], 0);
}

TEST(sums_are_by_group)
{
	struct sum_query q = {
		.table = &run_table,
		.by = "phase, user_id",
		.sums = { NULL, "log_bytes" },
	};
	ANSWER(a, &run_table);
	ANSWER(b, &run_table);
	ANSWER(c, &run_table);

	fill(H);
	CHECK_EQ(harness_sum(H, &q, &a), 0);
	CHECK_EQ(a.n_groups, 6);
	check_group(&a, 0, "completed", "-", 1, -1);
	check_group(&a, 1, "completed", "ann", 1, 10);
	check_group(&a, 2, "completed", "bob", 1, 5);
	check_group(&a, 3, "failed", "bob", 1, 20);
	check_group(&a, 4, "queued", "Ann", 1, 0);
	check_group(&a, 5, "queued", "ann", 1, 0);
	q.by = "phase";
	q.limit = 2;
	CHECK_EQ(harness_sum(H, &q, &b), 0);
	CHECK_EQ(b.n_groups, 2);
	check_group(&b, 0, "completed", "-", 3, 14);
	check_group(&b, 1, "queued", "-", 2, 0);
	q.filters[0] = (struct filter){ "user_id", FILTER_EQ, "bob", 0 };
	q.n_filters = 1;
	CHECK_EQ(harness_sum(H, &q, &c), 0);
	CHECK_EQ(c.n_groups, 2);
	check_group(&c, 0, "completed", "-", 1, 5);
	check_group(&c, 1, "failed", "-", 1, 20);
}

TEST(a_sum_without_groups_is_one_even_of_nothing)
{
	struct sum_query q = { .table = &run_table, .sums = { NULL, "log_bytes" } };
	ANSWER(a, &run_table);
	ANSWER(b, &run_table);

	CHECK_EQ(harness_sum(H, &q, &a), 0);
	CHECK_EQ(a.n_groups, 1);
	check_group(&a, 0, "-", "-", 0, 0);
	fill(H);
	CHECK_EQ(harness_sum(H, &q, &b), 0);
	CHECK_EQ(b.n_groups, 1);
	check_group(&b, 0, "-", "-", 6, 34);
}

TEST(a_sum_of_no_rows_has_no_groups)
{
	struct sum_query q = { .table = &run_table, .by = "phase" };
	ANSWER(a, &run_table);

	CHECK_EQ(harness_sum(H, &q, &a), 0);
	CHECK_EQ(a.n_groups, 0);
}

TEST(a_sum_that_does_not_fit_says_so)
{
	struct sum_query q = { .table = &usage_table, .sums = { "log_bytes" } };
	struct usage_row row = { .user_id = T("a"), .log_bytes = INT64_MAX };
	ANSWER(a, &usage_table);

	CHECK_EQ(harness_put(H, &usage_table, &row), 0);
	row.user_id = T("b");
	CHECK_EQ(harness_put(H, &usage_table, &row), 0);
	CHECK_EQ(harness_sum(H, &q, &a), -EOVERFLOW);
}

static void check_bad_sum(struct harness *h, struct sum_query q)
{
	ANSWER(a, &run_table);

	q.table = &run_table;
	CHECK_EQ(harness_sum(h, &q, &a), -EINVAL);
}

TEST(a_sum_that_makes_no_sense_is_refused)
{
	check_bad_sum(H, (struct sum_query){ .by = "no_such" });
	check_bad_sum(H, (struct sum_query){ .by = "log_bytes" });
	check_bad_sum(H, (struct sum_query){ .by = "phase, runtime, user_id" });
	check_bad_sum(H, (struct sum_query){ .by = "phase", .sums = { "runtime" } });
	check_bad_sum(H, (struct sum_query){ .by = "phase", .sums = { NULL, NULL, "no_such" } });
	check_bad_sum(H, (struct sum_query){ .n_filters = 1 });
}

static const struct harness_case cases[] = {
	HARNESS_CASE(a_listing_is_sorted_with_missing_values_first),
	HARNESS_CASE(real_numbers_sort_too),
	HARNESS_CASE(a_listing_has_pages),
	HARNESS_CASE(filters_choose_rows),
	HARNESS_CASE(filters_hold_together),
	HARNESS_CASE(the_total_is_counted_only_if_asked_for),
	HARNESS_CASE(a_query_that_makes_no_sense_is_refused),
	HARNESS_CASE(a_list_of_values_has_a_limit),
	HARNESS_CASE(every_filter_there_is_room_for_holds),
	HARNESS_CASE(sums_are_by_group),
	HARNESS_CASE(a_sum_without_groups_is_one_even_of_nothing),
	HARNESS_CASE(a_sum_of_no_rows_has_no_groups),
	HARNESS_CASE(a_sum_that_does_not_fit_says_so),
	HARNESS_CASE(a_sum_that_makes_no_sense_is_refused),
};

int main(void)
{
	return harness_main(cases, ARRAY_SIZE(cases));
}
