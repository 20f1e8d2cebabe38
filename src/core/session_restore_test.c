#include "core/restore_sample.h"

typedef char names[1][WORKSPACE_ID_SIZE + 1];

static bool is_marked(struct sample *m, const struct session *session)
{
	AUTO_FREE char *restoring = path_of(m, session, "restoring");
	AUTO_FREE char *remaking = path_of(m, session, "remaking");

	return scratch_has(AT_FDCWD, restoring) || scratch_has(AT_FDCWD, remaking);
}

/* Another keeper is there, that has none of its files. */
static void lose(const struct session *session)
{
	sample_down();
	sample_up(NULL, 0, NULL, 0);
	CHECK(session->is_lost);
}

TEST(a_session_that_lost_its_files_has_them_again)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a;

	lose(session);
	sample_host.holds_wishes = true;
	restore(session, &a);
	CHECK_EQ(sample_host.n_wishes, 1);
	CHECK_STR(sample_host.wishes[0].id, session->workspace);
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_host.wishes[0].done(sample_host.wishes[0].ctx, 0, "");
	CHECK(session->is_lost); /* until the files are there */
	CHECK(is_marked(&m, session));
	CHECK(sample_job(0)->clears);
	box_ends(&m, 0, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 0);
	CHECK(!session->is_lost);
	CHECK_STR(session->row.state, "active");
	CHECK(!is_marked(&m, session));
	sample_remove(&m);
}

TEST(a_lost_session_stays_lost_when_it_can_not_be_restored)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a;

	lose(session);
	session_restore(session, "snap-000000000000", sample_on_session, &a);
	CHECK_STR(a.code, "snapshot_not_found");
	restore(session, &a);
	box_ends(&m, 0, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 500);
	CHECK(session->is_lost);
	CHECK_EQ(sample_host.n_dropped, 1);
	sample_host.holds_wishes = true;
	restore(session, &a);
	sample_host.wishes[0].done(sample_host.wishes[0].ctx, -ENOSPC, "no room");
	CHECK_STR(a.code, "runtime_unavailable");
	CHECK(session->is_lost);
	sample_remove(&m);
}

TEST(two_restores_of_a_lost_session_are_done_one_after_the_other)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a, b;

	lose(session);
	sample_host.holds_wishes = true;
	restore(session, &a);
	restore(session, &b);
	sample_host.wishes[0].done(sample_host.wishes[0].ctx, 0, "");
	sample_host.wishes[1].done(sample_host.wishes[1].ctx, -EEXIST, "there is one already");
	box_ends(&m, 0, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(sample_host.n_dropped, 0);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, b.n);
	CHECK_EQ(a.status, 500);
	CHECK_EQ(b.status, 0);
	CHECK(!session->is_lost && !is_marked(&m, session));
	sample_remove(&m);
}

TEST(a_lost_session_may_be_deleted_while_its_workspace_is_made)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a, gone = { 0 };

	lose(session);
	sample_host.holds_wishes = true;
	restore(session, &a);
	session_delete(session, sample_on_session, &gone);
	CHECK_EQ(gone.n, 0);
	sample_host.wishes[0].done(sample_host.wishes[0].ctx, 0, "");
	CHECK_STR(a.code, "session_not_found");
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(gone.status, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_remove(&m);
}

/* The answer comes when a box has looked after it. */
TEST(a_restore_whose_box_was_killed_is_made_good)
{
	SAMPLE(m);
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	box_ends(&m, 0, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	CHECK_EQ(a.n, 0);
	CHECK(is_marked(&m, session));
	CHECK_EQ(sample_job(1)->deed, DEED_FILES);
	CHECK(!sample_job(1)->clears);
	CHECK(str_is_hex(sample_job(1)->change, SPEC_CHANGE_SIZE));
	CHECK_STR(sample_job(1)->change, sample_job(0)->change);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 500);
	CHECK(!is_marked(&m, session));
	sample_remove(&m);
}

TEST(a_box_that_did_not_find_something_is_no_session_that_is_gone)
{
	SAMPLE(m);
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	struct result result = job_result(sample_job(0), REASON_PROVISION_FAILED, 0);
	result.error = ENOENT;
	job_started(sample_job(0));
	job_ends_with(sample_job(0), &result);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK(a.status != 0);
	CHECK(!is_marked(&m, session));
	sample_remove(&m);
}

