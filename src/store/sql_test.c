/* The texts, and what SQLite makes of them: a listing of many runs must not scan them all. */
#include "store/sql.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "store/migrate.h"
#include "store/record.h"
#include "store/row.h"

static void check_text(char *sql, const char *expected)
{
	AUTO_FREE char *text = sql;

	CHECK_STR(text, expected);
}

TEST(statements_are_made_of_the_description)
{
	const struct table *t = &daily_table;
	const struct table_index sparse = { "i", "day, user_id", true };

	check_text(sql_create_table(t),
		"CREATE TABLE sandbox_usage_daily (user_id TEXT NOT NULL, day TEXT NOT NULL, "
		"cpu_us INTEGER, artifact_bytes INTEGER, runs_count INTEGER, "
		"PRIMARY KEY (user_id, day))");
	check_text(sql_create_index(t, &sparse),
		"CREATE INDEX i ON sandbox_usage_daily (day, user_id) WHERE day IS NOT NULL");
	check_text(sql_get(t),
		"SELECT user_id, day, cpu_us, artifact_bytes, runs_count FROM sandbox_usage_daily "
		"WHERE user_id = ? AND day = ?");
	check_text(sql_update(t, 1u << 2 | 1u << 4),
		"UPDATE sandbox_usage_daily SET cpu_us = ?, runs_count = ? "
		"WHERE user_id = ? AND day = ?");
	check_text(sql_delete(t), "DELETE FROM sandbox_usage_daily WHERE user_id = ? AND day = ?");
}

TEST(values_are_never_in_the_text)
{
	struct query q = {
		.table = &run_table,
		.filters = {
			{ "user_id", FILTER_EQ, "secret", 0 },
			{ "log_bytes", FILTER_GE, NULL, 4711 },
			{ "phase", FILTER_IN, "secret,secret", 0 },
			{ "message|base_image", FILTER_CONTAINS, "secret", 0 },
		},
		.n_filters = 4,
		.limit = 4711,
		.offset = 4711,
	};
	struct listing l;

	CHECK_EQ(listing_init(&l, &q), 0);
	AUTO_FREE char *sql = sql_list(&l);
	CHECK(strstr(sql, "secret") == NULL);
	CHECK(strstr(sql, "4711") == NULL);
	CHECK(strstr(sql, " WHERE (user_id = ?) AND (log_bytes >= ?) AND (phase IN (?, ?)) AND "
			  "(instr(lower(message), ?) > 0 OR instr(lower(base_image), ?) > 0) "
			  "ORDER BY id LIMIT ? OFFSET ?") != NULL);
	listing_fini(&l);
}

static sqlite3 *open_empty(void)
{
	sqlite3 *db = NULL;

	CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
	CHECK_EQ(migrate_run(db, migrate_steps, migrate_n_steps, NULL), 0);
	return db;
}

