#include "core/journal.h"
#include "core/run.h"
#include "core/service_sample.h"

/* --- rows that are held back --- */

/* A service, and one run that is waited for, while another is under way; the id of it. */
static void open_waiting(struct sample *m, struct sample_answer *a, char ret_id[UUID_SIZE + 1])
{
	sample_open(m);
	(void)sample_run(m, NULL);
	sample_wish(m, a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	SAMPLE_UNTIL(m, sample_host.n_jobs == 2);
	memcpy(ret_id, m->service->runs->row.id, UUID_SIZE + 1);
	job_started(sample_job(1));
	job_running(sample_job(1));
}

static void await_completed(struct sample *m, const char *id, struct run_row *row)
{
	sample_await_end(m, id, row);
	CHECK_STR(row->phase, "completed");
}

static bool is_stored(struct sample *m, const char *id)
{
	CLEANUP(free_row) struct run_row row = { 0 };

	return sample_stored(m, id, &row) == 0;
}

TEST(a_short_run_that_is_waited_for_is_stored_with_its_end)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	open_waiting(&m, &a, id);
	CHECK(!is_stored(&m, id));
	CHECK_EQ(a.n, 0);
	job_writes(sample_job(1), CHANNEL_STDOUT, "text");
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK_STR(a.id, id);
	await_completed(&m, id, &row);
	CHECK(row.request == NULL && row.frames != NULL);
	CHECK(sample_job(1)->is_released);
	CHECK_EQ(m.service->n_runs, 1);
	sample_remove(&m);
}

TEST(one_that_lasts_is_stored_before_its_end)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	open_waiting(&m, &a, id);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK(is_stored(&m, id));
	CHECK(!sample_job(1)->is_over);
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	await_completed(&m, id, &row);
	sample_remove(&m);
}

TEST(one_that_printed_much_is_stored_before_its_end)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	char output[4000];
	CLEANUP(free_row) struct run_row row = { 0 };

	memset(output, 'x', sizeof(output) - 1);
	output[sizeof(output) - 1] = '\0';
	open_waiting(&m, &a, id);
	job_writes(sample_job(1), CHANNEL_STDOUT, output);
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	await_completed(&m, id, &row);
	CHECK(row.frames == NULL);
	CHECK_EQ(row.log_bytes, 3999);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(sample_in_order(frames, "xxx", "\"event\":\"end\"", NULL));
	sample_remove(&m);
}

/* The store has it later, and the journal not any longer then. */
TEST(who_waits_is_answered_when_the_journal_has_it)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row noted = { 0 };
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_wish(&m, &a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	memcpy(id, m.service->runs->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "text");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK_EQ(journal_next(m.service->journal, 0, &noted), 0);
	CHECK_STR(noted.id, id);
	CHECK_STR(noted.phase, "completed");
	CHECK(noted.request == NULL && noted.frames != NULL);
	await_completed(&m, id, &row);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK(sample_job(0)->is_released);
	CHECK_EQ(journal_next(m.service->journal, 0, &noted), -ENOENT);
	sample_remove(&m);
}

TEST(one_with_a_key_is_stored_at_once)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b;
	char id[UUID_SIZE + 1];

	sample_wish(&m, &b, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	sample_wish(&m, &a, "alice", SAMPLE_BODY,
		&(struct run_wish){ .idempotency_key = "k", .waits = true });
	SAMPLE_UNTIL(&m, a.n == 1);
	memcpy(id, a.id, sizeof(id));
	CHECK(is_stored(&m, id));
	sample_remove(&m);
}

/* Nobody could find it again if we died. And a list shows it once: the store is asked after it
 * was told of its end. */
TEST(one_that_is_held_back_is_in_no_list_of_the_living)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];

	open_waiting(&m, &a, id);
	CHECK(!run_is_shown(m.service->runs));
	CHECK(run_is_shown(m.service->runs->next));
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	for (const struct run *run; (run = run_find(m.service, id, NULL)); sample_turn(&m))
		CHECK(!run_is_shown(run));
	CHECK_EQ(a.status, 0);
	sample_remove(&m);
}

TEST(one_that_lasts_is_shown)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];

	open_waiting(&m, &a, id);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK(run_is_shown(a.run));
	sample_remove(&m);
}

/* The server ends meanwhile: it never was. */
TEST(one_that_is_held_back_when_the_service_ends_leaves_nothing)
{
	SAMPLE(m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];

	open_waiting(&m, &a, id);
	CHECK(m.service->runs->held != NULL);
	sample_remove(&m);
	CHECK_EQ(a.n, 1);
	CHECK_STR(a.code, "shutting_down");
}

