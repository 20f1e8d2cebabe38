#include "core/run.h"
#include "core/service_sample.h"

/* --- the queue --- */

TEST(runs_wait_in_order_and_a_full_queue_refuses)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	m.settings.queue_max_length = 2;
	sample_open(&m);
	struct sample_answer a;

	sample_numbered_runs(&m, 3);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n > 0);
	CHECK_EQ(a.status, 429);
	CHECK_STR(a.code, "queue_full");
	CHECK_STR(json_string_value(json_object_get(a.details, "quota_scope")), "global");
	sample_answer_fini(&a);
	sample_numbered_jobs_end_in_order(&m, 3);
	sample_remove(&m);
}

TEST(one_who_has_many_waiting_is_refused_before_others)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	m.settings.queue_max_per_user = 1;
	sample_open(&m);
	struct sample_answer a;

	(void)sample_run(&m, NULL);
	(void)sample_run(&m, NULL);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n > 0);
	CHECK_EQ(a.status, 429);
	CHECK_STR(json_string_value(json_object_get(a.details, "reason")),
		"user_queue_quota_exceeded");
	sample_answer_fini(&a);
	(void)sample_run_of(&m, "bob", SAMPLE_BODY);
	sample_remove(&m);
}

TEST(what_waits_too_long_expires)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	m.settings.queue_ttl_sec = 1;
	sample_open(&m);
	(void)sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, second->row.id, sizeof(id));
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "failed");
	CHECK_STR(row.reason_code, "queue_ttl_expired");
	sample_remove(&m);
}

TEST(what_waited_for_a_keeper_says_so)
{
	SAMPLE(m);
	m.settings.queue_ttl_sec = 1;
	sample_open(&m);
	sample_down();
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };
	AUTO_JSON *waiting = run_json(m.service, &run->row);

	CHECK_STR(json_string_value(json_object_get(waiting, "message")),
		"the keeper can not be reached; the run waits for it");
	CHECK(json_is_null(json_object_get(waiting, "estimated_start_time")));
	memcpy(id, run->row.id, sizeof(id));
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "queue_ttl_expired");
	CHECK_STR(row.message, "queue_ttl_expired: the keeper could not be reached");
	sample_remove(&m);
}

/* Half a second more than the tick that looks, and the one before it. */
#define TWO_TICKS_NS UINT64_C(2500000000)

static void pass_two_ticks(struct sample *m)
{
	uint64_t until = clock_monotonic_ns() + TWO_TICKS_NS;

	SAMPLE_UNTIL(m, clock_monotonic_ns() > until);
}

TEST(where_nothing_is_executed_runs_wait)
{
	SAMPLE(m);
	m.settings.enable_execution = false;
	m.settings.queue_max_length = 2;
	m.settings.queue_ttl_sec = 1;
	sample_open(&m);
	struct sample_answer a;

	(void)sample_run(&m, NULL);
	struct run *run = sample_run(&m, NULL);
	pass_two_ticks(&m);
	CHECK_EQ(run->phase, PHASE_QUEUED);
	AUTO_JSON *waiting = run_json(m.service, &run->row);
	CHECK(json_is_null(json_object_get(waiting, "estimated_start_time")));
	CHECK_EQ(sample_host.n_jobs, 0);
	CHECK_EQ(m.service->queue.n_waiting, 2);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n > 0);
	CHECK_STR(a.code, "queue_full");
	sample_answer_fini(&a);
	CHECK(run_cancel(m.service->runs));
	SAMPLE_UNTIL(&m, m.service->n_runs == 1);
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_remove(&m);
}

/* --- keepers that do not answer --- */

static struct run *slow_run(struct sample *m)
{
	return sample_run(m, "{\"base_image\":\"host\",\"command\":[\"true\"],"
			     "\"startup_timeout_sec\":1}");
}

TEST(what_a_keeper_does_not_start_in_time_ends)
{
	SAMPLE(m);
	sample_open(&m);
	char ids[2][UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row late = { 0 };
	CLEANUP(free_row) struct run_row canceled = { 0 };

	memcpy(ids[0], slow_run(&m)->row.id, sizeof(ids[0]));
	struct run *second = slow_run(&m);
	memcpy(ids[1], second->row.id, sizeof(ids[1]));
	CHECK(run_cancel(second));
	struct run *third = slow_run(&m);
	job_started(sample_job(2));
	job_running(sample_job(2));
	sample_await_end(&m, ids[0], &late);
	CHECK_STR(late.phase, "timed_out");
	CHECK_STR(late.message, "startup_timeout");
	sample_await_end(&m, ids[1], &canceled);
	CHECK_STR(canceled.message, "canceled_by_user");
	CHECK(sample_job(0)->is_released && sample_job(1)->is_released);
	CHECK_EQ(m.service->queue.n_active, 1);
	CHECK(!third->has_result && third->phase == PHASE_RUNNING);
	sample_remove(&m);
}

/* --- idempotency --- */

TEST(two_equal_requests_at_once_make_one_run)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b, c;

	sample_ask(&m, &a, "alice", "k1", SAMPLE_BODY);
	sample_ask(&m, &b, "alice", "k1", SAMPLE_BODY);
	sample_ask(&m, &c, "alice", "k1", "{\"base_image\":\"host\",\"command\":[\"false\"]}");
	SAMPLE_UNTIL(&m, a.n && b.n && c.n);
	CHECK(a.run != NULL && b.is_replayed);
	CHECK_STR(a.id, b.id);
	CHECK_EQ(c.status, 409);
	CHECK_STR(c.code, "idempotency_conflict");
	CHECK_STR(json_string_value(json_object_get(c.details, "prior_id")), a.id);
	CHECK_STR(json_string_value(json_object_get(c.details, "key")), "k1");
	CHECK(json_object_get(c.details, "prior_created_at") != NULL);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK_EQ(m.service->n_runs, 1);
	sample_answer_fini(&c);
	sample_ask(&m, &b, "bob", "k1", SAMPLE_BODY); /* keys are everybody's own */
	SAMPLE_UNTIL(&m, b.n);
	CHECK(b.run != NULL && !b.is_replayed);
	sample_remove(&m);
}

