#include "core/service_sample.h"
#include "core/session.h"
#include "lib/shell.h"

/* --- uploads --- */

struct uploaded {
	unsigned n;
	int status;
	char code[64];
	uint64_t n_files;
};

static void on_uploaded(void *ctx, const struct upload_result *result, struct problem *problem)
{
	struct uploaded *u = ctx;

	u->n++;
	u->status = problem->status;
	(void)snprintf(u->code, sizeof(u->code), "%s", problem->code ? problem->code : "");
	u->n_files = result->n_files;
}

/* A file that is said to have `size` bytes. */
static void upload_of(struct sample *m, struct session *session, uint64_t size, struct uploaded *u)
{
	struct session_upload what = { .n_sources = 1, .kind = "plain" };

	scratch_write(m->dir.fd, "spool", "body of a file");
	what.fd = openat(m->dir.fd, "spool", O_RDONLY | O_CLOEXEC);
	what.sources = xnew(struct upload_source);
	what.sources[0] = (struct upload_source){
		.fd = what.fd, .size = size, .name = xstrdup("a.txt"), .kind = UPLOAD_PLAIN
	};
	*u = (struct uploaded){ 0 };
	session_put_files(session, &what, on_uploaded, u);
}

static void upload(struct sample *m, struct session *session, struct uploaded *u)
{
	upload_of(m, session, 14, u);
}

TEST(an_upload_arrives_as_a_stream_of_files)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct uploaded u;
	char data[4096];
	size_t n = 0;

	upload(&m, session, &u);
	job_started(sample_job(0));
	for (ssize_t got = -1; got != 0;) {
		got = recv(sample_job(0)->ends[CHANNEL_FILES], data + n, sizeof(data) - n,
			MSG_DONTWAIT);
		n += got > 0 ? (size_t)got : 0;
		sample_turn(&m);
	}
	CHECK(memmem(data, n, "a.txt", 5) && memmem(data, n, "body of a file", 14));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, u.n);
	CHECK_EQ(u.status, 0);
	CHECK_EQ(u.n_files, 1);
	sample_remove(&m);
}

TEST(an_upload_that_does_not_fit_or_has_no_keeper)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct uploaded u;
	struct sample_answer gone = { 0 };

	upload(&m, session, &u);
	job_started(sample_job(0));
	struct result result = job_result(sample_job(0), REASON_PROVISION_FAILED, -1);
	result.error = ENOSPC;
	job_ends_with(sample_job(0), &result);
	SAMPLE_UNTIL(&m, u.n);
	CHECK_STR(u.code, "workspace_cap_exceeded");
	sample_host.is_up = false;
	upload(&m, session, &u);
	CHECK_EQ(u.n, 1);
	CHECK_STR(u.code, "runtime_unavailable");
	session->is_lost = true;
	upload(&m, session, &u);
	CHECK_STR(u.code, "workspace_lost");
	session_delete(session, sample_on_session, &gone);
	upload(&m, session, &u);
	CHECK_STR(u.code, "session_not_found");
	SAMPLE_UNTIL(&m, gone.n);
	sample_remove(&m);
}

TEST(an_upload_over_the_size_limit_is_refused_by_whichever_door_it_came)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	uint64_t limit = m.settings.max_upload_mb << 20;
	struct uploaded u;

	upload_of(&m, session, limit + 1, &u);
	CHECK_EQ(u.n, 1);
	CHECK_STR(u.code, "payload_too_large");
	CHECK_EQ(u.status, 413);
	upload_of(&m, session, limit, &u);
	CHECK_EQ(u.n, 0);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, u.n);
	sample_remove(&m);
}

/* --- snapshots --- */

struct snapped {
	unsigned n;
	char id[32];
	char code[64];
	int64_t size;
};

static void on_snapshot(void *ctx, const struct snapshot_row *row, struct problem *problem)
{
	struct snapped *s = ctx;

	s->n++;
	(void)snprintf(s->code, sizeof(s->code), "%s", problem->code ? problem->code : "");
	(void)snprintf(s->id, sizeof(s->id), "%s", row->id ? row->id : "");
	s->size = row->size_bytes;
}

/* Make one of `text`, with the nth job. */
static struct snapped snap(struct sample *m, struct session *session, size_t n, const char *text)
{
	struct snapped s = { 0 };

