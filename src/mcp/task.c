#include "mcp/task.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"
#include "lang/lang.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"
#include "mcp/tool.h"

struct task *task_new(struct call *c, json_t *body, void (*over)(struct task *t, struct run *run))
{
	struct task *t = xnew(struct task);

	t->call = c;
	t->body = body;
	t->over = over;
	c->work = t;
	return t;
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

/* What is left of it, after the call was answered or as it is about to be. */
static void task_free(struct task *t)
{
	json_decref(TAKE(t->body));
	if (t->run)
		run_unwait(t->run, &t->waiter);
	if (t->has_timer)
		uv_close((uv_handle_t *)&t->timer, on_timer_closed);
	else
		free(t);
}

/* --- while it goes --- */

static const char *stage_of(const struct run *run)
{
	if (run_awaits_approval(run))
		return TASK_AWAITS_APPROVAL;
	return run->row.phase ? run->row.phase : "running";
}

static void on_timer(uv_timer_t *timer)
{
	struct task *t = timer->data;
	struct run *run = t->run;
	double elapsed = (double)(uv_now(timer->loop) - t->begun_ms) / 1000;
	double limit = (double)run->policy.limits.timeout_ms / 1000;
	char text[120];

	(void)snprintf(text, sizeof(text), "%s for %.0f s, %llu bytes of output", stage_of(run),
		elapsed, (unsigned long long)(run->stream ? stream_log_bytes(run->stream) : 0));
	call_progress(t->call, elapsed, limit, text);
}

static void tell_of_it(struct task *t)
{
	struct service *s = call_service(t->call);

	call_log(t->call, CALL_INFO, "run",
		json_pack("{s:s,s:s}", "event", "started", "run_id", t->run->row.id));
	if (!t->call->progress_token)
		return;
	(void)uv_timer_init(s->loop, &t->timer);
	t->timer.data = t;
	t->has_timer = true;
	t->begun_ms = uv_now(s->loop);
	(void)uv_timer_start(&t->timer, on_timer, TASK_FIRST_WORD_MS, TASK_WORD_MS);
}

static void on_over(struct run_waiter *w, struct run *run)
{
	struct task *t = (struct task *)((char *)w - offsetof(struct task, waiter));

	t->run = NULL;
	call_log(t->call, CALL_INFO, "run",
		json_pack("{s:s,s:s,s:s}", "event", "ended", "run_id", run->row.id, "reason_code",
			run->row.reason_code ? run->row.reason_code : ""));
	t->call->cancel = NULL;
	t->call->abandon = NULL;
	t->over(t, run);
	task_free(t);
}

static void cancel(struct call *c)
{
	struct task *t = c->work;

	if (t->run)
		(void)run_cancel(t->run);
}

/* The run goes on in the keeper, for the next server. */
static void abandon(struct call *c)
{
	struct task *t = c->work;

	task_free(t);
	call_fail_tool(c, "shutting_down: the server ends; the code still runs");
}

/* --- asking for it --- */

static void refuse(struct task *t, const struct problem *problem)
{
	struct call *c = t->call;

	task_free(t);
	call_refuse_tool(c, problem);
}

static void on_created(void *ctx, struct run *run, struct problem *problem)
{
	struct task *t = ctx;

	if (!run) {
		refuse(t, problem);
		return;
	}
	t->run = run;
	t->waiter.over = on_over;
	t->call->cancel = cancel;
	t->call->abandon = abandon;
	tell_of_it(t);
	run_wait(run, &t->waiter);
	if (t->call->is_canceled)
		(void)run_cancel(run);
	else if (t->call->peer->host->is_closing)
		call_be_abandoned(t->call);
}

/* Without a key nothing is. */
static void on_replayed(void *ctx, const struct run_row *row)
{
	struct problem problem = { 0 };

	(void)row;
	(void)problem_set(&problem, "internal_error", "the run was there before");
	refuse(ctx, &problem);
	problem_fini(&problem);
}

void task_start(struct task *t)
{
	struct problem problem = { 0 };
	struct request request;

	if (t->call->context)
		(void)json_object_set(t->body, "context", t->call->context);
	if (request_parse(t->body, REQUEST_RUN, &request, &problem) < 0) {
		refuse(t, &problem);
		problem_fini(&problem);
		return;
	}
	struct run_wish wish = {
		.request = &request,
		.who = &t->call->peer->who,
		.source = "mcp",
		.trace_id = t->call->trace_id[0] ? t->call->trace_id : NULL,
		.lists = t->lists,
		.digests = t->digests,
		.waits = true,
	};
	json_decref(TAKE(t->body));
	run_create(call_service(t->call), &wish, on_created, on_replayed, t);
	request_fini(&request);
}

/* Which program runs the code does not depend on the PATH that the code is to have. */
static void find_program(const struct task *t, const struct session *session)
{
	char buf[256];

	if (!t->lang || !json_object_get(json_object_get(t->body, "env"), "PATH"))
		return;
	const char *program = lang_program(t->lang, session->row.base_image, buf, sizeof(buf));
	(void)json_array_set_new(json_object_get(t->body, "command"), 0, json_string(program));
}

static void on_session(struct call *c, struct session *session)
{
	struct task *t = c->work;

	if (!session) {
		task_free(t);
		return;
	}
	(void)json_object_set_new(t->body, "session_id", json_string(session->row.id));
	find_program(t, session);
	task_start(t);
}

void task_start_in_session(struct task *t, const json_t *arguments)
{
	tool_obtain_session(t->call, arguments, on_session);
}
