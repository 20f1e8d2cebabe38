#include "core/service.h"

#include "core/journal.h"
#include "core/service_sample.h"

/* --- directories --- */

TEST(a_runs_directory_is_made_once_and_found)
{
	SAMPLE(m);
	sample_open(&m);
	AUTO_FD made = -1;
	AUTO_FD found = -1;
	int none = -7;

	CHECK_EQ(run_dir_open(m.service, "alice", "x", false, &none), -ENOENT);
	CHECK_EQ(none, -7);
	CHECK_EQ(run_dir_open(m.service, "alice", "x", true, &made), 0);
	CHECK_EQ(run_dir_open(m.service, "alice", "y", false, &none), -ENOENT);
	CHECK_EQ(run_dir_open(m.service, "alice", "x", false, &found), 0);
	scratch_write(made, "f", "text");
	CHECK(scratch_holds(found, "f", "text"));
	AUTO_FREE char *path = service_path(m.service, "alice/runs/x/f");
	CHECK(scratch_holds(AT_FDCWD, path, "text"));
	sample_remove(&m);
}

/* --- coming back --- */

static void to_hex(const char *id, char hex[1][RUN_ID_SIZE + 1])
{
	uuid_to_hex(id, hex[0]);
}

TEST(a_run_that_the_keeper_knows_goes_on)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	char hex[1][RUN_ID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	to_hex(id, hex);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "before ");
	sample_settle(&m);
	sample_restart(&m);
	CHECK(run_find(m.service, id, NULL) != NULL);
	CHECK_EQ(m.service->n_runs, 1);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) hex, 1, NULL, 0);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK(sample_job(0)->is_adopted);
	CHECK_EQ(m.service->queue.n_active, 1);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "and after");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.phase, "completed");
	CHECK_EQ(row.log_bytes, 16);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(sample_in_order(frames, "\"event\":\"start\"", "before ", "and after", "end", NULL));
	CHECK(!sample_in_order(frames, "\"event\":\"start\"", "\"event\":\"start\"", NULL));
	CHECK_EQ(sample_host.n_discarded, 0);
	sample_remove(&m);
}

/* The keeper that was asked is still there, and keeps what it was told until that is
 * acknowledged: so it was never told, and the run begins now. */
TEST(a_run_that_the_same_keeper_does_not_know_never_began)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	char id[UUID_SIZE + 1];

	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	sample_restart(&m);
	sample_up(NULL, 0, NULL, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	CHECK(!sample_job(0)->is_adopted);
	CHECK_STR(sample_job(0)->argv, "true");
	CHECK_STR(run_find(m.service, id, NULL)->row.phase, "starting");
	sample_remove(&m);
}

TEST(a_run_of_another_keeper_is_lost)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	sample_restart(&m);
	memset(sample_host.instance, 'b', KEEPER_ID_SIZE);
	sample_up(NULL, 0, NULL, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "infrastructure_error");
	CHECK_EQ(sample_host.n_jobs, 0);
	sample_remove(&m);
}

TEST(what_waited_is_executed_in_the_same_order_whatever_the_keeper)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);

	(void)sample_run(&m, NULL);
	sample_numbered_runs(&m, 3);
	job_started(sample_job(0));
	sample_restart(&m);
	memset(sample_host.instance, 'b', KEEPER_ID_SIZE);
	sample_up(NULL, 0, NULL, 0);
	sample_numbered_jobs_end_in_order(&m, 3);
	sample_remove(&m);
}

TEST(what_the_keeper_holds_and_nobody_knows_is_discarded)
{
	SAMPLE(m);
	char runs[1][RUN_ID_SIZE + 1] = { "00112233445566778899aabbccddeeff" };
	char spaces[1][WORKSPACE_ID_SIZE + 1] = { "ffeeddccbbaa99887766554433221100" };

	sample_open_down(&m);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) runs, 1,
		(const char(*)[WORKSPACE_ID_SIZE + 1]) spaces, 1);
	CHECK_EQ(sample_host.n_discarded, 1);
	CHECK_STR(sample_host.discarded[0], runs[0]);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK_STR(sample_host.dropped[0], spaces[0]);
	sample_remove(&m);
}