	session_snapshot(session, on_snapshot, &s);
	if (s.n)
		return s;
	job_started(sample_job(n));
	job_writes(sample_job(n), CHANNEL_CAPTURE, text);
	job_ends(sample_job(n), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(m, s.n);
	return s;
}

static char *snapshot_path(struct sample *m, const struct session *session, const char *id)
{
	char path[200];

	(void)snprintf(path, sizeof(path), "alice/snapshots/%s/%s", session->row.id, id);
	return service_path(m->service, path);
}

static void on_snapshot_removed(void *ctx, bool removed, struct problem *problem)
{
	*(int *)ctx = problem->status ? problem->status : removed;
}

TEST(a_snapshot_is_kept_restored_and_removed)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct snapped s = snap(&m, session, 0, "all files");
	struct sample_answer back = { 0 };
	char buf[32] = "";
	int removed = -1;

	CHECK_STR(s.code, "");
	CHECK_EQ(s.size, 9);
	AUTO_FREE char *path = snapshot_path(&m, session, s.id);
	CHECK(scratch_holds(AT_FDCWD, path, "all files"));
	session_restore(session, s.id, sample_on_session, &back);
	CHECK(sample_job(1)->clears);
	job_started(sample_job(1));
	CHECK_EQ(read(sample_job(1)->ends[CHANNEL_FILES], buf, sizeof(buf)), 9);
	CHECK_STR(buf, "all files");
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, back.n);
	CHECK_EQ(back.status, 0);
	session_remove_snapshot(session, s.id, on_snapshot_removed, &removed);
	SAMPLE_UNTIL(&m, removed >= 0);
	CHECK_EQ(removed, 1);
	CHECK(!scratch_has(AT_FDCWD, path));
	static const char *const others[] = { "snap-000000000000", "../../x", "snap-", "" };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		back = (struct sample_answer){ 0 };
		session_restore(session, others[i], sample_on_session, &back);
		CHECK_EQ(back.n, 1);
		CHECK_EQ(back.status, 404);
	}
	sample_remove(&m);
}

TEST(the_oldest_snapshots_make_room)
{
	SAMPLE(m);
	m.settings.snapshot_max_count = 2;
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct snapped s[3];

	for (size_t i = 0; i < 3; i++) {
		s[i] = snap(&m, session, i, "x");
		CHECK_STR(s[i].code, "");
	}
	for (size_t i = 0; i < 3; i++) {
		AUTO_FREE char *path = snapshot_path(&m, session, s[i].id);
		CHECK_EQ(scratch_has(AT_FDCWD, path), i > 0);
	}
	sample_remove(&m);
}

/* Calls: two of the start, the row, then list and commit of the second snapshot. */
TEST(a_snapshot_that_can_not_be_stored_removes_no_other)
{
	SAMPLE(m);
	m.settings.snapshot_max_count = 1;
	(void)snprintf(m.store, sizeof(m.store), "fault:7:memory:");
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct snapped first = snap(&m, session, 0, "x");
	struct snapped second = snap(&m, session, 1, "y");

	CHECK_STR(first.code, "");
	CHECK_STR(second.code, "store_unavailable");
	AUTO_FREE char *kept = snapshot_path(&m, session, first.id);
	AUTO_FREE char *gone = snapshot_path(&m, session, second.id);
	CHECK(scratch_has(AT_FDCWD, kept));
	CHECK(!scratch_has(AT_FDCWD, gone));
	sample_remove(&m);
}

TEST(a_snapshot_may_be_too_large_and_a_session_too_busy)
{
	SAMPLE(m);
	m.settings.snapshot_max_size_mb = 1;
	sample_open(&m);
	struct session *session = sample_session(&m);
	AUTO_FREE char *big = xcalloc(1, 40000);
	struct snapped s = { 0 };
	char body[128];

	memset(big, 'x', 39999);
	session_snapshot(session, on_snapshot, &s);
	job_started(sample_job(0));
	for (int i = 0; i < 30; i++) {
		job_writes(sample_job(0), CHANNEL_CAPTURE, big);
		sample_turn(&m);
	}
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, s.n);
	CHECK_STR(s.code, "snapshot_too_large");
	(void)snprintf(body, sizeof(body), "{\"session_id\":\"%s\",\"command\":[\"true\"]}",
		session->row.id);
	(void)sample_run(&m, body);
	s = snap(&m, session, 2, "");
	CHECK_STR(s.code, "session_has_active_runs");
	sample_remove(&m);
}

