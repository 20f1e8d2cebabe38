#include "core/restore_sample.h"

/* How many boxes are for runs. */
static size_t count_begun(void)
{
	size_t n = 0;

	for (size_t i = 0; i < sample_host.n_jobs; i++)
		n += sample_job(i)->deed == DEED_EXECUTE;
	return n;
}

TEST(who_waits_for_files_is_in_nobody_s_way)
{
	SAMPLE(m);
	m.settings.queue_max_length = 1;
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	const struct run *waits = run_in(&m, session);
	CHECK(!waits->holds_slot);
	for (size_t i = 0; i < 3; i++) {
		CHECK(sample_run_of(&m, "bob", SAMPLE_BODY)->holds_slot);
		CHECK(sample_run(&m, NULL)->holds_slot);
	}
	CHECK_EQ(m.service->queue.n_waiting, 1);
	CHECK_STR(waits->row.phase, "queued");
	sample_remove(&m);
}

TEST(who_waits_for_files_takes_a_place)
{
	SAMPLE(m);
	m.settings.queue_max_length = 2;
	struct sample_answer a, refused;
	struct session *session = sample_restoring(&m, &a);

	(void)run_in(&m, session);
	(void)run_in(&m, session);
	ask_in(&m, session, &refused);
	SAMPLE_UNTIL(&m, refused.n);
	CHECK_STR(refused.code, "queue_full");
	sample_answer_fini(&refused);
	sample_remove(&m);
}

/* Whatever else asks who could begin meanwhile. */
TEST(who_waits_for_files_for_too_long_expires)
{
	SAMPLE(m);
	m.settings.queue_ttl_sec = 1;
	CLEANUP(free_row) struct run_row row = { 0 };
	char id[UUID_SIZE + 1];
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	struct run *run = run_in(&m, session);
	uint64_t since_ns = run->waiting.since_ns;
	service_dispatch(m.service);
	CHECK_EQ(run->waiting.since_ns, since_ns);
	(void)snprintf(id, sizeof(id), "%s", run->row.id);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "queue_ttl_expired");
	sample_remove(&m);
}

/* The nth box is this run's, and ends well. */
static void check_is_next(struct sample *m, const struct run *run, size_t n)
{
	SAMPLE_UNTIL(m, sample_host.n_jobs == n + 1);
	CHECK(run->job == sample_job(n));
	box_ends(m, n, REASON_EXIT_CODE_0);
}

TEST(runs_of_a_session_keep_their_order_while_they_wait_for_files)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	struct run *runs[3];
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		runs[i] = run_in(&m, session);
		service_dispatch(m.service);
	}
	box_ends(&m, 0, REASON_EXIT_CODE_0);
	for (size_t i = 0; i < ARRAY_SIZE(runs); i++)
		check_is_next(&m, runs[i], i + 1);
	CHECK_EQ(count_begun(), 3);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	sample_remove(&m);
}

/* One of before, that waits already when its files begin to be made good. */
TEST(who_has_a_turn_and_no_files_gives_way)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a;

	(void)sample_run(&m, NULL);
	restore(session, &a);
	box_ends(&m, 1, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 3);
	struct run *first = run_in(&m, session);
	queue_wake(&first->waiting); /* as if it had come before */
	uint64_t since_ns = first->waiting.since_ns;
	struct run *second = sample_run(&m, NULL);
	CHECK(!second->holds_slot);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, second->holds_slot);
	CHECK(first->waiting.is_parked && !first->holds_slot);
	CHECK_EQ(first->waiting.since_ns, since_ns);
	sample_remove(&m);
}

/* What could not be made good when it came may be when it is allowed. */
TEST(what_an_admin_allowed_has_its_files_made_good_again)
{
	static char rule[] = "all";
	static char *rules[] = { rule, NULL };
	SAMPLE(m);
	char **none = m.settings.approval_for;
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	box_ends(&m, 0, REASON_OOM_KILLED);
	box_ends(&m, 1, REASON_PROVISION_FAILED);
	SAMPLE_UNTIL(&m, a.n);
	m.settings.approval_for = rules;
	struct run *run = run_in(&m, session);
	box_ends(&m, 2, REASON_PROVISION_FAILED);
	sample_settle(&m);
	CHECK(run_awaits_approval(run));
	CHECK_EQ(run_approve(run, true, "root", NULL), 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 4);
	CHECK_EQ(sample_job(3)->deed, DEED_FILES);
	CHECK(!run->holds_slot);
	box_ends(&m, 3, REASON_EXIT_CODE_0);
	box_ends(&m, 4, REASON_EXIT_CODE_0);
	CHECK_EQ(sample_job(4)->deed, DEED_EXECUTE);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	m.settings.approval_for = none;
	sample_remove(&m);
}

TESTS(UNIT(who_waits_for_files_is_in_nobody_s_way), UNIT(who_waits_for_files_takes_a_place),
	UNIT(who_waits_for_files_for_too_long_expires),
	UNIT(runs_of_a_session_keep_their_order_while_they_wait_for_files),
	UNIT(who_has_a_turn_and_no_files_gives_way),
	UNIT(what_an_admin_allowed_has_its_files_made_good_again))