/* A connection may break without the keeper: what we gave up must not go on there. */
TEST(what_was_called_lost_is_discarded_when_it_is_found_again)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	char hex[1][RUN_ID_SIZE + 1];

	to_hex(run->row.id, hex);
	job_started(sample_job(0));
	sample_down();
	sample_up((const char(*)[RUN_ID_SIZE + 1]) hex, 1, NULL, 0);
	CHECK_EQ(sample_host.n_discarded, 1);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	sample_remove(&m);
}

TEST(a_run_whose_turn_is_being_stored_when_the_keeper_changes_begins_once)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	(void)sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);

	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	CHECK(second->holds_slot && !second->job);
	sample_down();
	sample_up(NULL, 0, NULL, 0);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 2);
	CHECK_EQ(m.service->queue.n_waiting, 0);
	CHECK_EQ(m.service->queue.n_active, 1);
	sample_remove(&m);
}

TEST(runs_wait_while_there_is_no_keeper)
{
	SAMPLE(m);
	sample_open(&m);
	sample_down();
	struct run *run = sample_run(&m, NULL);

	CHECK_STR(run->row.phase, "queued");
	sample_up(NULL, 0, NULL, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	CHECK_STR(run->row.phase, "starting");
	sample_remove(&m);
}

/* The keeper goes just before it is asked: nothing was executed, and it is asked again. */
TEST(a_start_that_finds_no_keeper_waits_again)
{
	SAMPLE(m);
	sample_open(&m);
	sample_host.is_up = false; /* and the service has not heard of it yet */
	struct run *run = sample_run(&m, NULL);

	CHECK_STR(run->row.phase, "queued");
	CHECK_EQ(m.service->queue.n_waiting, 1);
	CHECK_EQ(m.service->queue.n_active, 0);
	sample_down();
	sample_up(NULL, 0, NULL, 0);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1);
	sample_remove(&m);
}

/* A predecessor wrote the last frame of a run that waited, and died before that was stored. */
TEST(a_run_whose_end_was_told_is_not_executed)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	char id[UUID_SIZE + 1];
	AUTO_FD dir = -1;
	struct stream_options options = { .id = id, .log_cap = 1000 };
	struct stream *stream = NULL;
	struct err err = { 0 };
	CLEANUP(free_row) struct run_row row = { 0 };

	(void)sample_run(&m, NULL);
	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	dir = sample_fresh_dir(&m, id);
	sample_shut(&m);
	sample_reset_host();
	CHECK_EQ(stream_open(&m.loop, dir, &options, &stream, &err), 0);
	CHECK(stream_event(stream, "end",
		      "{\"exit_code\":null,\"reason\":\"canceled_by_user\",\"canceled\":true}") >
		0);
	stream_end(stream);
	stream_unref(stream);
	sample_open_down(&m);
	sample_up(NULL, 0, NULL, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "canceled_by_user");
	CHECK_STR(row.phase, "killed");
	CHECK(row.request == NULL);
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(!sample_in_order(frames, "\"event\":\"end\"", "\"event\":\"end\"", NULL));
	for (const struct job *j = sample_host.jobs; j; j = j->next) {
		char hex[RUN_ID_SIZE + 1];

		uuid_to_hex(id, hex);
		CHECK(!streq(j->id, hex));
	}
	sample_remove(&m);
}

static void ask_in_session(struct sample *m, const struct session *session, struct sample_answer *a)
{
	char body[128];

	(void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"command\":[\"true\"]}",
		session->row.id);
	sample_ask(m, a, "alice", NULL, body);
}

/* In a session it would leave traces: whoever comes after us knows it before anything is
 * executed. */
TEST(a_run_in_a_session_begins_when_the_journal_has_it)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	struct sample_answer a;
	CLEANUP(free_row) struct run_row noted = { 0 };

	ask_in_session(&m, sample_session(&m), &a);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK(run_is_shown(a.run));
	CHECK_EQ(journal_next(m.service->journal, 0, &noted), 0);
	CHECK_STR(noted.id, a.id);
	CHECK_STR(noted.phase, "starting");
	CHECK(noted.request != NULL);
	sample_restart(&m);
	CHECK(run_find(m.service, a.id, NULL) != NULL);
	sample_remove(&m);
}