/* The row of a snapshot is being stored while its session is deleted. */
TEST(a_session_may_be_deleted_while_its_snapshot_is_stored)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct snapped s = { 0 };
	struct sample_answer gone = { 0 };

	session_snapshot(session, on_snapshot, &s);
	job_started(sample_job(0));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, session->errand == NULL);
	CHECK_EQ(s.n, 0);
	session_delete(session, sample_on_session, &gone);
	SAMPLE_UNTIL(&m, gone.n);
	CHECK_EQ(s.n, 1);
	sample_remove(&m);
}

/* --- clones --- */

static void clone_until_filled(
	struct sample *m, struct session *session, const char *name, struct sample_answer *a)
{
	struct identity alice = sample_who("alice");

	*a = (struct sample_answer){ 0 };
	session_clone(session, &alice, name, sample_on_session, a);
	job_started(sample_job(0));
	CHECK(sample_job(0)->captures);
	job_writes(sample_job(0), CHANNEL_CAPTURE, "files");
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(m, sample_host.n_jobs == 2);
	CHECK(!streq(sample_job(1)->workspace, session->workspace));
	job_started(sample_job(1));
}

TEST(a_clone_has_the_same_files_and_settings)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer a;
	char buf[16] = "";

	clone_until_filled(&m, session, NULL, &a);
	CHECK_EQ(read(sample_job(1)->ends[CHANNEL_FILES], buf, sizeof(buf)), 5);
	CHECK_STR(buf, "files");
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_EQ(a.status, 0);
	CHECK(a.session && a.session != session);
	CHECK_STR(a.session->row.base_image, "host");
	CHECK_EQ(m.service->n_sessions, 2);
	sample_remove(&m);
}

TEST(a_clone_has_a_name_that_no_other_has)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct identity alice = sample_who("alice");
	struct sample_answer a;
	struct sample_answer again = { 0 };

	clone_until_filled(&m, session, "copy", &a);
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.session->row.name, "copy");
	CHECK(session_find_named(m.service, "copy", &alice) == a.session);
	session_clone(session, &alice, "copy", sample_on_session, &again);
	CHECK_EQ(again.n, 1);
	CHECK_EQ(again.status, 409);
	CHECK_STR(again.code, "session_name_taken");
	CHECK_EQ(sample_host.n_jobs, 2);
	sample_answer_fini(&again);
	sample_remove(&m);
}

/* The next server knows no session that it belongs to. */
TEST(a_clone_that_is_being_filled_when_the_server_ends_does_not_stay)
{
	SAMPLE(m);
	sample_use_sqlite(&m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct identity alice = sample_who("alice");
	struct sample_answer a;
	char names[2][WORKSPACE_ID_SIZE + 1];

	clone_until_filled(&m, session, "copy", &a);
	memcpy(names[0], session->workspace, sizeof(names[0]));
	(void)snprintf(names[1], sizeof(names[1]), "%s", sample_job(1)->workspace);
	sample_restart(&m);
	sample_up(NULL, 0, (const char(*)[WORKSPACE_ID_SIZE + 1]) names, 2);
	CHECK_EQ(m.service->n_sessions, 1);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK(session_find_named(m.service, "copy", &alice) == NULL);
	sample_remove(&m);
}

/* Nor is it anybody's before. */
TEST(a_clone_is_not_found_before_it_is_filled)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct identity alice = sample_who("alice");
	struct sample_answer a;

	clone_until_filled(&m, session, "copy", &a);
	sample_settle(&m);
	for (const struct session *i = m.service->sessions; i; i = i->next)
		CHECK(session_is_open(i) == (i == session));
	CHECK(session_find_named(m.service, "copy", &alice) == NULL);
	job_ends(sample_job(1), REASON_EXIT_CODE_0, 0);
	SAMPLE_UNTIL(&m, a.n);
	CHECK(session_is_open(a.session));
	sample_remove(&m);
}

TEST(a_clone_that_can_not_be_filled_does_not_stay)
{
	SAMPLE(m);
	sample_open(&m);
	struct session *session = sample_session(&m);
	struct sample_answer a;

	clone_until_filled(&m, session, NULL, &a);
	struct result result = job_result(sample_job(1), REASON_PROVISION_FAILED, -1);
	result.error = ENOSPC;
	job_ends_with(sample_job(1), &result);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.code, "workspace_cap_exceeded");
	CHECK(a.session == NULL);
	sample_answer_fini(&a);
	SAMPLE_UNTIL(&m, m.service->n_sessions == 1);
	sample_remove(&m);
}

/* --- repositories --- */

