#include "core/replay.h"

#include "core/journal.h"
#include "core/service_sample.h"

#define ID "0b6f7f5e-0f6a-4a55-9f0e-1c62cf8b2f11"

/* As a server leaves it that is killed before the store has it. */
static void leave_as(struct sample *m, const char *phase, const char *message)
{
	struct run_row row = {
		.id = (char *)ID,
		.user_id = (char *)"alice",
		.phase = (char *)phase,
		.created_at = (char *)"2026-01-01T00:00:00Z",
		.message = (char *)message,
		.exit_code = 0,
		.signal = STORE_NULL,
		.cpu_us = 1000,
	};

	CHECK(journal_add(m->service->journal, &row) >= 0);
}

static void leave_in_journal(struct sample *m, const char *message)
{
	leave_as(m, "completed", message);
}

static bool is_empty(struct sample *m)
{
	CLEANUP(free_row) struct run_row row = { 0 };

	return journal_next(m->service->journal, 0, &row) == -ENOENT;
}

TEST(what_the_store_does_not_have_is_stored)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_open(&m);
	leave_in_journal(&m, "first");
	CHECK_EQ(sample_stored(&m, ID, &row), -ENOENT);
	sample_restart(&m);
	CHECK_EQ(sample_stored(&m, ID, &row), 0);
	CHECK_STR(row.phase, "completed");
	CHECK_STR(row.message, "first");
	CHECK(is_empty(&m));
	CHECK_EQ(m.service->n_runs, 0);
	sample_remove(&m);
}

/* It was killed after the store had it. */
TEST(what_the_store_has_stays_as_it_is)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_open(&m);
	leave_in_journal(&m, "first");
	sample_restart(&m);
	leave_in_journal(&m, "second");
	sample_restart(&m);
	CHECK_EQ(sample_stored(&m, ID, &row), 0);
	CHECK_STR(row.message, "first");
	CHECK(is_empty(&m));
	sample_remove(&m);
}

/* It was killed when the journal had both how it began and how it ended. */
TEST(an_end_comes_after_a_beginning)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_open(&m);
	leave_as(&m, "starting", "first");
	leave_as(&m, "failed", "second");
	sample_restart(&m);
	CHECK_EQ(sample_stored(&m, ID, &row), 0);
	CHECK_STR(row.phase, "failed");
	CHECK_STR(row.message, "second");
	CHECK(is_empty(&m));
	CHECK_EQ(m.service->n_runs, 0);
	sample_remove(&m);
}

/* Also one that writes none itself. */
TEST(every_server_reads_the_journal)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_open(&m);
	leave_in_journal(&m, "first");
	m.settings.store_sync_full = true;
	sample_restart(&m);
	CHECK(m.service->journal == NULL);
	CHECK_EQ(sample_stored(&m, ID, &row), 0);
	m.settings.store_sync_full = false;
	sample_restart(&m);
	CHECK(is_empty(&m));
	sample_remove(&m);
}

/* Nothing else begins before, since what the keeper holds would be taken for nobody's. */
TEST(a_store_that_fails_is_asked_again)
{
	for (int n = 1; n <= 2; n++) {
		SAMPLE(m);
		sample_use_sqlite(&m);
		CLEANUP(free_row) struct run_row row = { 0 };

		sample_open(&m);
		leave_in_journal(&m, "first");
		sample_shut(&m);
		sample_reset_host();
		(void)snprintf(
			m.store, sizeof(m.store), "fault:%d:sqlite:%s/store.db", n, m.dir.path);
		sample_open(&m);
		CHECK_EQ(sample_stored(&m, ID, &row), 0);
		CHECK(is_empty(&m));
		sample_remove(&m);
	}
}

TESTS(UNIT(what_the_store_does_not_have_is_stored), UNIT(what_the_store_has_stays_as_it_is),
	UNIT(an_end_comes_after_a_beginning), UNIT(every_server_reads_the_journal),
	UNIT(a_store_that_fails_is_asked_again))