/* Its box outlives the connection, but the workspace is dropped when that is there again. */
TEST(a_workspace_that_goes_while_it_is_filled_does_not_come_back)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a;

	lose(session);
	restore(session, &a);
	job_started(sample_job(0));
	m.service->is_up = false;
	sample_up(NULL, 0, NULL, 0);
	CHECK(!is_marked(&m, session));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.code, "runtime_unavailable");
	CHECK(session->is_lost);
	CHECK_STR(session->row.state, "lost");
	CHECK_EQ(sample_host.n_dropped, 0);
	sample_remove(&m);
}

static void run_fails(struct sample *m, const struct run *run, const char *words)
{
	CLEANUP(free_row) struct run_row row = { 0 };
	char id[UUID_SIZE + 1];

	(void)snprintf(id, sizeof(id), "%s", run->row.id);
	sample_await_end(m, id, &row);
	CHECK_STR(row.phase, "failed");
	CHECK(strstr(row.message, words) != NULL);
}

TEST(runs_wait_while_files_are_restored_and_made_good)
{
	SAMPLE(m);
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	(void)run_in(&m, session);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 1);
	service_dispatch(m.service);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 1);
	box_ends(&m, 0, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 2);
	CHECK_EQ(sample_job(1)->deed, DEED_FILES);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 3);
	CHECK_EQ(sample_job(2)->deed, DEED_EXECUTE);
	CHECK(!sample_job(2)->change[0]);
	box_ends(&m, 2, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	sample_remove(&m);
}

TEST(runs_begin_when_files_were_restored)
{
	SAMPLE(m);
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	(void)run_in(&m, session);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 1);
	box_ends(&m, 0, REASON_EXIT_CODE_0);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	CHECK_EQ(sample_job(1)->deed, DEED_EXECUTE);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	sample_remove(&m);
}

/* It is tried again for the next run, which says the same. */
TEST(nothing_runs_in_files_that_could_not_be_made_good)
{
	SAMPLE(m);
	struct sample_answer a;
	struct session *session = sample_restoring(&m, &a);

	box_ends(&m, 0, REASON_OOM_KILLED);
	box_ends(&m, 1, REASON_PROVISION_FAILED);
	SAMPLE_UNTIL(&m, a.n);
	CHECK(is_marked(&m, session));
	const struct run *run = run_in(&m, session);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 3);
	CHECK_EQ(sample_job(2)->deed, DEED_FILES);
	box_ends(&m, 2, REASON_PROVISION_FAILED);
	run_fails(&m, run, "half done");
	(void)run_in(&m, session);
	box_ends(&m, 3, REASON_EXIT_CODE_0);
	box_ends(&m, 4, REASON_EXIT_CODE_0);
	CHECK_EQ(sample_job(4)->deed, DEED_EXECUTE);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK(!is_marked(&m, session));
	sample_remove(&m);
}

static void on_snapshot(void *ctx, const struct snapshot_row *row, struct problem *problem)
{
	(void)row;
	sample_note(ctx, problem);
}

/* The nth box finds files that it can neither put back nor leave as they are. */
static void box_finds_torn(struct sample *m, const struct session *session, size_t n)
{
	SAMPLE_UNTIL(m, sample_host.n_jobs == n + 1);
	struct result result = job_result(sample_job(n), REASON_PROVISION_FAILED, 0);

	CHECK_STR(sample_job(n)->change, session->change);
	result.error = ENOTRECOVERABLE;
	job_started(sample_job(n));
	job_ends_with(sample_job(n), &result);
}

TEST(there_is_no_copy_of_files_that_could_not_be_made_good)
{
	SAMPLE(m);
	struct sample_answer a, snapped = { 0 }, cloned = { 0 };
	struct identity who = sample_who("alice");
	struct session *session = sample_restoring(&m, &a);

	box_ends(&m, 0, REASON_OOM_KILLED);
	box_finds_torn(&m, session, 1);
	SAMPLE_UNTIL(&m, a.n);
	session_snapshot(session, on_snapshot, &snapped);
	box_finds_torn(&m, session, 2);
	SAMPLE_UNTIL(&m, snapped.n);
	CHECK_STR(snapped.code, "restore_unfinished");
	CHECK_EQ(snapped.status, 409);
	session_clone(session, &who, NULL, sample_on_session, &cloned);
	box_finds_torn(&m, session, 3);
	SAMPLE_UNTIL(&m, cloned.n);
	CHECK_STR(cloned.code, "restore_unfinished");
	restore(session, &a);
	box_ends(&m, 4, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 0);
	CHECK(!is_marked(&m, session));
	sample_remove(&m);
}