/* Without a journal, so that its answer waits for the store anyway. */
TEST(one_that_is_alone_is_stored_at_once_if_all_is_to_be_durable)
{
	SAMPLE(m);
	m.settings.store_sync_full = true;
	sample_open(&m);
	struct sample_answer a;

	CHECK(m.service->journal == NULL);
	sample_wish(&m, &a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	CHECK(m.service->runs->held == NULL);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK(is_stored(&m, a.id));
	sample_remove(&m);
}

static void end_two_with_fault(int n, bool has_journal)
{
	SAMPLE(m);
	m.settings.store_sync_full = !has_journal;
	(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
	sample_open(&m);
	struct sample_answer a, b;

	sample_ask(&m, &b, "alice", NULL, SAMPLE_BODY);
	sample_wish(&m, &a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	for (size_t i = 0; i < 2; i++) {
		job_started(sample_job(i));
		job_ends(sample_job(i), REASON_EXIT_CODE_0, 0);
	}
	SAMPLE_UNTIL(&m, a.n == 1 && b.n == 1 && m.service->n_runs == 0);
	CHECK(a.status == 0 || (a.status == 503 && !has_journal));
	CHECK_EQ(m.service->queue.n_active, 0);
	CHECK_EQ(m.service->n_pending, 0);
	sample_remove(&m);
}

/* Its only call of the store fails: it is refused, and nothing of it is left. */
TEST(one_that_can_not_be_stored_with_its_end_is_refused)
{
	for (int n = 3; n < 8; n++)
		end_two_with_fault(n, false);
}

/* ... unless the journal has it: it was answered for, and is stored later. */
TEST(one_that_can_not_be_stored_at_once_is_stored_later)
{
	for (int n = 3; n < 8; n++)
		end_two_with_fault(n, true);
}

/* However long that takes: it is known all the while. */
TEST(one_that_was_answered_for_is_not_given_up)
{
	SAMPLE(m);
	(void)snprintf(m.store, sizeof(m.store),
		"fault:3:fault:4:fault:5:fault:6:fault:7:fault:8:memory:");
	sample_open(&m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row noted = { 0 };

	sample_wish(&m, &a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	memcpy(id, m.service->runs->row.id, sizeof(id));
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	SAMPLE_UNTIL(&m, m.service->runs && m.service->runs->n_tries > 2);
	CHECK(run_find(m.service, id, NULL) != NULL);
	CHECK_EQ(journal_next(m.service->journal, 0, &noted), 0);
	sample_remove(&m);
}

/* One that is waited for, while there is room for no more than another. */
static void ask_waiting_for_turn(struct sample *m, struct sample_answer *a)
{
	size_t n = m->service->queue.n_waiting;

	sample_wish(m, a, "alice", SAMPLE_BODY, &(struct run_wish){ .waits = true });
	SAMPLE_UNTIL(m, m->service->queue.n_waiting == n + 1);
}

static void open_with_one_place(struct sample *m)
{
	m->settings.max_concurrent_runs = 1;
	sample_open(m);
	(void)sample_run(m, NULL);
	job_started(sample_job(0));
}

TEST(one_that_waits_for_its_turn_is_stored_with_its_end_too)
{
	SAMPLE(m);
	open_with_one_place(&m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	ask_waiting_for_turn(&m, &a);
	memcpy(id, m.service->runs->row.id, sizeof(id));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK_EQ(sample_host.n_jobs, 2); /* it does not wait for any call of the store */
	CHECK(!is_stored(&m, id));
	CHECK_EQ(a.n, 0);
	job_started(sample_job(1));
	job_running(sample_job(1));
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK_STR(a.id, id);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	CHECK(row.request == NULL);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_remove(&m);
}

TEST(one_that_waits_long_for_its_turn_is_stored_as_waiting)
{
	SAMPLE(m);
	open_with_one_place(&m);
	struct sample_answer a;
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row waiting = { 0 };
	CLEANUP(free_row) struct run_row row = { 0 };

	ask_waiting_for_turn(&m, &a);
	SAMPLE_UNTIL(&m, a.n == 1);
	memcpy(id, a.id, sizeof(id));
	CHECK_EQ(sample_stored(&m, id, &waiting), 0);
	CHECK_STR(waiting.phase, "queued");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	job_started(sample_job(1));
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	sample_remove(&m);
}

TEST(who_can_not_begin_waits_for_another_turn)
{
	SAMPLE(m);
	open_with_one_place(&m);
	struct sample_answer a, b;

	ask_waiting_for_turn(&m, &a);
	ask_waiting_for_turn(&m, &b);
	sample_host.refusal = -EAGAIN;
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK_EQ(m.service->queue.n_waiting, 2);
	CHECK_EQ(m.service->queue.n_active, 0);
	CHECK_EQ(sample_host.n_jobs, 1);
	sample_host.refusal = 0;
	service_dispatch(m.service);
	CHECK_EQ(sample_host.n_jobs, 2);
	CHECK_EQ(m.service->queue.n_waiting, 1);
	sample_remove(&m);
	CHECK(a.n == 1 && b.n == 1);
}

TEST(who_ends_with_his_turn_leaves_it_to_the_next)
{
	SAMPLE(m);
	open_with_one_place(&m);
	struct sample_answer a, b;

	ask_waiting_for_turn(&m, &a);
	ask_waiting_for_turn(&m, &b);
	sample_host.refusal = -E2BIG;
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK_EQ(m.service->queue.n_waiting, 0);
	SAMPLE_UNTIL(&m, a.n == 1 && b.n == 1 && m.service->n_runs == 0);
	CHECK(a.status == 0 && b.status == 0);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_host.refusal = 0;
	sample_remove(&m);
}

TESTS(UNIT(a_short_run_that_is_waited_for_is_stored_with_its_end),
	UNIT(one_that_lasts_is_stored_before_its_end),
	UNIT(one_that_printed_much_is_stored_before_its_end),
	UNIT(who_waits_is_answered_when_the_journal_has_it), UNIT(one_with_a_key_is_stored_at_once),
	UNIT(one_that_is_held_back_is_in_no_list_of_the_living), UNIT(one_that_lasts_is_shown),
	UNIT(one_that_is_held_back_when_the_service_ends_leaves_nothing),
	UNIT(one_that_is_alone_is_stored_at_once_if_all_is_to_be_durable),
	UNIT(one_that_can_not_be_stored_with_its_end_is_refused),
	UNIT(one_that_can_not_be_stored_at_once_is_stored_later),
	UNIT(one_that_was_answered_for_is_not_given_up),
	UNIT(one_that_waits_for_its_turn_is_stored_with_its_end_too),
	UNIT(one_that_waits_long_for_its_turn_is_stored_as_waiting),
	UNIT(who_can_not_begin_waits_for_another_turn),
	UNIT(who_ends_with_his_turn_leaves_it_to_the_next))
