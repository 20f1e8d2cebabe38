/* Runs that a policy holds until an admin has looked at them. */
#include <errno.h>
#include <string.h>

#include "api/api.h"
#include "api/fields.h"
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
	(void)json_object_set_new(o, "request", run->brief ? json_incref(run->brief) : json_null());
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

static void decide(struct exchange *x, bool approved, const char *reason)
{
	struct service *s = api_of(x)->service;
	const char *id = exchange_param(x, "id");
	struct run *run = run_find(s, id, NULL);

	api_note_run(x, id);
	if (!run || run_approve(run, approved, api_who(x)->user_id, reason) < 0) {
		run_get(s, id, NULL, on_row, x);
		return;
	}
	json_t *o = run_json_admin(&run->row);
	(void)json_object_set_new(o, "approval", json_string(run->row.approval));
	reply_json(x, 200, o);
}

static void handle_approve(struct exchange *x)
{
	decide(x, true, NULL);
}

static bool is_readable(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	}
	return size > 0 && size <= RUN_DENIAL_MAX;
}

/* The text that the user is told, or NULL. It has answered when it is none. */
static int read_reason(struct exchange *x, const json_t *body, const char **ret)
{
	static const char *const names[] = { "reason", NULL };
	const json_t *reason = json_object_get(body, "reason");

	*ret = json_string_value(reason);
	if (fields_check_body(x, body, names) < 0)
		return -EINVAL;
	if (!body || (json_is_object(body) &&
			     (!reason || json_is_null(reason) ||
				     (*ret && is_readable(*ret, json_string_length(reason))))))
		return 0;
	reply_field(x, PROBLEM_IN_BODY, "reason",
		"must be a text of 1 to %u bytes without control characters", RUN_DENIAL_MAX);
	return -EINVAL;
}

static void handle_deny(struct exchange *x)
{
	AUTO_JSON *body = NULL;
	const char *reason = NULL;

	if (reply_read_optional_json(x, &body) == 0 && read_reason(x, body, &reason) == 0)
		decide(x, false, reason);
}

#define BODY_MAX (4u << 10)

const struct route routes_approvals[] = {
	{ "GET", API_BASE "/admin/approvals", ACCESS_ADMIN, BODY_NONE, 0, handle_list,
		"limit offset" },
	{ "POST", API_BASE "/admin/runs/{id}/approve", ACCESS_ADMIN, BODY_NONE, 0, handle_approve,
		"" },
	{ "POST", API_BASE "/admin/runs/{id}/deny", ACCESS_ADMIN, BODY_MEMORY, BODY_MAX,
		handle_deny, "" },
	{ 0 },
};
