#include "core/session.h"

#include <time.h>

#include "core/errand.h"
#include "core/service_sample.h"
#include "lib/shell.h"

static void run_in(const struct session *session, char *body, size_t size)
{
	(void)snprintf(
		body, size, "{\"session_id\":\"%s\",\"command\":[\"true\"]}", session->row.id);
}

/* How many rows of sessions the store has. */
static void on_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	(void)rows;
	(void)total;
	CHECK_EQ(r, 0);
	*(int64_t *)ctx = (int64_t)n;
}

static int64_t count_stored(struct sample *m, const struct table *table)
{
	struct query q = { .table = table };
	int64_t n = -1;

	store_list(m->service->store, &q, on_rows, &n);
	SAMPLE_UNTIL(m, n >= 0);
	return n;
}

/* --- making --- */

TEST(a_session_is_made_found_and_deleted)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct identity alice = sample_who("alice");
	struct identity bob = sample_who("bob");
	struct sample_answer gone = { 0 };
	char id[UUID_SIZE + 1];
	AUTO_JSON *json = session_json(session);

	memcpy(id, session->row.id, sizeof(id));
	CHECK_STR(json_string_value(json_object_get(json, "session_id")), id);
	CHECK_STR(json_string_value(json_object_get(json, "state")), "active");
	CHECK(session_find(m.service, id, &alice) == session);
	CHECK(session_find(m.service, id, &bob) == NULL);
	CHECK_EQ(count_stored(&m, &session_table), 1);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(gone.status, 0);
	CHECK(session_find(m.service, id, NULL) == NULL);
	CHECK_EQ(count_stored(&m, &session_table), 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	sample_remove(&m);
}

TEST(the_same_key_gives_the_same_session)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b, c;

	sample_ask_session(&m, &a, "alice", "k", "{\"base_image\":\"host\"}");
	sample_ask_session(&m, &b, "alice", "k", "{\"base_image\":\"host\"}");
	sample_ask_session(&m, &c, "alice", "k", "{\"base_image\":\"other\"}");
	SAMPLE_UNTIL(&m, a.n && b.n && c.n);
	CHECK(a.session && a.session == b.session);
	CHECK_EQ(c.status, 409);
	CHECK_STR(json_string_value(json_object_get(c.details, "prior_id")), a.id);
	CHECK_EQ(m.service->n_sessions, 1);
	sample_answer_fini(&c);
	sample_remove(&m);
}

/* All of them are asked for before the first is there. */
TEST(nobody_gets_more_sessions_than_allowed_by_asking_at_once)
{
	SAMPLE(m);
	m.settings.max_sessions_per_user = 2;
	sample_open(&m);
	sample_host.holds_wishes = true;
	struct sample_answer a[4];
	unsigned n_refused = 0;

	for (size_t i = 0; i < 4; i++)
		sample_ask_session(&m, &a[i], "alice", NULL, "{\"base_image\":\"host\"}");
	CHECK_EQ(sample_host.n_wishes, 4);
	for (size_t i = 0; i < 4; i++)
		sample_host.wishes[i].done(sample_host.wishes[i].ctx, 0, "");
	SAMPLE_UNTIL(&m, a[0].n && a[1].n && a[2].n && a[3].n);
	for (size_t i = 0; i < 4; i++) {
		n_refused += a[i].status == 429;
		sample_answer_fini(&a[i]);
	}
	CHECK_EQ(n_refused, 2);
	CHECK_EQ(m.service->n_sessions, 2);
	CHECK_EQ(sample_host.n_dropped, 2); /* their workspaces do not stay */
	sample_remove(&m);
}

TEST(without_a_workspace_there_is_no_session)
{
	SAMPLE(m);
	sample_open(&m);
	sample_host.holds_wishes = true;
	struct sample_answer a;

	sample_ask_session(&m, &a, "alice", "k", "{\"base_image\":\"host\"}");
	SAMPLE_UNTIL(&m, sample_host.n_wishes == 1);
	sample_host.wishes[0].done(sample_host.wishes[0].ctx, -ENOSPC, "no room");
	CHECK_EQ(a.n, 1);
	CHECK_EQ(a.status, 503);
	CHECK_EQ(m.service->n_sessions, 0);
	CHECK_EQ(count_stored(&m, &session_table), 0);
	sample_answer_fini(&a);
	sample_remove(&m);
}

