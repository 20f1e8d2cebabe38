#include "store/migrate.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"

static sqlite3 *open_empty(void)
{
	sqlite3 *db = NULL;

	CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
	return db;
}

static int read_number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *s = NULL;

	CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	CHECK_EQ(sqlite3_step(s), SQLITE_ROW);
	int n = sqlite3_column_int(s, 0);
	CHECK_EQ(sqlite3_finalize(s), SQLITE_OK);
	return n;
}

static int version(sqlite3 *db)
{
	return read_number(db, "PRAGMA user_version");
}

static int make_t(sqlite3 *db)
{
	return sqlite3_exec(db, "CREATE TABLE t (a, b, c)", NULL, NULL, NULL);
}

static int make_old_t(sqlite3 *db)
{
	return sqlite3_exec(db, "CREATE TABLE t (a)", NULL, NULL, NULL);
}

static int add_b(sqlite3 *db)
{
	return sqlite3_exec(db, "ALTER TABLE t ADD COLUMN b", NULL, NULL, NULL);
}

static int add_c(sqlite3 *db)
{
	return sqlite3_exec(db, "ALTER TABLE t ADD COLUMN c", NULL, NULL, NULL);
}

static int break_down(sqlite3 *db)
{
	return sqlite3_exec(db, "ALTER TABLE no_such ADD COLUMN c", NULL, NULL, NULL);
}

static migrate_step *const old_steps[] = { make_old_t };
static migrate_step *const new_steps[] = { make_t, add_b, add_c };
static migrate_step *const bad_steps[] = { make_t, add_b, break_down };

#define COUNT_COLUMNS "SELECT count(*) FROM pragma_table_info('t')"

TEST(a_fresh_file_is_made_as_it_is_now)
{
	sqlite3 *db = open_empty();

	CHECK_EQ(migrate_run(db, new_steps, 3, NULL), 0);
	CHECK_EQ(version(db), 3);
	CHECK_EQ(read_number(db, COUNT_COLUMNS), 3);
	CHECK_EQ(migrate_run(db, new_steps, 3, NULL), 0);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(an_old_file_takes_the_steps_it_lacks)
{
	sqlite3 *db = open_empty();

	CHECK_EQ(migrate_run(db, old_steps, 1, NULL), 0);
	CHECK_EQ(version(db), 1);
	CHECK_EQ(migrate_run(db, new_steps, 3, NULL), 0);
	CHECK_EQ(version(db), 3);
	CHECK_EQ(read_number(db, COUNT_COLUMNS), 3);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(a_failing_step_takes_all_back)
{
	sqlite3 *db = open_empty();
	struct err err = { 0 };

	CHECK_EQ(migrate_run(db, old_steps, 1, NULL), 0);
	CHECK(migrate_run(db, bad_steps, 3, &err) < 0);
	CHECK(strstr(err.text, "no_such") != NULL);
	CHECK_EQ(version(db), 1);
	CHECK_EQ(read_number(db, COUNT_COLUMNS), 1);
	CHECK_EQ(migrate_run(db, new_steps, 3, NULL), 0);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(a_newer_file_is_refused)
{
	sqlite3 *db = open_empty();
	struct err err = { 0 };

	CHECK_EQ(migrate_run(db, new_steps, 3, NULL), 0);
	CHECK_EQ(migrate_run(db, new_steps, 2, &err), -ENOTSUP);
	CHECK(strstr(err.text, "its version is 3, we know 2") != NULL);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(the_database_of_somebody_else_is_left_alone)
{
	sqlite3 *db = open_empty();
	struct err err = { 0 };

	CHECK_EQ(make_t(db), SQLITE_OK);
	CHECK_EQ(migrate_run(db, migrate_steps, migrate_n_steps, &err), -EINVAL);
	CHECK(strstr(err.text, "another program") != NULL);
	CHECK_EQ(read_number(db, "SELECT count(*) FROM sqlite_master"), 1);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TEST(our_own_steps_make_what_is_described)
{
	sqlite3 *db = open_empty();

	CHECK_EQ(migrate_check(db, NULL), -EINVAL);
	CHECK_EQ(migrate_run(db, migrate_steps, migrate_n_steps, NULL), 0);
	CHECK_EQ(migrate_check(db, NULL), 0);
	CHECK_EQ(version(db), (int)migrate_n_steps);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

/* As it was when the first version of it was written. */
static int make_version_1(sqlite3 *db)
{
	int code = migrate_steps[0](db);

	return code == SQLITE_OK
		       ? sqlite3_exec(db,
				 "ALTER TABLE sandbox_sessions DROP COLUMN name;"
				 "ALTER TABLE sandbox_sessions DROP COLUMN workspace_exec;"
				 "ALTER TABLE sandbox_runs DROP COLUMN workspace_exec;"
				 "ALTER TABLE sandbox_runs DROP COLUMN frames",
				 NULL, NULL, NULL)
		       : code;
}

TEST(sessions_of_a_first_version_have_no_name)
{
	static migrate_step *const first[] = { make_version_1 };
	sqlite3 *db = open_empty();

	CHECK_EQ(migrate_run(db, first, 1, NULL), 0);
	CHECK_EQ(sqlite3_exec(
			 db, "INSERT INTO sandbox_sessions (id) VALUES ('a')", NULL, NULL, NULL),
		SQLITE_OK);
	CHECK_EQ(migrate_check(db, NULL), -EINVAL);
	CHECK_EQ(migrate_run(db, migrate_steps, migrate_n_steps, NULL), 0);
	CHECK_EQ(migrate_check(db, NULL), 0);
	CHECK_EQ(read_number(db, "SELECT count(*) FROM sandbox_sessions WHERE name IS NULL"), 1);
	CHECK_EQ(sqlite3_close(db), SQLITE_OK);
}

TESTS(UNIT(sessions_of_a_first_version_have_no_name), UNIT(a_fresh_file_is_made_as_it_is_now),
	UNIT(an_old_file_takes_the_steps_it_lacks), UNIT(a_failing_step_takes_all_back),
	UNIT(a_newer_file_is_refused), UNIT(the_database_of_somebody_else_is_left_alone),
	UNIT(our_own_steps_make_what_is_described))
