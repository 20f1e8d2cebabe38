/* A connection to a database file, for the sqlite store: opened on one thread and from then
 * on used by its worker alone. Owns the lock that keeps other processes of ours out, and the
 * statements that are prepared once. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct err;
struct sqlite3;
struct sqlite3_stmt;
struct database;

/* Open and lock the file, make it (readable for us alone) and migrate it as needed. 0 with a
 * database that the caller must database_close(); -EBUSY when another process has it. */
int database_open(const char *path, bool full_sync, struct database **ret, struct err *err);
void database_close(struct database *d);

struct sqlite3 *database_handle(struct database *d);

/* The negative errno for a result of SQLite that is not SQLITE_OK, SQLITE_ROW or SQLITE_DONE. */
int database_errno(int code);

/* The same for the call that just failed, which is also logged for debugging. */
int database_failed(struct database *d, int code);

/* What a statement of a table does. */
enum statement_kind {
	STATEMENT_GET,
	STATEMENT_INSERT,
	STATEMENT_UPDATE, /* of the columns in `columns` */
	STATEMENT_DELETE,
	STATEMENT_ADD, /* to the column in `columns` */
};

/* A statement, reset, that is prepared already or now, and stays the database's. The columns
 * are bits. NULL when it can not be prepared. */
struct sqlite3_stmt *database_find(
	struct database *d, const struct table *t, enum statement_kind kind, uint64_t columns);

/* Step of a transaction. Each batch is between a savepoint and its release. */
enum database_step {
	DATABASE_BEGIN,
	DATABASE_COMMIT,
	DATABASE_ROLLBACK,
	DATABASE_SAVE,
	DATABASE_RELEASE,
	DATABASE_UNDO, /* to the savepoint, which is released too */
	DATABASE_STEPS,
};

/* 0 or a negative errno. */
int database_step(struct database *d, enum database_step step);

/* False when a failure has taken the whole transaction back. */
bool database_is_in_transaction(const struct database *d);

/* Pages that wait in the log to be moved into the file, and the moving of them. A reader
 * from outside may keep some; then they are tried again when there are more. */
size_t database_log_pages(const struct database *d);
void database_checkpoint(struct database *d);

/* Rows that were changed or deleted are still in the log's file, also after a checkpoint,
 * until others are written over them: is there anything, and move all that waits and empty the
 * file. Where a reader from outside is in the way, that is tried again after the next commit. */
bool database_log_is_used(const struct database *d);
void database_empty_log(struct database *d);

DEFINE_CLEANUP(struct database, database_close)