static void check_deleted_at_the_second_try(struct sample *m, struct session *session)
{
	struct sample_answer first = { 0 }, second = { 0 };

	session_delete(session, sample_on_session, &first);
	SAMPLE_UNTIL(m, first.n);
	CHECK_EQ(first.status, 503);
	session_delete(m->service->sessions, sample_on_session, &second);
	SAMPLE_UNTIL(m, second.n);
	CHECK_EQ(second.status, 0);
	CHECK_EQ(m->service->n_sessions, 0);
	CHECK_EQ(count_stored(m, &session_table), 0);
}

static void check_nothing_left_when_call_fails(int n)
{
	SAMPLE(m);
	struct sample_answer a;

	(void)snprintf(m.store, sizeof(m.store), "fault:%d:memory:", n);
	sample_open(&m);
	sample_ask_session(&m, &a, "alice", "k", "{\"base_image\":\"host\"}");
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, n <= 4 ? 503 : 0);
	CHECK_EQ(m.service->n_sessions, a.status == 0);
	CHECK_EQ(sample_host.n_dropped, n == 4);
	if (a.session)
		check_deleted_at_the_second_try(&m, a.session);
	sample_remove(&m);
}

/* Calls 1 and 2 are of the start; then the key, the row, its snapshots, its removal. */
TEST(whichever_call_of_the_store_fails_nothing_is_left)
{
	for (int n = 3; n <= 6; n++)
		check_nothing_left_when_call_fails(n);
}

/* --- ending --- */

TEST(deleting_cancels_its_runs_and_waits_for_them)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer gone = { 0 }, again = { 0 }, late;
	char body[128];
	char id[UUID_SIZE + 1];
	CLEANUP(free_row) struct run_row row = { 0 };

	run_in(session, body, sizeof(body));
	memcpy(id, sample_run(&m, body)->row.id, sizeof(id));
	CHECK_STR(sample_job(0)->workspace, session->workspace);
	job_started(sample_job(0));
	job_running(sample_job(0));
	session_delete(session, sample_on_session, &gone);
	session_delete(session, sample_on_session, &again);
	CHECK_EQ(again.n, 1);
	CHECK_EQ(again.status, 404);
	CHECK_EQ(sample_job(0)->n_cancels, 1);
	sample_ask(&m, &late, "alice", NULL, body);
	SAMPLE_UNTIL(&m, late.n);
	CHECK_EQ(late.status, 404);
	CHECK_EQ(gone.n, 0);
	CHECK_EQ(sample_host.n_dropped, 0);
	job_ends(sample_job(0), REASON_CANCELED_BY_USER, -1);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(gone.status, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK_EQ(m.service->n_sessions, 0);
	sample_await_end(&m, id, &row);
	CHECK_STR(row.reason_code, "canceled_by_user");
	sample_remove(&m);
}

TEST(a_run_that_does_not_end_keeps_its_session)
{
	SAMPLE(m);
	m.settings.session_drain_sec = 0;
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer gone = { 0 };
	char body[128];

	run_in(session, body, sizeof(body));
	(void)sample_run(&m, body);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_STR(gone.code, "session_cancel_drain_timeout");
	CHECK(!session->is_ending);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_CANCELED_BY_USER, -1);
	SAMPLE_UNTIL(&m, m.service->n_runs == 0);
	CHECK_EQ(m.service->n_sessions, 1);
	sample_remove(&m);
}

/* The run was checked when the session was there; keys and quotas took their time. */
TEST(a_run_is_not_accepted_into_a_session_that_ended_meanwhile)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer a, gone = { 0 };
	char body[128];

	run_in(session, body, sizeof(body));
	sample_ask(&m, &a, "alice", "k", body);
	CHECK_EQ(a.n, 0);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, a.n && gone.n);
	CHECK_EQ(gone.status, 0);
	CHECK_STR(a.code, "session_not_found");
	CHECK_EQ(m.service->n_runs, 0);
	sample_remove(&m);
}