static void last_with_fault(int n)
{
	SAMPLE(m);
	(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
	sample_open(&m);
	struct sample_answer a;
	CLEANUP(free_row) struct run_row row = { 0 };

	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n == 1);
	CHECK_EQ(a.status, 0);
	CHECK(a.run->is_noted);
	SAMPLE_UNTIL(&m, !a.run->is_noted);
	CHECK_EQ(journal_next(m.service->journal, 0, &row), -ENOENT);
	SAMPLE_UNTIL(&m, sample_stored(&m, a.id, &row) == 0);
	CHECK_STR(row.phase, "starting");
	CHECK(run_is_shown(a.run));
	sample_remove(&m);
}

TEST(a_run_that_lasts_leaves_the_journal_for_the_store)
{
	for (int n = 3; n < 6; n++) /* also if the store fails at first */
		last_with_fault(n);
}

TEST(a_run_in_a_session_begins_when_it_is_stored_if_all_is_to_be_durable)
{
	SAMPLE(m);
	m.settings.store_sync_full = true;
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer a;
	char kept[1][WORKSPACE_ID_SIZE + 1];

	ask_in_session(&m, session, &a);
	CHECK_EQ(sample_host.n_jobs, 0);
	memcpy(kept[0], session->workspace, sizeof(kept[0]));
	sample_down(); /* a connection that breaks meanwhile does not have it begin twice */
	sample_up(NULL, 0, (const char(*)[WORKSPACE_ID_SIZE + 1]) kept, 1);
	SAMPLE_UNTIL(&m, a.n);
	sample_settle(&m);
	CHECK_EQ(sample_host.n_jobs, 1);
	CHECK_EQ(m.service->queue.n_active, 1);
	CHECK_EQ(m.service->queue.n_waiting, 0);
	sample_remove(&m);
}

TEST(damaged_output_does_not_keep_a_run_from_being_adopted)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	char id[UUID_SIZE + 1];
	char hex[1][RUN_ID_SIZE + 1];
	AUTO_FD dir = -1;
	CLEANUP(free_row) struct run_row row = { 0 };

	memcpy(id, sample_run(&m, NULL)->row.id, sizeof(id));
	to_hex(id, hex);
	dir = sample_fresh_dir(&m, id);
	sample_shut(&m);
	sample_reset_host();
	scratch_write(dir, "index", "this is no index at all, and long enough to be read as one");
	sample_open_down(&m);
	sample_up((const char(*)[RUN_ID_SIZE + 1]) hex, 1, NULL, 0);
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "text");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "exit_code_0");
	CHECK_EQ(row.log_bytes, 4); /* what came after that is kept */
	AUTO_FREE char *frames = sample_frames(&m, "alice", id);
	CHECK(sample_in_order(frames, "output_lost", "text", "\"event\":\"end\"", NULL));
	sample_remove(&m);
}

/* --- ending --- */

static void on_drained(void *ctx)
{
	++*(unsigned *)ctx;
}

TEST(draining_waits_for_what_runs_but_not_for_what_waits)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	unsigned n = 0;
	struct sample_answer a;

	(void)sample_run(&m, NULL);
	(void)sample_run(&m, NULL);
	service_drain(m.service, on_drained, &n);
	sample_ask(&m, &a, "alice", NULL, SAMPLE_BODY);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.code, "shutting_down");
	sample_settle(&m);
	CHECK_EQ(n, 0);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, n == 1);
	CHECK_EQ(sample_host.n_jobs, 1); /* the second is the next server's */
	sample_settle(&m);
	CHECK_EQ(n, 1);
	sample_remove(&m);
}

TEST(draining_does_not_wait_for_ever)
{
	SAMPLE(m);
	m.settings.drain_sec = 0;
	sample_open(&m);
	unsigned n = 0;

	(void)sample_run(&m, NULL);
	service_drain(m.service, on_drained, &n);
	SAMPLE_UNTIL(&m, n == 1);
	CHECK_EQ(m.service->n_runs, 1);
	sample_remove(&m);
}

/* Threads write into a box that does not read, the store is asked, output comes: and the
 * server ends. What was accepted is found by the next one. */
