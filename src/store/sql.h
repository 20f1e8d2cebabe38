/* SQL text from the descriptions of tables. Values are never in it: each stands as a `?`, in
 * the order in which store_sqlite*.c binds them. The caller frees what is returned. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "store/selection.h"
#include "store/store.h"

char *sql_create_table(const struct table *t);
char *sql_create_index(const struct table *t, const struct table_index *index);

/* Takes the key; gives all columns. */
char *sql_get(const struct table *t);

/* Takes all columns. */
char *sql_insert(const struct table *t);

/* Takes the columns of which the bit is set in `columns`, then the key. */
char *sql_update(const struct table *t, uint64_t columns);

/* Takes the key. */
char *sql_delete(const struct table *t);

/* Takes the key, the value for a new row, the value above which the sum would overflow, and
 * what is to be added. */
char *sql_add(const struct table *t, const struct column *column);

/* Take what the conditions compare with: for each, and each of its columns, the text or
 * number, or every item of the list. Then sql_list() takes a limit (-1: none) and an offset,
 * and sql_sum() a limit. */
char *sql_list(const struct listing *l);
char *sql_count(const struct selection *s);
char *sql_sum(const struct summing *s);