/* Key and both quotas are looked up one after the other, and so the session is freed before. */
TEST(a_run_is_not_accepted_into_a_session_that_is_gone)
{
	SAMPLE(m);
	m.settings.cpu_sec_per_day = 1000;
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer a, gone = { 0 };
	char body[160];

	(void)snprintf(body, sizeof(body),
		"{\"session_id\":\"%s\",\"command\":[\"true\"],\"capture_patterns\":[\"*\"]}",
		session->row.id);
	session_delete(session, sample_on_session, &gone);
	session->is_ending = false; /* as it was a moment ago */
	sample_ask(&m, &a, "alice", "k", body);
	session->is_ending = true;
	SAMPLE_UNTIL(&m, a.n && gone.n);
	CHECK_STR(a.code, "session_not_found");
	sample_remove(&m);
}

TEST(sessions_expire)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 100;
	sample_open(&m);
	struct session *session = sample_session(&m);
	uint64_t now = (uint64_t)time(NULL);

	CHECK(session->row.expires_at != NULL);
	session_expire(m.service, now + 98);
	CHECK(!session->is_ending);
	session_expire(m.service, now + 102);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 0);
	CHECK_EQ(count_stored(&m, &session_table), 0);
	sample_remove(&m);
}

TEST(many_expire_at_once)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 100;
	sample_open(&m);
	uint64_t now = (uint64_t)time(NULL);

	for (int i = 0; i < 10; i++)
		CHECK(session_is_open(sample_session(&m)));
	session_expire(m.service, now + 102);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 0);
	CHECK_EQ(count_stored(&m, &session_table), 0);
	sample_remove(&m);
}

/* It may have to wait until it goes. */
TEST(whose_time_is_over_is_not_found)
{
	SAMPLE(m);
	m.settings.session_ttl_sec = 100;
	sample_open(&m);
	struct session *session = sample_session(&m);
	const struct identity alice = { .user_id = "alice" };
	struct sample_answer a = { 0 };
	char body[128];

	run_in(session, body, sizeof(body));
	CHECK(session_find_named(m.service, session->row.id, &alice) == session);
	session->row.expires_sec -= 102;
	CHECK(!session_is_open(session));
	CHECK(!session_find_named(m.service, session->row.id, &alice));
	sample_ask(&m, &a, "alice", NULL, body);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.code, "session_not_found");
	sample_answer_fini(&a);
	sample_remove(&m);
}

TEST(closing_while_a_session_ends)
{
	for (int turns = 0; turns < 4; turns++) {
		SAMPLE(m);
		sample_open(&m);
		struct session *session = sample_session(&m);
		struct sample_answer gone = { 0 };
		char body[128];

		run_in(session, body, sizeof(body));
		if (turns == 0)
			(void)sample_run(&m, body);
		session_delete(session, sample_on_session, &gone);
		for (int i = 0; i < turns; i++)
			(void)uv_run(&m.loop, UV_RUN_NOWAIT);
		sample_remove(&m);
		CHECK_EQ(gone.n, 1);
		sample_answer_fini(&gone);
	}
}

/* --- what it gives to its runs --- */

/* Its end would make the session last, but there is no store any more to tell. */
TEST(closing_while_a_run_of_a_session_goes_on)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	char body[128];

	run_in(session, body, sizeof(body));
	(void)sample_run(&m, body);
	/* As if it had begun an hour ago. */
	session->row.expires_sec -= 3600;
	session->kept_sec -= 3600;
	sample_remove(&m);
}

TEST(a_run_inherits_what_it_does_not_say)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;
	char body[128];

	sample_ask_session(&m, &a, "alice", NULL,
		"{\"base_image\":\"host\",\"timeout_sec\":7,\"env\":{\"A\":\"1\"},"
		"\"persona_id\":\"p\"}");
	SAMPLE_UNTIL(&m, a.n);
	run_in(a.session, body, sizeof(body));
	struct run *run = sample_run(&m, body);
	CHECK_EQ(run->policy.timeout_sec, 7);
	CHECK_STR(run->row.base_image, "host");
	CHECK_STR(run->row.persona_id, "p");
	CHECK_STR(json_string_value(json_object_get(run->request.env, "A")), "1");
	CHECK_EQ(a.session->n_runs, 1);
	sample_remove(&m);
}