TEST(a_repository_that_is_not_allowed_makes_no_session)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a;

	sample_ask_session(&m, &a, "alice", "k",
		"{\"base_image\":\"host\",\"git\":{\"url\":\"https://127.0.0.1:1/x.git\"}}");
	SAMPLE_UNTIL(&m, a.n);
	CHECK(a.status >= 400);
	CHECK(a.session == NULL);
	CHECK_EQ(m.service->n_sessions, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	CHECK(m.service->claims == NULL);
	sample_answer_fini(&a);
	sample_remove(&m);
}

static char *repository(struct sample *m)
{
	char command[600];

	(void)snprintf(command, sizeof(command),
		"cd %s && git init -q r && cd r && echo hi > f && git add f && git -c user.name=a "
		"-c user.email=a@b commit -q -m x",
		m->dir.path);
	if (shell_run(command, NULL, 0) != 0)
		return NULL;
	char *url = NULL;
	CHECK(asprintf(&url, "file://%s/r", m->dir.path) > 0);
	return url;
}

/* It is cloned, and does not fit: the session is gone from within its own errand. */
TEST(a_repository_that_does_not_fit_makes_no_session)
{
	SAMPLE(m);
	static char file[] = "file";
	static char *allow[] = { file, NULL };
	char **before = m.settings.git_allow;
	AUTO_FREE char *url = repository(&m);
	struct sample_answer a;
	char body[256];

	if (!url)
		SKIP("there is no git");
	m.settings.git_allow = allow;
	sample_open(&m);
	(void)snprintf(
		body, sizeof(body), "{\"base_image\":\"host\",\"git\":{\"url\":\"%s\"}}", url);
	sample_ask_session(&m, &a, "alice", "k", body);
	SAMPLE_UNTIL(&m, sample_host.n_jobs == 1 || a.n);
	CHECK_EQ(a.n, 0);
	job_started(sample_job(0));
	struct result result = job_result(sample_job(0), REASON_PROVISION_FAILED, -1);
	result.error = ENOSPC;
	job_ends_with(sample_job(0), &result);
	SAMPLE_UNTIL(&m, a.n);
	CHECK_STR(a.code, "workspace_cap_exceeded");
	CHECK_EQ(m.service->n_sessions, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	sample_answer_fini(&a);
	m.settings.git_allow = before;
	sample_remove(&m);
}

/* The list shows it before it is whole, and so somebody may delete it. */
TEST(a_session_may_be_deleted_while_its_repository_comes)
{
	SAMPLE(m);
	sample_open(&m);
	struct sample_answer a, gone = { 0 };

	sample_ask_session(&m, &a, "alice", NULL,
		"{\"base_image\":\"host\",\"git\":{\"url\":\"https://127.0.0.1:1/x.git\"}}");
	CHECK_EQ(m.service->n_sessions, 1);
	session_delete(m.service->sessions, sample_on_session, &gone);
	CHECK_EQ(gone.n, 0);
	SAMPLE_UNTIL(&m, a.n && gone.n);
	CHECK(a.status >= 400);
	CHECK_EQ(gone.status, 0);
	CHECK_EQ(m.service->n_sessions, 0);
	CHECK_EQ(sample_host.n_dropped, 1);
	sample_answer_fini(&a);
	sample_remove(&m);
}

TESTS(UNIT(an_upload_arrives_as_a_stream_of_files),
	UNIT(an_upload_that_does_not_fit_or_has_no_keeper),
	UNIT(an_upload_over_the_size_limit_is_refused_by_whichever_door_it_came),
	UNIT(a_snapshot_is_kept_restored_and_removed), UNIT(the_oldest_snapshots_make_room),
	UNIT(a_snapshot_that_can_not_be_stored_removes_no_other),
	UNIT(a_snapshot_may_be_too_large_and_a_session_too_busy),
	UNIT(a_session_may_be_deleted_while_its_snapshot_is_stored),
	UNIT(a_clone_has_the_same_files_and_settings), UNIT(a_clone_has_a_name_that_no_other_has),
	UNIT(a_clone_that_can_not_be_filled_does_not_stay),
	UNIT(a_clone_that_is_being_filled_when_the_server_ends_does_not_stay),
	UNIT(a_clone_is_not_found_before_it_is_filled),
	UNIT(a_repository_that_is_not_allowed_makes_no_session),
	UNIT(a_repository_that_does_not_fit_makes_no_session),
	UNIT(a_session_may_be_deleted_while_its_repository_comes))