TEST(a_run_that_waits_for_files_can_be_deleted_with_its_session)
{
	SAMPLE(m);
	struct sample_answer a, gone = { 0 };
	struct session *session = sample_restoring(&m, &a);

	box_ends(&m, 0, REASON_OOM_KILLED);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	(void)run_in(&m, session);
	session_delete(session, sample_on_session, &gone);
	box_ends(&m, 1, REASON_CANCELED_BY_USER);
	SAMPLE_UNTIL(&m, gone.n && a.n);
	CHECK_EQ(gone.status, 0);
	CHECK_EQ(sample_host.n_jobs, 2);
	sample_remove(&m);
}

/* Of the restore that the server did not survive. */
static char digits[SPEC_CHANGE_SIZE + 1];

/* The server ends while files are restored; the next one finds the workspace, if `is_kept`. */
static struct session *restart_amid(struct sample *m, bool loses_before, bool is_kept)
{
	struct session *session = sample_snapped(m);
	struct sample_answer a;
	names kept;

	memcpy(kept[0], session->workspace, sizeof(kept[0]));
	if (loses_before)
		lose(session);
	restore(session, &a);
	job_started(sample_job(0));
	memcpy(digits, sample_job(0)->change, sizeof(digits));
	sample_restart(m);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(m->service->n_sessions, 1);
	sample_up(NULL, 0, (const char(*)[WORKSPACE_ID_SIZE + 1]) kept, is_kept);
	return m->service->sessions;
}

TEST(a_restore_that_ended_with_the_server_is_made_good_by_the_next)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	const struct session *session = restart_amid(&m, false, true);

	CHECK(!session->is_lost && is_marked(&m, session));
	CHECK(!sample_job(0)->clears);
	CHECK_STR(sample_job(0)->change, digits);
	box_ends(&m, 0, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, !is_marked(&m, session));
	sample_restart(&m);
	sample_up(NULL, 0, NULL, 0);
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_remove(&m);
}

TEST(a_run_from_before_waits_until_the_files_are_made_good)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	struct session *session = sample_snapped(&m);
	struct sample_answer a;
	names kept;

	memcpy(kept[0], session->workspace, sizeof(kept[0]));
	restore(session, &a);
	(void)run_in(&m, session);
	job_started(sample_job(0));
	sample_restart(&m);
	sample_up(NULL, 0, (const char(*)[WORKSPACE_ID_SIZE + 1]) kept, 1);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 1);
	box_ends(&m, 0, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 2);
	CHECK_EQ(sample_job(1)->deed, DEED_EXECUTE);
	box_ends(&m, 1, REASON_EXIT_CODE_0);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	sample_remove(&m);
}

TEST(a_workspace_that_was_never_filled_goes)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	const struct session *session = restart_amid(&m, true, true);

	CHECK(session->is_lost && !is_marked(&m, session));
	CHECK_EQ(sample_host.n_jobs, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK_STR(session->row.state, "lost");
	sample_remove(&m);
}

TEST(nothing_is_made_good_in_a_workspace_that_is_gone)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	const struct session *session = restart_amid(&m, false, false);

	CHECK(session->is_lost && !is_marked(&m, session));
	CHECK_EQ(sample_host.n_jobs, 0);
	CHECK_EQ(sample_host.n_dropped, 0);
	sample_remove(&m);
}

TESTS(UNIT(a_session_that_lost_its_files_has_them_again),
	UNIT(a_lost_session_stays_lost_when_it_can_not_be_restored),
	UNIT(two_restores_of_a_lost_session_are_done_one_after_the_other),
	UNIT(a_lost_session_may_be_deleted_while_its_workspace_is_made),
	UNIT(a_restore_whose_box_was_killed_is_made_good),
	UNIT(a_restore_that_ended_with_the_server_is_made_good_by_the_next),
	UNIT(runs_wait_while_files_are_restored_and_made_good),
	UNIT(a_box_that_did_not_find_something_is_no_session_that_is_gone),
	UNIT(a_workspace_that_goes_while_it_is_filled_does_not_come_back),
	UNIT(runs_begin_when_files_were_restored),
	UNIT(nothing_runs_in_files_that_could_not_be_made_good),
	UNIT(there_is_no_copy_of_files_that_could_not_be_made_good),
	UNIT(a_run_that_waits_for_files_can_be_deleted_with_its_session),
	UNIT(a_run_from_before_waits_until_the_files_are_made_good),
	UNIT(a_workspace_that_was_never_filled_goes),
	UNIT(nothing_is_made_good_in_a_workspace_that_is_gone))
