/* Runs that a policy holds until an admin has looked at them. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/page.h"
#include "api/reply.h"
#include "base/json.h"
#include "core/problem.h"
#include "core/run.h"
#include "core/service.h"

static json_t *held_json(const struct run *run)
{
	json_t *o = run_json_admin(&run->row);

	(void)json_object_set_new(o, "approval", json_string(run->row.approval));
	(void)json_object_set_new(o, "approval_rule", json_text_or_null(run->policy.approval));
	return o;
}

static void handle_list(struct exchange *x)
{
	struct page page;
	uint64_t n = 0;

	if (page_read(x, &page) < 0)
		return;
	json_t *items = json_array();
	for (const struct run *run = api_of(x)->service->runs; run; run = run->next) {
		if (!run_awaits_approval(run))
			continue;
		if (n >= page.offset && json_array_size(items) < page.limit)
			(void)json_array_append_new(items, held_json(run));
		n++;
	}
	reply_json(x, 200, page_json(&page, n, items));
}

static void on_row(void *ctx, const struct run_row *row, struct problem *problem)
{
	if (row)
		reply_refusal(ctx, "approval_not_pending",
			"this run does not wait for an approval; it is %s", row->phase);
	else
		reply_problem(ctx, problem);
}

static void decide(struct exchange *x, bool approved)
{
	struct service *s = api_of(x)->service;
	const char *id = exchange_param(x, "id");
	struct run *run = run_find(s, id, NULL);

	api_note_run(x, id);
	if (!run || run_approve(run, approved, api_who(x)->user_id) < 0) {
		run_get(s, id, NULL, on_row, x);
		return;
	}
	json_t *o = run_json_admin(&run->row);
	(void)json_object_set_new(o, "approval", json_string(run->row.approval));
	reply_json(x, 200, o);
}

static void handle_approve(struct exchange *x)
{
	decide(x, true);
}

static void handle_deny(struct exchange *x)
{
	decide(x, false);
}

const struct route routes_approvals[] = {
	{ "GET", API_BASE "/admin/approvals", ACCESS_ADMIN, BODY_NONE, 0, handle_list,
		"limit offset" },
	{ "POST", API_BASE "/admin/runs/{id}/approve", ACCESS_ADMIN, BODY_NONE, 0, handle_approve,
		"" },
	{ "POST", API_BASE "/admin/runs/{id}/deny", ACCESS_ADMIN, BODY_NONE, 0, handle_deny, "" },
	{ 0 },
};
