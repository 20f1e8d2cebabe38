/* What is true of the sqlite store alone: it outlives its process, refuses files that it can
 * not work with, and fails as a whole when the disk does. What a kill leaves behind is tested
 * by store_crash_test.c. */
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/harness.h"

#define OPEN(name) CLEANUP(harness_freep) struct harness *name = harness_new("sqlite:@/store.db")

/* Somebody who looks into the file by hand. */
static sqlite3 *look(const struct harness *h)
{
	sqlite3 *db = NULL;

	CHECK_EQ(sqlite3_open(h->url + strlen("sqlite:"), &db), SQLITE_OK);
	return db;
}

static void execute(const struct harness *h, const char *sql)
{
	sqlite3 *db = look(h);

	CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

static void check_refused(struct harness *h, int r, const char *why)
{
	struct store *s = NULL;
	struct err err = { 0 };

	CHECK_EQ(store_open(&h->loop, h->url, false, &s, &err), r);
	CHECK(s == NULL);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
}

TEST(rows_outlive_the_store)
{
	OPEN(h);
	struct run_row row = harness_run("r");
	struct usage_row usage = { .user_id = T("u") };
	struct store_batch *b = store_batch_new(h->store);
	ANSWER(a, &run_table);
	ANSWER(c, &usage_table);

	row.message = T("\xe2\x82\xac");
	row.cpu_us = 7;
	store_batch_put(b, &run_table, &row);
	store_batch_add(b, &usage_table, &usage, "runs_count", 3);
	store_commit(b, NULL, NULL);
	harness_close(h);
	harness_open(h);
	CHECK_EQ(harness_get(h, &run_table, &row, &a), 0);
	CHECK_STR(((struct run_row *)a.rows.data)->message, "\xe2\x82\xac");
	CHECK_EQ(((struct run_row *)a.rows.data)->cpu_us, 7);
	CHECK_EQ(harness_get(h, &usage_table, &usage, &c), 0);
	CHECK_EQ(((struct usage_row *)c.rows.data)->runs_count, 3);
}

TEST(a_second_store_is_refused)
{
	OPEN(h);
	char why[64];

	(void)snprintf(why, sizeof(why), "is in use by process %d", (int)getpid());
	check_refused(h, -EBUSY, why);
	harness_close(h);
	harness_open(h);
}

TEST(somebody_may_look_into_the_file_meanwhile)
{
	OPEN(h);
	struct run_row row = harness_run("r");
	sqlite3_stmt *s = NULL;

	CHECK_EQ(harness_put(h, &run_table, &row), 0);
	sqlite3 *db = look(h);
	CHECK_EQ(sqlite3_prepare_v2(db, "SELECT id FROM sandbox_runs", -1, &s, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_step(s), SQLITE_ROW);
	CHECK_STR((const char *)sqlite3_column_text(s, 0), "r");
	/* A reader does not hold up a writer. */
	row.id = T("q");
	CHECK_EQ(harness_put(h, &run_table, &row), 0);
	CHECK_EQ(sqlite3_finalize(s), SQLITE_OK);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(files_that_are_not_ours_are_refused)
{
	static const struct {
		const char *sql;
		int r;
		const char *why;
	} cases[] = {
		{ "PRAGMA user_version = 99", -ENOTSUP, "newer program" },
		{ "PRAGMA user_version = -1", -ENOTSUP, "newer program" },
		{ "PRAGMA application_id = 5", -EINVAL, "another program" },
		{ "PRAGMA application_id = 0", -EINVAL, "another program" },
		{ "ALTER TABLE sandbox_runs DROP COLUMN message", -EINVAL, "message" },
		{ "DROP TABLE sandbox_usage", -EINVAL, "sandbox_usage" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		OPEN(h);
		harness_close(h);
		execute(h, cases[i].sql);
		check_refused(h, cases[i].r, cases[i].why);
	}
}

TEST(what_is_no_database_is_refused)
{
	OPEN(h);

	harness_close(h);
	scratch_write(h->dir.fd, "store.db", "This is a text, and rather a long one at that.\n");
	check_refused(h, -EUCLEAN, "not a database");
	(void)snprintf(h->url, sizeof(h->url), "sqlite:%s/no/store.db", h->dir.path);
	check_refused(h, -ENOENT, "no/store.db");
	(void)snprintf(h->url, sizeof(h->url), "sqlite:%s", h->dir.path);
	check_refused(h, -EISDIR, h->dir.path);
	(void)snprintf(h->url, sizeof(h->url), "sqlite:");
	check_refused(h, -EINVAL, "path");
}

TEST(nobody_else_may_read_the_files)
{
	static const char *const names[] = { "store.db", "store.db-wal", "store.db-lock" };
	OPEN(h);
	struct run_row row = harness_run("r");
	struct stat st;

	CHECK_EQ(harness_put(h, &run_table, &row), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		CHECK_EQ(fstatat(h->dir.fd, names[i], &st, 0), 0);
		CHECK_EQ(st.st_mode & 07777, 0600);
	}
}

static void limit_files(rlim_t size)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void commit_runs(struct harness *h, struct answer *answers, int n, int from)
{
	char id[16];

	for (int i = 0; i < n; i++) {
		struct store_batch *b = store_batch_new(h->store);
		(void)snprintf(id, sizeof(id), "%d", from + i);
		struct run_row row = harness_run(id);
		store_batch_insert(b, &run_table, &row);
		store_commit(b, on_done, &answers[i]);
	}
	(void)uv_run(&h->loop, UV_RUN_DEFAULT);
}

TEST(a_disk_that_refuses_fails_everybody_and_is_forgiven)
{
	enum { N = 20 };
	OPEN(h);
	struct answer bad[N] = { 0 };
	struct answer good[N] = { 0 };
	struct query q = { .table = &run_table, .count = true, .limit = 1 };
	struct stat st;
	ANSWER(a, &run_table);

	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK_EQ(fstatat(h->dir.fd, "store.db-wal", &st, 0), 0);
	limit_files((rlim_t)st.st_size);
	commit_runs(h, bad, N, 0);
	limit_files(RLIM_INFINITY);
	for (int i = 0; i < N; i++)
		CHECK_EQ(bad[i].r, -EIO);
	CHECK_EQ(store_health(h->store), -EIO);
	commit_runs(h, good, N, 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(good[i].r, 0);
	CHECK_EQ(store_health(h->store), 0);
	CHECK_EQ(harness_list(h, &q, &a), 0);
	CHECK_EQ(a.total, N);
}

static off_t file_size(const struct harness *h, const char *name)
{
	struct stat st;

	CHECK_EQ(fstatat(h->dir.fd, name, &st, 0), 0);
	return st.st_size;
}

TEST(the_log_moves_into_the_file_in_a_pause)
{
	enum { N = 500 };
	OPEN(h);
	struct answer answers[N] = { 0 };
	off_t before = file_size(h, "store.db");

	for (int i = 0; i < N; i += 10)
		commit_runs(h, answers + i, 10, i);
	for (int i = 0; i < 100 && file_size(h, "store.db") == before; i++)
		usleep(50000);
	CHECK(file_size(h, "store.db") > before);
}

TEST(the_log_does_not_grow_without_end)
{
	OPEN(h);
	AUTO_FREE char *text = malloc(1 << 20);

	memset(text, 'x', (1 << 20) - 1);
	text[(1 << 20) - 1] = '\0';
	for (int i = 0; i < 60; i++) {
		struct run_row row = harness_run("r");
		text[0] = (char)('a' + i % 26);
		row.request = text;
		CHECK_EQ(harness_put(h, &run_table, &row), 0);
	}
	CHECK(file_size(h, "store.db-wal") < 24 << 20);
}

static bool file_holds(const struct harness *h, const char *name, const char *text)
{
	AUTO_FD fd = openat(h->dir.fd, name, O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *bytes = NULL;
	size_t size = 0;

	CHECK(fd >= 0);
	CHECK_EQ(fd_read_all(fd, 64 << 20, &bytes, &size), 0);
	return memmem(bytes, size, text, strlen(text));
}

static bool store_holds(const struct harness *h, const char *text)
{
	return file_holds(h, "store.db", text) || file_holds(h, "store.db-wal", text);
}

/* A short one lies within its page, a long one on pages of its own. */
TEST(after_a_rest_nothing_is_left_of_what_a_row_held)
{
	OPEN(h);
	AUTO_FREE char *text = malloc(20001);
	struct run_row short_row = harness_run("a");
	struct run_row long_row = harness_run("b");

	memset(text, 'x', 20000);
	memcpy(text + 20000 - 8, "LONGMARK", 9);
	short_row.request = (char *)"SHORTMARK";
	long_row.request = text;
	CHECK_EQ(harness_put(h, &run_table, &short_row), 0);
	CHECK_EQ(harness_put(h, &run_table, &long_row), 0);
	CHECK(store_holds(h, "SHORTMARK") && store_holds(h, "LONGMARK"));
	short_row.request = long_row.request = NULL;
	CHECK_EQ(harness_put(h, &run_table, &short_row), 0);
	CHECK_EQ(harness_put(h, &run_table, &long_row), 0);
	for (int i = 0; i < 200 && file_size(h, "store.db-wal") > 0; i++)
		usleep(50000);
	CHECK(!store_holds(h, "SHORTMARK") && !store_holds(h, "LONGMARK"));
}

TEST(full_sync_writes_as_well)
{
	OPEN(h);
	struct run_row row = harness_run("r");

	harness_close(h);
	CHECK_EQ(store_open(&h->loop, h->url, true, &h->store, NULL), 0);
	CHECK_EQ(harness_put(h, &run_table, &row), 0);
}

static struct store_batch *batch_of(const struct harness *h, const char *id)
{
	struct run_row row = harness_run(id);
	struct store_batch *b = store_batch_new(h->store);

	store_batch_put(b, &run_table, &row);
	return b;
}

static void count_done(void *ctx, int r)
{
	CHECK_EQ(r, 0);
	++*(int *)ctx;
}

TEST(who_is_patient_is_served_too)
{
	OPEN(h);
	int n_done = 0;
	uint64_t since = clock_monotonic_ns();

	store_commit_patiently(batch_of(h, "alone"), count_done, &n_done);
	while (n_done == 0)
		(void)uv_run(&h->loop, UV_RUN_ONCE);
	CHECK(clock_monotonic_ns() - since >= STORE_PATIENCE_MS * UINT64_C(1000000));
	/* With company nobody waits; and the order holds. */
	struct run_row row = harness_run("first");
	ANSWER(a, &run_table);
	store_commit_patiently(batch_of(h, "first"), count_done, &n_done);
	CHECK_EQ(harness_get(h, &run_table, &row, &a), 0);
	CHECK_EQ(n_done, 2);
	/* Who leaves takes nothing along. */
	store_commit_patiently(batch_of(h, "last"), count_done, &n_done);
	harness_close(h);
	CHECK_EQ(n_done, 3);
}

TEST(no_descriptor_is_left)
{
	uv_loop_t loop;

	/* What libuv and SQLite open once and keep is open after the first round. */
	for (size_t i = 0, before = 0; i < 3; i++) {
		harness_free(harness_new("sqlite:@/store.db"));
		CHECK_EQ(uv_loop_init(&loop), 0);
		CHECK(store_open(&loop, "sqlite:/nowhere/x", false, NULL, NULL) < 0);
		CHECK(store_open(&loop, "sqlite:/dev/null", false, NULL, NULL) < 0);
		(void)uv_run(&loop, UV_RUN_DEFAULT);
		CHECK_EQ(uv_loop_close(&loop), 0);
		if (i > 0)
			CHECK_EQ(scratch_count_fds(), before);
		before = scratch_count_fds();
	}
}

TESTS(UNIT(rows_outlive_the_store), UNIT(a_second_store_is_refused),
	UNIT(somebody_may_look_into_the_file_meanwhile), UNIT(files_that_are_not_ours_are_refused),
	UNIT(what_is_no_database_is_refused), UNIT(nobody_else_may_read_the_files),
	UNIT(a_disk_that_refuses_fails_everybody_and_is_forgiven),
	UNIT(the_log_moves_into_the_file_in_a_pause), UNIT(the_log_does_not_grow_without_end),
	UNIT(after_a_rest_nothing_is_left_of_what_a_row_held), UNIT(full_sync_writes_as_well),
	UNIT(who_is_patient_is_served_too), UNIT(no_descriptor_is_left))
