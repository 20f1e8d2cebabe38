/* Statements and errors; opening and failing is in store_sqlite_test.c. */
#include "store/database.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>

#include "base/err.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store/record.h"

static struct database *open_in(const struct scratch *dir)
{
	struct database *d = NULL;
	struct err err = { 0 };
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/x.db", dir->path);
	if (database_open(path, false, &d, &err) < 0)
		fail_msg("%s", err.text);
	return d;
}

TEST(a_statement_is_prepared_once)
{
	SCRATCH(dir);
	CLEANUP(database_closep) struct database *d = open_in(&dir);
	sqlite3_stmt *get = database_find(d, &run_table, STATEMENT_GET, 0);

	CHECK(get != NULL);
	CHECK(database_find(d, &run_table, STATEMENT_GET, 0) == get);
	CHECK(database_find(d, &usage_table, STATEMENT_GET, 0) != get);
	CHECK(database_find(d, &run_table, STATEMENT_DELETE, 0) != get);
	CHECK(database_find(d, &run_table, STATEMENT_ADD, 1u << 30) !=
		database_find(d, &run_table, STATEMENT_ADD, 1u << 31));
}

/* One that is in use all the time stays, whatever else comes by. */
TEST(statements_that_are_not_used_make_room)
{
	SCRATCH(dir);
	CLEANUP(database_closep) struct database *d = open_in(&dir);
	sqlite3_stmt *get = database_find(d, &run_table, STATEMENT_GET, 0);

	for (uint64_t i = 1; i < 500; i++) {
		CHECK(database_find(d, &run_table, STATEMENT_UPDATE, i << 1) != NULL);
		CHECK(database_find(d, &run_table, STATEMENT_GET, 0) == get);
	}
}

TEST(a_table_that_is_not_there_has_no_statement)
{
	SCRATCH(dir);
	CLEANUP(database_closep) struct database *d = open_in(&dir);
	struct table unknown = run_table;

	unknown.name = "nowhere";
	CHECK(database_find(d, &unknown, STATEMENT_GET, 0) == NULL);
}

TEST(a_transaction_has_savepoints)
{
	SCRATCH(dir);
	CLEANUP(database_closep) struct database *d = open_in(&dir);
	sqlite3 *db = database_handle(d);

	CHECK_EQ(database_step(d, DATABASE_BEGIN), 0);
	CHECK(database_is_in_transaction(d));
	CHECK_EQ(database_step(d, DATABASE_SAVE), 0);
	CHECK_EQ(sqlite3_exec(db, "INSERT INTO sandbox_usage (user_id) VALUES ('kept')", NULL, NULL,
			 NULL),
		SQLITE_OK);
	CHECK_EQ(database_step(d, DATABASE_RELEASE), 0);
	CHECK_EQ(database_step(d, DATABASE_SAVE), 0);
	CHECK_EQ(sqlite3_exec(db, "INSERT INTO sandbox_usage (user_id) VALUES ('lost')", NULL, NULL,
			 NULL),
		SQLITE_OK);
	CHECK_EQ(database_step(d, DATABASE_UNDO), 0);
	CHECK_EQ(database_step(d, DATABASE_COMMIT), 0);
	CHECK(!database_is_in_transaction(d));
	CHECK_EQ(sqlite3_exec(db, "UPDATE sandbox_usage SET log_bytes = 1", NULL, NULL, NULL),
		SQLITE_OK);
	CHECK_EQ(sqlite3_changes(db), 1);
	CHECK(database_step(d, DATABASE_COMMIT) < 0);
}

TEST(a_checkpoint_empties_the_log)
{
	SCRATCH(dir);
	CLEANUP(database_closep) struct database *d = open_in(&dir);

	CHECK(database_log_pages(d) > 0);
	database_checkpoint(d);
	CHECK_EQ(database_log_pages(d), 0);
}

TEST(results_have_an_errno)
{
	static const struct {
		int code;
		int r;
	} codes[] = {
		{ SQLITE_FULL, -ENOSPC },
		{ SQLITE_IOERR_WRITE, -EIO },
		{ SQLITE_CANTOPEN_ISDIR, -EIO }, /* -ENOENT would say that a row is missing */
		{ SQLITE_CONSTRAINT_PRIMARYKEY, -EEXIST },
		{ SQLITE_CONSTRAINT_NOTNULL, -EINVAL },
		{ SQLITE_TOOBIG, -E2BIG },
		{ SQLITE_BUSY_SNAPSHOT, -EBUSY },
		{ SQLITE_CORRUPT_INDEX, -EUCLEAN },
		{ SQLITE_ERROR, -EIO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		CHECK_EQ(database_errno(codes[i].code), codes[i].r);
}

TESTS(UNIT(a_statement_is_prepared_once), UNIT(statements_that_are_not_used_make_room),
	UNIT(a_table_that_is_not_there_has_no_statement), UNIT(a_transaction_has_savepoints),
	UNIT(a_checkpoint_empties_the_log), UNIT(results_have_an_errno))
