/* /admin/runs: everybody's runs. */
#include "api/admin.h"
#include "api/api.h"
#include "api/links.h"
#include "api/reply.h"
#include "api/shelf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"

static const char *const phases[] = {
	"queued",
	"starting",
	"running",
	"completed",
	"failed",
	"timed_out",
	"killed",
	NULL,
};

static const struct filters_row run_filters[] = {
	{ "user_id", "user_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "phase", "phase", FILTER_EQ, FILTERS_WORD, phases },
	{ "runtime", "runtime", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "q", "base_image|message", FILTER_CONTAINS, FILTERS_TEXT, NULL },
	{ "image_digest", "image_digest", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "base_image", "base_image", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "session_id", "session_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "workspace_id", "workspace_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "workspace_group_id", "workspace_group_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "scope_snapshot_id", "scope_snapshot_id", FILTER_EQ, FILTERS_TEXT, NULL },
	{ "started_at_from", "started_at", FILTER_GE, FILTERS_STAMP, NULL },
	{ "started_at_to", "started_at", FILTER_LE, FILTERS_STAMP, NULL },
	{ "finished_at_from", "finished_at", FILTER_GE, FILTERS_STAMP, NULL },
	{ "finished_at_to", "finished_at", FILTER_LE, FILTERS_STAMP, NULL },
	{ 0 },
};

_Static_assert(ARRAY_SIZE(run_filters) <= STORE_FILTERS_MAX + 1, "more than a query can have");

static const struct filters_table run_list = {
	&run_table,
	run_filters,
	(const char *const[]){ "started_at", "finished_at", NULL },
};

/* What lives is ahead of what is stored. */
static json_t *row_json(struct exchange *x, const void *data)
{
	const struct run_row *row = data;
	const struct run *live = run_find(api_of(x)->service, row->id, NULL);

	return run_json_admin(live ? &live->row : row);
}

void admin_handle_runs(struct exchange *x)
{
	admin_list(x, &run_list, row_json);
}

/* --- one of them --- */

struct details {
	struct exchange *x;
	json_t *run;
};

/* Their paths and sizes. */
static json_t *brief_artifacts(const json_t *items)
{
	json_t *brief = json_array();

	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *item = json_array_get(items, i);
		json_t *path = json_object_get(item, "path");
		json_t *size = json_object_get(item, "size");

		(void)json_array_append_new(
			brief, json_pack("{s:O,s:O}", "path", path, "size", size));
	}
	return brief;
}

static void on_artifacts(void *ctx, int r, json_t *items)
{
	AUTO_FREE struct details *d = ctx;

	if (r < 0) {
		json_decref(d->run);
		reply_refusal(d->x, "internal_error", "the artifacts could not be listed");
		return;
	}
	(void)json_object_set_new(d->run, "artifacts", brief_artifacts(items));
	json_decref(items);
	reply_json(d->x, 200, d->run);
}

static void on_row(void *ctx, const struct run_row *row, struct problem *problem)
{
	struct exchange *x = ctx;
	struct service *service = api_of(x)->service;

	if (!row) {
		reply_problem(x, problem);
		return;
	}
	struct details *d = xnew(struct details);
	AUTO_FREE char *url = links_stream(api_of(x), row, 0);
	*d = (struct details){ x, run_json(service, row) };
	const struct run *live = run_find(service, row->id, NULL);
	(void)json_object_set_new(d->run, "user_id", json_string(row->user_id));
	(void)json_object_set_new(d->run, "request",
		live && live->brief && !phase_is_over(live->phase) ? json_incref(live->brief)
								   : json_null());
	(void)json_object_set_new(d->run, "log_stream_url", json_string(url));
	shelf_list(service, row->user_id, row->id, on_artifacts, d);
}

void admin_handle_run(struct exchange *x)
{
	const char *id = exchange_param(x, "id");

	api_note_run(x, id);
	run_get(api_of(x)->service, id, NULL, on_row, x);
}
