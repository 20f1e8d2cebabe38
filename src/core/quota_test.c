#include "core/quota.h"

#include "base/date.h"
#include "core/service_sample.h"

#define CAPTURING "{\"base_image\":\"host\",\"command\":[\"true\"],\"capture_patterns\":[\"*\"]}"

static void on_stored(void *ctx, int r)
{
	CHECK_EQ(r, 0);
	++*(unsigned *)ctx;
}

static void commit(struct sample *m, struct store_batch *b)
{
	unsigned n = 0;

	store_commit(b, on_stored, &n);
	SAMPLE_UNTIL(m, n == 1);
}

/* As if alice had used this much today. */
static void use(struct sample *m, int64_t cpu_us, int64_t artifact_bytes)
{
	char user[] = "alice";
	struct run_row row = { .user_id = user, .cpu_us = cpu_us };
	struct store_batch *b = store_batch_new(m->service->store);

	row.artifact_bytes = artifact_bytes;
	row.log_bytes = 7;
	quota_count_end(b, &row);
	commit(m, b);
}

struct look {
	int r; /* 1: not yet */
	struct usage_row usage;
	struct daily_row daily;
};

static void on_usage(void *ctx, int r, const void *row)
{
	struct look *l = ctx;

	l->r = r;
	if (r == 0)
		l->usage = *(const struct usage_row *)row;
}

static void on_daily(void *ctx, int r, const void *row)
{
	struct look *l = ctx;

	l->r = r;
	if (r == 0)
		l->daily = *(const struct daily_row *)row;
}

static struct look used(struct sample *m)
{
	char user[] = "alice";
	char day[DATE_DAY_SIZE + 1];
	struct look l = { .r = 1 };
	struct usage_row usage = { .user_id = user };
	struct daily_row daily = { .user_id = user, .day = day };

	date_format_day(clock_realtime_ns(), day);
	store_get(m->service->store, &usage_table, &usage, on_usage, &l);
	SAMPLE_UNTIL(m, l.r != 1);
	l.r = 1;
	store_get(m->service->store, &daily_table, &daily, on_daily, &l);
	SAMPLE_UNTIL(m, l.r != 1);
	return l;
}

static struct sample_answer ask(struct sample *m, const char *user, const char *body)
{
	struct sample_answer a;

	sample_ask(m, &a, user, NULL, body);
	SAMPLE_UNTIL(m, a.n);
	return a;
}

static void check_exceeded(struct sample_answer *a, const char *quota, json_int_t limit)
{
	CHECK_EQ(a->status, 429);
	CHECK_STR(a->code, "quota_exceeded");
	CHECK_STR(json_string_value(json_object_get(a->details, "quota")), quota);
	CHECK_EQ(json_integer_value(json_object_get(a->details, "limit")), limit);
	CHECK(json_integer_value(json_object_get(a->details, "used")) >= limit);
	sample_answer_fini(a);
}

TEST(runs_are_counted_when_accepted_and_when_over)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);

	(void)sample_run(&m, NULL);
	job_started(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "12345");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, m.service->n_runs == 1);
	CHECK(m.service->runs != run);
	run_store_noted(m.service);
	struct look l = used(&m);
	CHECK_EQ(l.usage.runs_count, 2);
	CHECK_EQ(l.usage.log_bytes, 5);
	CHECK_EQ(l.daily.runs_count, 2);
	CHECK_EQ(l.daily.cpu_us, 1500000);
	sample_remove(&m);
}

/* It comes to the store with its end, and that call fails once. */
TEST(one_that_is_stored_at_the_second_try_is_counted_once)
{
	SAMPLE(m);
	(void)snprintf(m.store, sizeof(m.store), "fault:3:memory:");
	sample_open(&m);
	struct sample_answer a;

	sample_wish(&m, &a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	SAMPLE_UNTIL(&m, m.service->runs->n_tries == 1);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	struct look l = used(&m);
	CHECK_EQ(l.usage.runs_count, 1);
	CHECK_EQ(l.daily.runs_count, 1);
	sample_remove(&m);
}

/* In a session it is noted first, and stored as waiting when the keeper can not take it. */
TEST(one_that_waits_for_the_keeper_is_counted_once)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;
	char body[128];

	(void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"command\":[\"true\"]}",
		sample_session(&m)->row.id);
	sample_host.refusal = -EAGAIN;
	sample_ask(&m, &a, "alice", NULL, body);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK_EQ(used(&m).usage.runs_count, 1); /* by now: should we die, it would never be */
	sample_host.refusal = 0;
	service_dispatch(m.service);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK_EQ(used(&m).usage.runs_count, 1);
	sample_remove(&m);
}

TEST(processor_time_of_a_day_is_limited)
{
	SAMPLE(m);
	m.settings.cpu_sec_per_day = 10;
	sample_open(&m);
	struct sample_answer a;

	use(&m, 9999999, 0);
	CHECK_EQ(ask(&m, "alice", SAMPLE_BODY).status, 0);
	use(&m, 1, 0);
	a = ask(&m, "alice", SAMPLE_BODY);
	check_exceeded(&a, "cpu_seconds_per_day", 10);
	CHECK_EQ(ask(&m, "bob", SAMPLE_BODY).status, 0);
	sample_remove(&m);
}

