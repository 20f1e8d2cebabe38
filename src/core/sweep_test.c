#include <time.h>

#include "core/quota.h"
#include "core/service_sample.h"

struct swept {
	unsigned n;
	int r;
	json_int_t cleared, removed, keys;
};

static json_int_t count_at(const json_t *counts, const char *key)
{
	return json_integer_value(json_object_get(counts, key));
}

static void on_swept(void *ctx, int r, json_t *counts)
{
	struct swept *s = ctx;

	s->n++;
	s->r = r;
	s->cleared = count_at(counts, "runs_cleared");
	s->removed = count_at(counts, "runs_removed");
	s->keys = count_at(counts, "idempotency_removed");
	json_decref(counts);
}

static struct swept sweep(struct sample *m)
{
	struct swept s = { 0 };

	service_sweep(m->service, on_swept, &s);
	SAMPLE_UNTIL(m, s.n);
	return s;
}

static void on_stored(void *ctx, int r)
{
	CHECK_EQ(r, 0);
	++*(unsigned *)ctx;
}

/* A run of long ago with a directory and artifacts. */
static void make_old(struct sample *m, const char *id, uint64_t age_sec, bool is_over)
{
	uint64_t now = (uint64_t)time(NULL);
	struct store_batch *b = store_batch_new(m->service->store);
	struct run_row row = {
		.id = (char *)id,
		.user_id = (char *)"alice",
		.phase = (char *)"completed",
		.created_ns = (int64_t)((now - age_sec) * 1000000000),
		.expires_sec = is_over ? (int64_t)now - 1 : STORE_NULL,
		.artifact_bytes = 1000,
	};
	unsigned n = 0;
	AUTO_FD dir = -1;

	store_batch_insert(b, &run_table, &row);
	quota_count_end(b, &row);
	store_commit(b, on_stored, &n);
	SAMPLE_UNTIL(m, n == 1);
	CHECK_EQ(run_dir_open(m->service, "alice", id, true, &dir), 0);
	scratch_write(dir, "stdout", "text");
}

static bool has_dir(struct sample *m, const char *id)
{
	AUTO_FD dir = -1;

	return run_dir_open(m->service, "alice", id, false, &dir) == 0;
}

static void on_usage(void *ctx, int r, const void *row)
{
	*(int64_t *)ctx = r == 0 ? ((const struct usage_row *)row)->artifact_bytes : 0;
}

static int64_t artifact_bytes(struct sample *m)
{
	struct usage_row key = { .user_id = (char *)"alice" };
	int64_t n = -1;

	store_get(m->service->store, &usage_table, &key, on_usage, &n);
	SAMPLE_UNTIL(m, n >= 0);
	return n;
}

static bool is_stored(struct sample *m, const char *id)
{
	struct run_row row = { 0 };
	int r = sample_stored(m, id, &row);

	row_fini(&run_table, &row);
	return r == 0;
}

TEST(files_go_first_and_rows_when_they_are_old)
{
	SAMPLE(m);
	m.settings.run_retention_hours = 10;
	sample_open(&m);
	struct run_row row = { 0 };

	make_old(&m, "young", 3600, true);
	make_old(&m, "old", 11 * 3600, true);
	make_old(&m, "alive", 11 * 3600, false);
	CHECK_EQ(artifact_bytes(&m), 3000);
	struct swept s = sweep(&m);
	CHECK_EQ(s.r, 0);
	CHECK_EQ(s.cleared, 2);
	CHECK_EQ(s.removed, 1);
	CHECK(!has_dir(&m, "young") && !has_dir(&m, "old") && has_dir(&m, "alive"));
	CHECK(is_stored(&m, "young") && !is_stored(&m, "old") && is_stored(&m, "alive"));
	CHECK_EQ(artifact_bytes(&m), 1000);
	CHECK_EQ(sample_stored(&m, "young", &row), 0);
	CHECK_EQ(row.artifact_bytes, 0);
	CHECK(row.expires_sec > (int64_t)time(NULL) + 8 * 3600); /* when the row is too old, too */
	row_fini(&run_table, &row);
	s = sweep(&m);
	CHECK_EQ(s.cleared, 0);
	CHECK_EQ(artifact_bytes(&m), 1000);
	sample_remove(&m);
}

TEST(keys_go_after_their_time)
{
	SAMPLE(m);
	m.settings.idempotency_ttl_sec = 0;
	sample_open(&m);
	struct sample_answer a;

	sample_ask(&m, &a, "alice", "k", SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(sweep(&m).keys, 1);
	CHECK_EQ(sweep(&m).keys, 0);
	sample_remove(&m);
}

/* What both find must be counted once. */
TEST(two_at_once_are_one_after_the_other)
{
	SAMPLE(m);
	sample_open(&m);
	struct swept a = { 0 }, b = { 0 };

	make_old(&m, "one", 3600, true);
	make_old(&m, "two", 3600, false);
	service_sweep(m.service, on_swept, &a);
	service_sweep(m.service, on_swept, &b);
	SAMPLE_UNTIL(&m, a.n && b.n);
	CHECK_EQ(a.cleared, 1);
	CHECK_EQ(b.cleared, 0);
	CHECK_EQ(artifact_bytes(&m), 1000);
	CHECK(m.service->turns == NULL);
	sample_remove(&m);
}

/* Two of the start, one of the row; then list, commit, list, commit. */
TEST(a_sweep_that_fails_says_so_and_the_next_one_does_it)
{
	for (int n = 4; n <= 7; n++) {
		SAMPLE(m);
		(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
		sample_open(&m);
		make_old(&m, "one", 3600, true);
		struct swept s = sweep(&m);
		CHECK_EQ(s.r, -EIO);
		s = sweep(&m);
		CHECK_EQ(s.r, 0);
		CHECK(!has_dir(&m, "one"));
		CHECK_EQ(artifact_bytes(&m), 0);
		sample_remove(&m);
	}
}

TEST(a_service_may_close_while_it_is_swept)
{
	for (int turns = 0; turns < 5; turns++) {
		SAMPLE(m);
		sample_open(&m);
		struct swept a = { 0 }, b = { 0 };

		make_old(&m, "one", 3600, true);
		service_sweep(m.service, on_swept, &a);
		service_sweep(m.service, on_swept, &b);
		for (int i = 0; i < turns; i++)
			(void)uv_run(&m.loop, UV_RUN_NOWAIT);
		sample_remove(&m);
		CHECK_EQ(a.n, 1);
		CHECK_EQ(b.n, 1);
	}
}

TESTS(UNIT(files_go_first_and_rows_when_they_are_old), UNIT(keys_go_after_their_time),
	UNIT(two_at_once_are_one_after_the_other),
	UNIT(a_sweep_that_fails_says_so_and_the_next_one_does_it),
	UNIT(a_service_may_close_while_it_is_swept))
