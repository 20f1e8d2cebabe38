/* The schema of a database file, for the sqlite store: made from the descriptions of the
 * tables, and brought up to date by steps. PRAGMA user_version says how many steps a file has
 * seen; a fresh one gets the tables as they are described now and counts as having seen all. */
#pragma once
#include <stddef.h>

struct err;
struct sqlite3;

/* Brings a file from the version that is its place in the array to the next one; 0 or an
 * SQLite result. */
typedef int migrate_step(struct sqlite3 *db);

/* The steps of this program, the first of which makes the tables. */
extern migrate_step *const migrate_steps[];
extern const size_t migrate_n_steps;

/* Take the steps that are missing, all or none. 0, or a negative errno with a sentence:
 * -EINVAL for a file that is not ours, -ENOTSUP for one that a newer program has written. */
int migrate_run(struct sqlite3 *db, migrate_step *const *steps, size_t n_steps, struct err *err);

/* 0, or -EINVAL with the name of what is missing, when a table or a column is not there. */
int migrate_check(struct sqlite3 *db, struct err *err);