/* Each could take 30 s of a processor. */
#define LONG                                                                                       \
	"{\"base_image\":\"host\",\"command\":[\"true\"],\"timeout_sec\":30,"                      \
	"\"resources\":{\"cpu\":1}}"

TEST(who_runs_many_at_once_has_no_more_processor_time)
{
	SAMPLE(m);
	m.settings.cpu_sec_per_day = 50;
	sample_open(&m);
	struct sample_answer a;

	CHECK_EQ(ask(&m, "alice", LONG).status, 0);
	CHECK_EQ(ask(&m, "alice", LONG).status, 0); /* as one after the other */
	a = ask(&m, "alice", LONG);
	CHECK_EQ(a.status, 429);
	CHECK_STR(a.code, "quota_exceeded");
	CHECK_EQ(json_integer_value(json_object_get(a.details, "used")), 0);
	CHECK_EQ(json_integer_value(json_object_get(a.details, "reserved")), 60);
	sample_answer_fini(&a);
	CHECK_EQ(ask(&m, "bob", LONG).status, 0);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0); /* it took 1.5 s */
	SAMPLE_UNTIL(&m, m.service->n_runs == 2);
	CHECK_EQ(ask(&m, "alice", LONG).status, 0);
	a = ask(&m, "alice", LONG);
	CHECK_EQ(json_integer_value(json_object_get(a.details, "used")), 1);
	sample_answer_fini(&a);
	sample_remove(&m);
}

TEST(a_run_that_is_refused_reserves_no_processor_time)
{
	SAMPLE(m);
	m.settings.cpu_sec_per_day = 20;
	m.settings.max_artifact_user_mb = 1;
	sample_open(&m);

	use(&m, 0, 1 << 20);
	for (int i = 0; i < 3; i++) {
		struct sample_answer a = ask(&m, "alice", CAPTURING);

		check_exceeded(&a, "artifact_bytes", 1 << 20);
	}
	CHECK_EQ(ask(&m, "alice", LONG).status, 0);
	sample_remove(&m);
}

/* What a predecessor had accepted counts for its successor, whether it began or waits. */
TEST(processor_time_is_reserved_across_a_restart)
{
	SAMPLE(m);
	char hex[1][RUN_ID_SIZE + 1];
	struct sample_answer a;

	m.settings.cpu_sec_per_day = 50;
	sample_use_sqlite(&m);
	sample_open(&m);
	uuid_to_hex(sample_run_of(&m, "alice", LONG)->row.id, hex[0]);
	job_started(sample_job(0));
	job_running(sample_job(0));
	CHECK_EQ(ask(&m, "alice", LONG).status, 0);
	sample_settle(&m);
	sample_shut(&m);
	sample_reset_host();
	sample_open_down(&m);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) hex, 1, NULL, 0);
	sample_settle(&m);
	a = ask(&m, "alice", LONG);
	CHECK_STR(a.code, "quota_exceeded");
	CHECK_EQ(json_integer_value(json_object_get(a.details, "reserved")), 60);
	sample_answer_fini(&a);
	CHECK_EQ(ask(&m, "bob", LONG).status, 0);
	sample_remove(&m);
}

TEST(artifacts_of_a_day_and_in_all_are_limited)
{
	SAMPLE(m);
	m.settings.artifact_mb_per_day = 2;
	m.settings.max_artifact_user_mb = 1;
	sample_open(&m);
	struct sample_answer a;
	struct store_batch *b;
	char user[] = "alice";
	struct run_row row = { .user_id = user, .artifact_bytes = 1 << 20 };

	use(&m, 0, 1 << 20);
	a = ask(&m, "alice", CAPTURING);
	check_exceeded(&a, "artifact_bytes", 1 << 20);
	CHECK_EQ(ask(&m, "alice", SAMPLE_BODY).status, 0); /* it keeps no files */
	b = store_batch_new(m.service->store);
	quota_count_removed(b, &row);
	commit(&m, b);
	CHECK_EQ(used(&m).usage.artifact_bytes, 0);
	CHECK_EQ(used(&m).daily.artifact_bytes, 1 << 20); /* it was used, though */
	CHECK_EQ(ask(&m, "alice", CAPTURING).status, 0);
	use(&m, 0, 1 << 20);
	a = ask(&m, "alice", CAPTURING);
	check_exceeded(&a, "artifact_mb_per_day", 2);
	CHECK_EQ(ask(&m, "alice", SAMPLE_BODY).status, 0);
	sample_remove(&m);
}

static void on_room(void *ctx, uint64_t left)
{
	*(uint64_t *)ctx = left;
}

