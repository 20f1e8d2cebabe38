#include "api/admin.h"

#include "api/api.h"
#include "api/fields.h"
#include "api/page.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/date.h"
#include "base/str.h"
#include "core/metrics.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"
#include "store/record.h"

#define NS_PER_SEC UINT64_C(1000000000)

static const char *get_parameter(void *x, const char *name)
{
	return exchange_query(x, name);
}

int admin_read_filters(struct exchange *x, const struct filters_table *table, struct filters *ret)
{
	const char *names[FILTERS_NAMES_MAX + 1];
	struct problem problem = { 0 };

	filters_list_names(table, names);
	if (fields_check_parameters(x, names) < 0)
		return -1;
	if (filters_read(table, get_parameter, x, ret, &problem) == 0)
		return 0;
	problem.place = PROBLEM_IN_QUERY;
	reply_problem(x, &problem);
	problem_fini(&problem);
	return -1;
}

void admin_refuse(struct exchange *x)
{
	reply_refusal(x, "store_unavailable", "the store could not be asked");
}

/* --- lists --- */

struct admin_listing {
	struct exchange *x;
	struct page page;
	size_t row_size;
	admin_row_fn *row_json;
};

static void on_rows(void *ctx, int r, const void *rows, size_t n, uint64_t total)
{
	AUTO_FREE struct admin_listing *l = ctx;

	if (r < 0) {
		admin_refuse(l->x);
		return;
	}
	json_t *items = json_array();
	for (size_t i = 0; i < n; i++) {
		const void *row = (const char *)rows + i * l->row_size;
		(void)json_array_append_new(items, l->row_json(l->x, row));
	}
	reply_json(l->x, 200, page_json(&l->page, total, items));
}

void admin_list(struct exchange *x, const struct filters_table *table, admin_row_fn *row_json)
{
	struct filters f;
	struct page page;

	if (page_read(x, &page) < 0 || admin_read_filters(x, table, &f) < 0)
		return;
	struct admin_listing *l = xnew(struct admin_listing);
	*l = (struct admin_listing){ x, page, table->table->row_size, row_json };
	f.query.limit = page.limit;
	f.query.offset = page.offset;
	run_store_noted(api_of(x)->service);
	store_list(api_of(x)->service->store, &f.query, on_rows, l);
}

/* --- idempotency keys --- */

static const char *const endpoints[] = { "runs", "sessions", "any", NULL };

static const struct filters_row idempotency_filters[] = {
	{ "endpoint", "endpoint", FILTER_EQ, FILTERS_WORD, endpoints },
	{ "user_id", "user_key", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "key", "key", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "created_at_from", "created_at", FILTER_GE, FILTERS_SECOND, NULL },
	{ "created_at_to", "created_at", FILTER_LE, FILTERS_SECOND, NULL },
	{ 0 },
};

static const struct filters_table idempotency_list = {
	&idempotency_table,
	idempotency_filters,
	(const char *const[]){ "created_at", NULL },
};

static json_t *idempotency_json(struct exchange *x, const void *data)
{
	const struct idempotency_row *row = data;
	char created[DATE_SIZE + 1];

	(void)x;
	date_format((uint64_t)row->created_at * NS_PER_SEC, created);
	return json_pack("{s:s,s:s,s:s,s:s?,s:s?,s:s}", "endpoint", row->endpoint, "user_id",
		row->user_key, "key", row->key, "fingerprint", row->fingerprint, "object_id",
		row->object_id, "created_at", created);
}

static void handle_idempotency(struct exchange *x)
{
	admin_list(x, &idempotency_list, idempotency_json);
}

/* --- what users have used --- */

static const struct filters_row usage_filters[] = {
	{ "user_id", "user_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ 0 },
};

static const struct filters_table usage_list = {
	&usage_table,
	usage_filters,
	(const char *const[]){ "artifact_bytes", "log_bytes", "runs_count", "user_id", NULL },
};

static json_t *usage_json(struct exchange *x, const void *data)
{
	const struct usage_row *row = data;

	(void)x;
	return json_pack("{s:s,s:I,s:I,s:I}", "user_id", row->user_id, "runs_count",
		(json_int_t)row->runs_count, "log_bytes", (json_int_t)row->log_bytes,
		"artifact_bytes", (json_int_t)row->artifact_bytes);
}

static void handle_usage(struct exchange *x)
{
	admin_list(x, &usage_list, usage_json);
}

/* --- the rest --- */

static void handle_metrics(struct exchange *x)
{
	reply_json(x, 200, metrics_json(api_of(x)->service->metrics));
}

static void on_swept(void *ctx, int r, json_t *counts)
{
	struct exchange *x = ctx;

	if (r < 0) {
		json_decref(counts);
		reply_refusal(x, "internal_error", "the sweep failed; the log says why");
		return;
	}
	reply_json(x, 200, json_pack("{s:b,s:o}", "ok", 1, "removed", counts));
}

static void handle_gc(struct exchange *x)
{
	service_sweep(api_of(x)->service, on_swept, x);
}

#define ADMIN API_BASE "/admin"

const struct route routes_admin[] = {
	{ "GET", ADMIN "/runs", ACCESS_ADMIN, BODY_NONE, 0, admin_handle_runs },
	{ "GET", ADMIN "/runs/{id}", ACCESS_ADMIN, BODY_NONE, 0, admin_handle_run, "" },
	{ "GET", ADMIN "/idempotency", ACCESS_ADMIN, BODY_NONE, 0, handle_idempotency },
	{ "GET", ADMIN "/usage", ACCESS_ADMIN, BODY_NONE, 0, handle_usage },
	{ "GET", ADMIN "/usage/summary", ACCESS_ADMIN, BODY_NONE, 0, admin_handle_summary },
	{ "GET", ADMIN "/metrics", ACCESS_ADMIN, BODY_NONE, 0, handle_metrics, "" },
	{ "POST", ADMIN "/gc", ACCESS_ADMIN, BODY_NONE, 0, handle_gc, "" },
	{ 0 },
};
