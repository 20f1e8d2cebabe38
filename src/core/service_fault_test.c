/* The service, while calls of its store fail. */
#include "core/service_sample.h"

static void open_with_a_failing_call(struct sample *m, int n)
{
	(void)snprintf(m->store, sizeof(m->store), "fault:%d:memory:", n);
	sample_open_service(m);
}

/* Nothing is opened, or taken for nobody's, before the store has told all. */
static void check_asked_again_when_call_fails(int n)
{
	SAMPLE(m);
	struct sample_answer a;

	open_with_a_failing_call(&m, n);
	sample_settle(&m);
	CHECK(!sample_host.is_open);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 503);
	SAMPLE_UNTIL(&m, sample_host.is_open);
	sample_up(NULL, 0, NULL, 0);
	CHECK(sample_run(&m, NULL)->job != NULL);
	sample_remove(&m);
}

TEST(a_store_that_can_not_be_read_is_asked_again)
{
	check_asked_again_when_call_fails(1);
	check_asked_again_when_call_fails(2);
}

/* Let the job of a run do what jobs do, if it has one that is not over. */
static void live(struct sample *m, size_t n)
{
	if (sample_host.n_jobs <= n || sample_job(n)->is_released)
		return;
	struct job *j = sample_job(n);
	job_started(j);
	sample_turn(m);
	if (j->is_released)
		return;
	job_running(j);
	job_writes(j, CHANNEL_STDOUT, "x");
	job_ends(j, REASON_EXIT_CODE_0, 0);
}

/* Two runs with keys, one after the other in the queue, while one call of the store fails.
 * Whatever that is: both are answered once, nothing is left, and a run that is said to be
 * completed was executed. */
static unsigned with_fault(int n)
{
	SAMPLE(m);
	struct sample_answer a, b;
	unsigned n_failed = 0;

	(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
	m.settings.max_concurrent_runs = 1;
	m.settings.cpu_sec_per_day = 1000000;
	sample_open(&m);
	sample_ask(&m, &a, "alice", "k1", SAMPLE_RICH_BODY);
	sample_ask(&m, &b, "alice", "k2", SAMPLE_RICH_BODY);
	SAMPLE_UNTIL(&m, a.n && b.n);
	n_failed = (a.status == 503) + (b.status == 503);
	for (size_t i = 0; i < 2; i++) {
		sample_settle(&m);
		live(&m, i);
	}
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(b.n, 1);
	CHECK_EQ(m.service->queue.n_active, 0);
	CHECK_EQ(m.service->queue.n_waiting, 0);
	CHECK_EQ(m.service->n_pending, 0);
	CHECK(m.service->claims == NULL);
	const char *ids[] = { a.id, b.id };
	for (size_t i = 0; i < 2; i++) {
		CLEANUP(free_row) struct run_row row = { 0 };
		char hex[RUN_ID_SIZE + 1];
		bool was_executed = false;

		if (!ids[i][0] || sample_stored(&m, ids[i], &row) < 0)
			continue;
		CHECK(row.finished_at != NULL);
		uuid_to_hex(ids[i], hex);
		for (const struct job *j = sample_host.jobs; j; j = j->next)
			was_executed |= j->is_over && streq(j->id, hex);
		CHECK_EQ(was_executed, streq(row.phase, "completed"));
	}
	sample_remove(&m);
	return n_failed;
}

TEST(whichever_call_of_the_store_fails_everybody_is_answered)
{
	unsigned n_failed = 0;

	for (int n = 3; n <= 24; n++)
		n_failed += with_fault(n);
	CHECK(n_failed >= 6); /* keys, quotas twice, rows: of each run */
}

/* A run whose row could not be stored is killed, though a thread still feeds it. */
TEST(a_run_that_is_not_stored_is_ended_and_freed_when_its_thread_is_done)
{
	SAMPLE(m);
	AUTO_FREE char *big = xcalloc(1, 1 << 20);
	struct sample_answer a;

	(void)snprintf(m.store, sizeof(m.store), "fault:3:memory:");
	sample_open(&m);
	memset(big, 'A', 900 << 10);
	AUTO_JSON *json = json_pack("{s:s,s:[s],s:[{s:s,s:s}]}", "base_image", "host", "command",
		"cat", "files", "path", "a", "content_b64", big);
	AUTO_FREE char *text = json_dumps(json, 0);
	sample_ask(&m, &a, "alice", NULL, text);
	CHECK_EQ(a.n, 0);
	CHECK_EQ(sample_host.n_jobs, 1);
	job_started(sample_job(0));
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 503);
	CHECK(sample_job(0)->is_released);
	CHECK_EQ(m.service->n_runs, 1); /* the thread has its files */
	job_closes(sample_job(0));
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	AUTO_FREE char *fresh = service_path(m.service, "meta/fresh");
	CHECK_EQ(rmdir(fresh), 0); /* nothing of it is left */
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

TESTS(UNIT(a_store_that_can_not_be_read_is_asked_again),
	UNIT(whichever_call_of_the_store_fails_everybody_is_answered),
	UNIT(a_run_that_is_not_stored_is_ended_and_freed_when_its_thread_is_done))