TEST(a_key_gives_the_run_again_when_that_is_over)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b;
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_ask(&m, &a, "alice", "k1", SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, a.id, &row);
	sample_ask(&m, &b, "alice", "k1", SAMPLE_BODY);
	SAMPLE_UNTIL(&m, b.n);
	CHECK(b.is_replayed);
	CHECK_STR(b.id, a.id);
	CHECK_STR(b.phase, "completed");
	sample_remove(&m);
}

TEST(when_the_first_comes_to_nothing_the_second_has_its_turn)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	m.settings.queue_max_length = 1;
	sample_open(&m);
	struct sample_answer a, b, c;

	(void)sample_run(&m, NULL);
	(void)sample_run(&m, NULL);
	sample_ask(&m, &a, "alice", "k1", SAMPLE_BODY);
	sample_ask(&m, &b, "alice", "k1", SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n && b.n);
	CHECK_STR(a.code, "queue_full");
	CHECK_STR(b.code, "queue_full"); /* which it finds for itself */
	CHECK(m.service->claims == NULL);
	sample_answer_fini(&a);
	sample_answer_fini(&b);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, m.service->queue.n_waiting == 0);
	sample_ask(&m, &c, "alice", "k1", SAMPLE_BODY);
	SAMPLE_UNTIL(&m, c.n);
	CHECK(c.run != NULL); /* a refusal is not remembered */
	sample_remove(&m);
}

/* --- approvals --- */

static void require_approval(struct sample *m)
{
	static char rule[] = "all";
	static char *rules[] = { rule, NULL };

	m->settings.approval_for = rules;
}

TEST(a_run_that_needs_approval_waits_for_it)
{
	SAMPLE(m);
	char **none = m.settings.approval_for;
	require_approval(&m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	CHECK_STR(run->row.approval, "required");
	CHECK_STR(run->row.reason_code, "approval_required");
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_down(); /* that a keeper comes and goes is nothing to it */
	sample_up(NULL, 0, NULL, 0);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 0);
	CHECK_EQ(run_approve(run, true, "root", NULL), 0);
	CHECK_EQ(run_approve(run, true, "root", NULL), -ENOENT);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.approval, "approved");
	CHECK_STR(row.reason_code, "exit_code_0");
	m.settings.approval_for = none;
	sample_remove(&m);
}

TEST(a_run_that_is_held_takes_a_place_in_the_queue)
{
	SAMPLE(m);
	char **none = m.settings.approval_for;
	require_approval(&m);
	m.settings.queue_max_length = 3;
	m.settings.queue_max_per_user = 2;
	sample_open(&m);
	struct sample_answer a;
	struct run *first = sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);

	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n > 0);
	CHECK_EQ(a.status, 429);
	CHECK_STR(json_string_value(json_object_get(a.details, "quota_scope")), "user_id");
	sample_answer_fini(&a);
	m.settings.queue_max_per_user = 0;
	(void)sample_run(&m, NULL);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n > 0);
	CHECK_EQ(a.status, 429);
	CHECK_STR(json_string_value(json_object_get(a.details, "quota_scope")), "global");
	sample_answer_fini(&a);
	CHECK_EQ(run_approve(first, true, "root", NULL), 0);
	(void)sample_run(&m, NULL);
	CHECK_EQ(run_approve(second, false, "root", NULL), 0);
	(void)sample_run(&m, NULL);
	CHECK(run_cancel(m.service->runs));
	CHECK_EQ(m.service->queue.n_held, 2);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TEST(a_denied_run_ends_without_having_begun)
{
	SAMPLE(m);
	char **none = m.settings.approval_for;
	require_approval(&m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	CHECK_EQ(run_approve(run, false, "root", NULL), 0);
	CHECK_EQ(run_approve(run, true, "root", NULL), -ENOENT);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.approval, "denied");
	CHECK_STR(row.reason_code, "policy_denied");
	CHECK_EQ(sample_host.n_jobs, 0);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TESTS(UNIT(runs_wait_in_order_and_a_full_queue_refuses),
	UNIT(one_who_has_many_waiting_is_refused_before_others), UNIT(what_waits_too_long_expires),
	UNIT(where_nothing_is_executed_runs_wait), UNIT(what_waited_for_a_keeper_says_so),
	UNIT(what_a_keeper_does_not_start_in_time_ends),
	UNIT(two_equal_requests_at_once_make_one_run),
	UNIT(a_key_gives_the_run_again_when_that_is_over),
	UNIT(when_the_first_comes_to_nothing_the_second_has_its_turn),
	UNIT(a_run_that_needs_approval_waits_for_it),
	UNIT(a_run_that_is_held_takes_a_place_in_the_queue),
	UNIT(a_denied_run_ends_without_having_begun))