/* The lines of EXPLAIN QUERY PLAN, one after the other. */
static void explain(sqlite3 *db, const char *sql, char *buf, size_t size)
{
	char text[8192];
	sqlite3_stmt *s = NULL;
	size_t used = 0;

	(void)snprintf(text, sizeof(text), "EXPLAIN QUERY PLAN %s", sql);
	CHECK_EQ(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
	buf[0] = '\0';
	while (sqlite3_step(s) == SQLITE_ROW && used < size)
		used += (size_t)snprintf(
			buf + used, size - used, "%s; ", sqlite3_column_text(s, 3));
	CHECK_EQ(sqlite3_finalize(s), SQLITE_OK);
}

static void check_plan(sqlite3 *db, struct query q, const char *index)
{
	struct listing l;
	char plan[512];

	q.limit = 50;
	CHECK_EQ(listing_init(&l, &q), 0);
	AUTO_FREE char *sql = sql_list(&l);
	explain(db, sql, plan, sizeof(plan));
	if (!strstr(plan, index) || strstr(plan, "TEMP B-TREE"))
		fail_msg("not by %s alone: %s", index, plan);
	/* A scan is fine only along an index, in the order asked for. */
	if (strstr(plan, "SCAN") && !strstr(plan, "SCAN sandbox_runs USING INDEX"))
		fail_msg("a full scan: %s", plan);
	listing_fini(&l);
}

static const struct {
	const char *sort;
	struct filter filters[2];
	const char *index;
} run_plans[] = {
	{ "started_at", { { 0 } }, "idx_runs_started_at" },
	{ "finished_at", { { 0 } }, "idx_runs_finished_at" },
	{ "started_at", { { "started_at", FILTER_GE, "2026", 0 } }, "idx_runs_started_at" },
	{ "finished_at", { { "finished_at", FILTER_LE, "2026", 0 } }, "idx_runs_finished_at" },
	{ "started_at", { { "user_id", FILTER_EQ, "u", 0 } }, "idx_runs_user_started_at" },
	{ "finished_at", { { "user_id", FILTER_EQ, "u", 0 } }, "idx_runs_user_finished_at" },
	{ "started_at", { { "phase", FILTER_EQ, "failed", 0 } }, "idx_runs_phase" },
	{ "started_at", { { "runtime", FILTER_EQ, "native", 0 } }, "idx_runs_runtime" },
	{ "started_at", { { "base_image", FILTER_EQ, "x", 0 } }, "idx_runs_base_image" },
	{ "started_at", { { "image_digest", FILTER_EQ, "x", 0 } }, "idx_runs_image_digest" },
	{ "started_at", { { "session_id", FILTER_EQ, "x", 0 } }, "idx_runs_session_started_at" },
	{ "started_at", { { "user_id", FILTER_EQ, "u", 0 }, { "phase", FILTER_EQ, "failed", 0 } },
		"idx_runs_user_phase" },
	{ "expires_sec", { { "expires_sec", FILTER_LE, NULL, 9 } }, "idx_runs_expires_sec" },
};

TEST(listings_of_runs_walk_an_index)
{
	sqlite3 *db = open_empty();

	for (size_t i = 0; i < ARRAY_SIZE(run_plans); i++) {
		struct query q = { .table = &run_table, .sort = run_plans[i].sort };
		for (; q.n_filters < 2 && run_plans[i].filters[q.n_filters].column; q.n_filters++)
			q.filters[q.n_filters] = run_plans[i].filters[q.n_filters];
		q.descending = true;
		check_plan(db, q, run_plans[i].index);
		q.descending = false;
		check_plan(db, q, run_plans[i].index);
	}
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(other_listings_walk_an_index)
{
	static const struct {
		const struct table *table;
		const char *sort;
		struct filter filter;
		const char *index;
	} plans[] = {
		{ &session_table, "created_at", { "user_id", FILTER_EQ, "u", 0 },
			"idx_sessions_user_created_at" },
		{ &session_table, "expires_sec", { "expires_sec", FILTER_LE, NULL, 9 },
			"idx_sessions_expires_sec" },
		{ &idempotency_table, "created_at", { "created_at", FILTER_LE, NULL, 9 },
			"idx_idem_created_at" },
		{ &idempotency_table, "created_at", { "user_key", FILTER_EQ, "u", 0 },
			"idx_idem_user_key" },
		{ &usage_table, "artifact_bytes", { "artifact_bytes", FILTER_GE, NULL, 0 },
			"idx_usage_artifact_bytes" },
		{ &snapshot_table, NULL, { "session_id", FILTER_EQ, "s", 0 }, "autoindex" },
		{ &daily_table, "day", { "user_id", FILTER_EQ, "u", 0 }, "autoindex" },
	};
	sqlite3 *db = open_empty();

	for (size_t i = 0; i < ARRAY_SIZE(plans); i++) {
		struct query q = { .table = plans[i].table, .sort = plans[i].sort };
		q.filters[0] = plans[i].filter;
		q.n_filters = 1;
		check_plan(db, q, plans[i].index);
	}
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(counting_looks_into_an_index_alone)
{
	static const char *const columns[] = { "user_id", "phase", "runtime", "base_image" };
	sqlite3 *db = open_empty();

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		struct query q = { .table = &run_table, .n_filters = 1 };
		struct listing l;
		char plan[512];
		q.filters[0] = (struct filter){ columns[i], FILTER_EQ, "x", 0 };
		CHECK_EQ(listing_init(&l, &q), 0);
		AUTO_FREE char *sql = sql_count(&l.selection);
		explain(db, sql, plan, sizeof(plan));
		CHECK(strstr(plan, "USING COVERING INDEX") != NULL);
		listing_fini(&l);
	}
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TESTS(UNIT(statements_are_made_of_the_description), UNIT(values_are_never_in_the_text),
	UNIT(listings_of_runs_walk_an_index), UNIT(other_listings_walk_an_index),
	UNIT(counting_looks_into_an_index_alone))