TEST(what_is_left_for_artifacts)
{
	SAMPLE(m);
	m.settings.max_artifact_user_mb = 2;
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	uint64_t left = UINT64_MAX;

	quota_reserve_artifacts(run, UINT64_MAX, on_room, &left);
	SAMPLE_UNTIL(&m, left != UINT64_MAX);
	CHECK_EQ(left, 2 << 20);
	use(&m, 0, (1 << 20) + 5);
	left = UINT64_MAX;
	quota_reserve_artifacts(run, UINT64_MAX, on_room, &left);
	SAMPLE_UNTIL(&m, left != UINT64_MAX);
	CHECK_EQ(left, (1 << 20) - 5);
	use(&m, 0, 5 << 20);
	left = UINT64_MAX;
	quota_reserve_artifacts(run, UINT64_MAX, on_room, &left);
	SAMPLE_UNTIL(&m, left != UINT64_MAX);
	CHECK_EQ(left, 0);
	sample_remove(&m);
}

TEST(a_day_leaves_less_for_artifacts)
{
	SAMPLE(m);
	m.settings.max_artifact_user_mb = 9;
	m.settings.artifact_mb_per_day = 2;
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	uint64_t left = UINT64_MAX;

	use(&m, 0, (1 << 20) + 5);
	quota_reserve_artifacts(run, UINT64_MAX, on_room, &left);
	SAMPLE_UNTIL(&m, left != UINT64_MAX);
	CHECK_EQ(left, (1 << 20) - 5);
	use(&m, 0, 1 << 20);
	left = UINT64_MAX;
	quota_reserve_artifacts(run, UINT64_MAX, on_room, &left);
	SAMPLE_UNTIL(&m, left != UINT64_MAX);
	CHECK_EQ(left, 0);
	struct sample_answer a = ask(&m, "alice", SAMPLE_BODY);
	CHECK(a.run != NULL); /* it keeps no files */
	sample_remove(&m);
}

static struct run *capturing(struct sample *m, const char *user)
{
	struct sample_answer a = ask(m, user, CAPTURING);

	CHECK(a.run != NULL);
	return a.run;
}

/* What waits is not told anything: nothing is left to be done on the loop. */
static void spin(struct sample *m)
{
	struct look l = used(m);

	(void)l;
}

TEST(what_others_reserved_is_not_given_twice)
{
	SAMPLE(m);
	m.settings.max_artifact_user_mb = 2;
	sample_open(&m);
	struct run *first = capturing(&m, "alice");
	struct run *second = capturing(&m, "alice");
	uint64_t a = UINT64_MAX;
	uint64_t b = UINT64_MAX;

	quota_reserve_artifacts(first, 1536 << 10, on_room, &a);
	quota_reserve_artifacts(second, 1 << 20, on_room, &b);
	SAMPLE_UNTIL(&m, a != UINT64_MAX);
	CHECK_EQ(a, 1536 << 10);
	spin(&m);
	CHECK_EQ(b, UINT64_MAX); /* the first may keep less */
	quota_settle_artifacts(first, (1 << 20) + 1);
	SAMPLE_UNTIL(&m, b != UINT64_MAX);
	CHECK_EQ(b, (1 << 20) - 1);
	sample_remove(&m);
}

TEST(what_fits_does_not_wait)
{
	SAMPLE(m);
	m.settings.max_artifact_user_mb = 2;
	sample_open(&m);
	struct run *first = capturing(&m, "alice");
	struct run *second = capturing(&m, "alice");
	uint64_t a = UINT64_MAX;
	uint64_t b = UINT64_MAX;

	quota_reserve_artifacts(first, 1 << 20, on_room, &a);
	quota_reserve_artifacts(second, 1 << 20, on_room, &b);
	SAMPLE_UNTIL(&m, a != UINT64_MAX && b != UINT64_MAX);
	CHECK_EQ(a, 1 << 20);
	CHECK_EQ(b, 1 << 20);
	sample_remove(&m);
}

TEST(a_queue_of_no_length_takes_nothing)
{
	SAMPLE(m);
	m.settings.queue_max_length = 0;
	m.settings.queue_ttl_sec = 33;
	sample_open(&m);
	struct sample_answer a = ask(&m, "alice", SAMPLE_BODY);

	CHECK_EQ(a.status, 429);
	CHECK_EQ(json_integer_value(json_object_get(a.details, "retry_after")), 33);
	sample_answer_fini(&a);
	sample_remove(&m);
}

TESTS(UNIT(runs_are_counted_when_accepted_and_when_over),
	UNIT(one_that_is_stored_at_the_second_try_is_counted_once),
	UNIT(one_that_waits_for_the_keeper_is_counted_once),
	UNIT(processor_time_of_a_day_is_limited),
	UNIT(who_runs_many_at_once_has_no_more_processor_time),
	UNIT(a_run_that_is_refused_reserves_no_processor_time),
	UNIT(processor_time_is_reserved_across_a_restart),
	UNIT(artifacts_of_a_day_and_in_all_are_limited), UNIT(what_is_left_for_artifacts),
	UNIT(what_others_reserved_is_not_given_twice), UNIT(what_fits_does_not_wait),
	UNIT(a_day_leaves_less_for_artifacts), UNIT(a_queue_of_no_length_takes_nothing))
