#include "store/migrate.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/database.h"
#include "store/record.h"
#include "store/sql.h"

/* "Bell": how a file of ours is told from any other database. */
#define APPLICATION_ID 0x42656c6c

static int execute(sqlite3 *db, char *sql)
{
	AUTO_FREE char *text = sql;

	return sqlite3_exec(db, text, NULL, NULL, NULL);
}

static int create_table(sqlite3 *db, const struct table *t)
{
	int code = execute(db, sql_create_table(t));

	for (size_t i = 0; i < t->n_indexes && code == SQLITE_OK; i++)
		code = execute(db, sql_create_index(t, &t->indexes[i]));
	return code;
}

static int create_tables(sqlite3 *db)
{
	int code = SQLITE_OK;

	for (size_t i = 0; tables[i] && code == SQLITE_OK; i++)
		code = create_table(db, tables[i]);
	return code;
}

static int add_session_name(sqlite3 *db)
{
	return sqlite3_exec(
		db, "ALTER TABLE sandbox_sessions ADD COLUMN name TEXT", NULL, NULL, NULL);
}

static int add_run_frames(sqlite3 *db)
{
	return sqlite3_exec(
		db, "ALTER TABLE sandbox_runs ADD COLUMN frames TEXT", NULL, NULL, NULL);
}

static int add_workspace_exec(sqlite3 *db)
{
	return sqlite3_exec(db,
		"ALTER TABLE sandbox_sessions ADD COLUMN workspace_exec INTEGER;"
		"ALTER TABLE sandbox_runs ADD COLUMN workspace_exec INTEGER",
		NULL, NULL, NULL);
}

migrate_step *const migrate_steps[] = {
	create_tables,
	add_session_name,
	add_run_frames,
	add_workspace_exec,
};
const size_t migrate_n_steps = ARRAY_SIZE(migrate_steps);

static int fail(sqlite3 *db, int code, const char *what, struct err *err)
{
	return err_set(err, database_errno(code), "cannot %s: %s", what, sqlite3_errmsg(db));
}

static int read_number(sqlite3 *db, const char *sql, int64_t *ret, struct err *err)
{
	sqlite3_stmt *statement = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (code == SQLITE_ROW)
		*ret = sqlite3_column_int64(statement, 0);
	int r = code == SQLITE_ROW ? 0 : fail(db, code, "read the schema", err);
	(void)sqlite3_finalize(statement);
	return r;
}

static int write_version(sqlite3 *db, size_t version)
{
	char sql[96];

	(void)snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %zu",
		APPLICATION_ID, version);
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* A fresh file takes the first step alone, which makes everything as it is now. */
static int take_steps(sqlite3 *db, migrate_step *const *steps, size_t from, size_t n_steps)
{
	size_t end = from == 0 ? 1 : n_steps;
	int code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

	for (size_t i = from; i < end && code == SQLITE_OK; i++)
		code = steps[i](db);
	if (code == SQLITE_OK)
		code = write_version(db, n_steps);
	if (code == SQLITE_OK)
		code = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	return code;
}

static int check_owner(sqlite3 *db, int64_t version, struct err *err)
{
	int64_t application = 0;
	int64_t n_tables = 0;
	int r = read_number(db, "PRAGMA application_id", &application, err);

	if (r == 0)
		r = read_number(db, "SELECT count(*) FROM sqlite_master", &n_tables, err);
	if (r < 0)
		return r;
	bool is_fresh = application == 0 && version == 0 && n_tables == 0;
	if (application != APPLICATION_ID && !is_fresh)
		return err_set(err, -EINVAL, "this is the database of another program");
	return 0;
}

int migrate_run(sqlite3 *db, migrate_step *const *steps, size_t n_steps, struct err *err)
{
	int64_t version = 0;
	int r = read_number(db, "PRAGMA user_version", &version, err);

	if (r == 0)
		r = check_owner(db, version, err);
	if (r < 0)
		return r;
	if (version < 0 || (uint64_t)version > n_steps)
		return err_set(err, -ENOTSUP,
			"it was written by a newer program: its version is %lld, we know %zu",
			(long long)version, n_steps);
	if ((size_t)version == n_steps)
		return 0;
	int code = take_steps(db, steps, (size_t)version, n_steps);
	if (code == SQLITE_OK)
		return 0;
	r = fail(db, code, "bring the schema up to date", err);
	(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}

int migrate_check(sqlite3 *db, struct err *err)
{
	for (size_t i = 0; tables[i]; i++) {
		AUTO_FREE char *sql = sql_get(tables[i]);
		sqlite3_stmt *statement = NULL;
		int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
		(void)sqlite3_finalize(statement);
		if (code != SQLITE_OK)
			return err_set(err, -EINVAL, "%s", sqlite3_errmsg(db));
	}
	return 0;
}