TEST(closing_in_the_middle_of_everything_loses_nothing)
{
	SAMPLE(m);
	AUTO_FREE char *big = xcalloc(1, 1 << 20);
	struct sample_answer a;
	char id[UUID_SIZE + 1];

	sample_use_sqlite(&m);
	sample_open(&m);
	memset(big, 'A', 900 << 10);
	AUTO_JSON *json =
		json_pack("{s:s,s:[s],s:[{s:s,s:s}],s:[s]}", "base_image", "host", "command", "cat",
			"files", "path", "a", "content_b64", big, "capture_patterns", "*");
	AUTO_FREE char *text = json_dumps(json, 0);
	memcpy(id, sample_run(&m, text)->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	job_writes(sample_job(0), CHANNEL_STDOUT, "half");
	sample_ask(&m, &a, "alice", "k", SAMPLE_RICH_BODY);
	sample_shut(&m);
	CHECK_EQ(a.n, 1); /* answered, one way or the other */
	sample_answer_fini(&a);
	sample_reset_host();
	sample_open_down(&m);
	CHECK(run_find(m.service, id, NULL) != NULL);
	sample_remove(&m);
}

/* The end of a run is under way: its files are being unpacked, or that is being stored. */
TEST(closing_while_a_run_ends_leaves_its_end_to_the_next)
{
	for (int turns = 0; turns < 6; turns++) {
		SAMPLE(m);
		sample_use_sqlite(&m);
		sample_open(&m);
		char id[UUID_SIZE + 1];
		CLEANUP(free_row) struct run_row row = { 0 };

		memcpy(id,
			sample_run(&m, "{\"base_image\":\"host\",\"command\":[\"true\"],"
				       "\"capture_patterns\":[\"*\"]}")
				->row.id,
			sizeof(id));
		job_started(sample_job(0));
		job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
		for (int i = 0; i < turns; i++)
			(void)uv_run(&m.loop, UV_RUN_NOWAIT);
		sample_shut(&m);
		bool was_released = sample_job(0)->is_released;
		sample_reset_host();
		sample_open_down(&m);
		CHECK_EQ(sample_stored(&m, id, &row), 0);
		/* Released only if stored; it may be stored and not released. */
		CHECK(!was_released || streq(row.phase, "completed"));
		CHECK(streq(row.phase, "completed") || run_find(m.service, id, NULL) != NULL);
		sample_remove(&m);
	}
}

TEST(a_service_that_can_not_be_opened_says_why)
{
	SAMPLE(m);
	struct err err = { 0 };
	struct service *s = NULL;
	char path[128];
	struct service_options options = { .loop = &m.loop, .settings = &m.settings, .root = "/" };

	scratch_write(m.dir.fd, "file", "");
	(void)snprintf(path, sizeof(path), "%s/file/data", m.dir.path);
	options.data_dir = path;
	CHECK(service_open(&options, &s, &err) < 0);
	CHECK(s == NULL && err.text[0]);
	(void)snprintf(path, sizeof(path), "%s/data", m.dir.path);
	options.store = "nothing:";
	CHECK_EQ(service_open(&options, &s, &err), -EINVAL);
	CHECK(strstr(err.text, "unknown store") != NULL);
	sample_remove(&m);
}

TESTS(UNIT(a_runs_directory_is_made_once_and_found), UNIT(a_run_that_the_keeper_knows_goes_on),
	UNIT(a_run_that_the_same_keeper_does_not_know_never_began),
	UNIT(a_run_of_another_keeper_is_lost),
	UNIT(what_waited_is_executed_in_the_same_order_whatever_the_keeper),
	UNIT(what_the_keeper_holds_and_nobody_knows_is_discarded),
	UNIT(what_was_called_lost_is_discarded_when_it_is_found_again),
	UNIT(a_run_whose_turn_is_being_stored_when_the_keeper_changes_begins_once),
	UNIT(runs_wait_while_there_is_no_keeper), UNIT(a_start_that_finds_no_keeper_waits_again),
	UNIT(a_run_whose_end_was_told_is_not_executed),
	UNIT(a_run_in_a_session_begins_when_the_journal_has_it),
	UNIT(a_run_that_lasts_leaves_the_journal_for_the_store),
	UNIT(a_run_in_a_session_begins_when_it_is_stored_if_all_is_to_be_durable),
	UNIT(damaged_output_does_not_keep_a_run_from_being_adopted),
	UNIT(draining_waits_for_what_runs_but_not_for_what_waits),
	UNIT(draining_does_not_wait_for_ever),
	UNIT(closing_in_the_middle_of_everything_loses_nothing),
	UNIT(closing_while_a_run_ends_leaves_its_end_to_the_next),
	UNIT(a_service_that_can_not_be_opened_says_why))