TEST(without_an_image_nothing_runs_in_it)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, b;
	char body[128];

	sample_ask_session(&m, &a, "alice", NULL, "{}");
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 0);
	run_in(a.session, body, sizeof(body));
	sample_ask(&m, &b, "alice", NULL, body);
	SAMPLE_UNTIL(&m, b.n);
	CHECK_STR(b.code, "session_base_image_required");
	json_decref(b.details);
	sample_ask(&m, &b, "bob", NULL, body);
	SAMPLE_UNTIL(&m, b.n);
	CHECK_STR(b.code, "session_not_found");
	json_decref(b.details);
	sample_remove(&m);
}

/* --- after a restart, and when the keeper goes --- */

static void check_kept_or_lost(struct sample *m, struct session *s, const char *kept)
{
	char body[128];
	struct sample_answer a;

	CHECK_EQ(s->is_lost, !streq(s->workspace, kept));
	CHECK(s->workspace_bytes > 0);
	run_in(s, body, sizeof(body));
	sample_ask(m, &a, "alice", NULL, body);
	SAMPLE_UNTIL(m, a.n);
	CHECK_STR(a.code, s->is_lost ? "workspace_lost" : "");
}

TEST(a_session_whose_workspace_is_gone_is_lost)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	char kept[1][WORKSPACE_ID_SIZE + 1];

	memcpy(kept[0], sample_session(&m)->workspace, sizeof(kept[0]));
	(void)sample_session(&m);
	sample_shut(&m);
	sample_reset_host();
	sample_open_down(&m);
	CHECK_EQ(m.service->n_sessions, 2);
	sample_up(NULL, 0, (const char(*)[WORKSPACE_ID_SIZE + 1]) kept, 1);
	CHECK_EQ(sample_host.n_dropped, 0);
	for (struct session *s = m.service->sessions; s; s = s->next)
		check_kept_or_lost(&m, s, kept[0]);
	sample_remove(&m);
}

TEST(a_session_is_deleted_with_its_snapshots)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer gone = { 0 };
	char path[160];
	struct store_batch *b = store_batch_new(m.service->store);
	char text[] = "snap-0123456789ab";
	struct snapshot_row row = {
		.session_id = session->row.id, .id = text, .user_id = session->row.user_id
	};

	store_batch_insert(b, &snapshot_table, &row);
	store_commit(b, NULL, NULL);
	CHECK_EQ(count_stored(&m, &snapshot_table), 1);
	(void)snprintf(
		path, sizeof(path), "%s/alice/snapshots/%s", m.service->data_dir, session->row.id);
	AUTO_FREE char *command = NULL;
	CHECK(asprintf(&command, "mkdir -p %s && touch %s/x", path, path) > 0);
	CHECK_EQ(shell_run(command, NULL, 0), 0);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(count_stored(&m, &snapshot_table), 0);
	CHECK(!scratch_has(AT_FDCWD, path));
	sample_remove(&m);
}

TESTS(UNIT(a_session_is_made_found_and_deleted), UNIT(the_same_key_gives_the_same_session),
	UNIT(nobody_gets_more_sessions_than_allowed_by_asking_at_once),
	UNIT(without_a_workspace_there_is_no_session),
	UNIT(whichever_call_of_the_store_fails_nothing_is_left),
	UNIT(deleting_cancels_its_runs_and_waits_for_them),
	UNIT(a_run_that_does_not_end_keeps_its_session),
	UNIT(a_run_is_not_accepted_into_a_session_that_ended_meanwhile),
	UNIT(a_run_is_not_accepted_into_a_session_that_is_gone), UNIT(sessions_expire),
	UNIT(many_expire_at_once), UNIT(whose_time_is_over_is_not_found),
	UNIT(closing_while_a_session_ends), UNIT(closing_while_a_run_of_a_session_goes_on),
	UNIT(a_run_inherits_what_it_does_not_say), UNIT(without_an_image_nothing_runs_in_it),
	UNIT(a_session_whose_workspace_is_gone_is_lost),
	UNIT(a_session_is_deleted_with_its_snapshots))
