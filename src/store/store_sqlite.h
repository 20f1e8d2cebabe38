/* For store_sqlite*.c only: operations on a database. All of this is on the worker. */
#pragma once
#include "store/database.h"
#include "store/operation.h"

struct sqlite3_stmt;

/* Execute the operations, of which all are commits, in one transaction, and set what came of
 * each. One that fails by its own fault does not take others along. */
void sqlite_write(struct database *d, const struct operations *commits);

/* Fill in the answer of an operation of this kind; 0 or a negative errno. */
int sqlite_get(struct database *d, struct operation *op);
int sqlite_list(struct database *d, struct operation *op);
int sqlite_sum(struct database *d, struct operation *op);

/* Bind what the row has in column `c` as the value with this number, the first being 1. The
 * row must stay until the statement is reset. 0 or an SQLite result. */
int sqlite_bind(struct sqlite3_stmt *s, int number, const struct column *c, const void *row);
int sqlite_bind_key(
	struct sqlite3_stmt *s, int first_number, const struct table *t, const void *row);
