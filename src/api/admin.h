/* /admin: what only an admin may see, one file for each of its parts; admin.c has the table
 * of routes. Lists are queries of the store; what lives may be a moment ahead of it, so a live
 * run is shown as it is. */
#pragma once
#include <jansson.h>

#include "api/filters.h"

struct exchange;

/* How a row of a list looks. */
typedef json_t *admin_row_fn(struct exchange *x, const void *row);

/* Answer with a page of `table`, later, or with a 422 now. */
void admin_list(struct exchange *x, const struct filters_table *table, admin_row_fn *row_json);

/* The filters of the request; on failure it has answered. */
int admin_read_filters(struct exchange *x, const struct filters_table *table, struct filters *ret);

/* The store could not answer. */
void admin_refuse(struct exchange *x);

/* Handlers of other files, see the table. */
void admin_handle_runs(struct exchange *x);
void admin_handle_run(struct exchange *x);
void admin_handle_summary(struct exchange *x);
