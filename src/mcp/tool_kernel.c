#include "mcp/tool_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/str.h"
#include "core/kernel.h"
#include "core/problem.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/artifacts.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"
#include "mcp/output.h"
#include "mcp/resources.h"
#include "mcp/task.h"
#include "mcp/tool.h"

struct kernel_job {
	struct call *call; /* NULL: nobody waits any more */
	char session_id[UUID_SIZE + 1];
	json_t *code;
	json_t *env;
	uint64_t timeout_ms;
	struct kernel_limits limits;
	bool restarts;
	uv_timer_t timer; /* while it is told of */
	bool has_timer;
	uint64_t begun_ms;
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void job_free(struct kernel_job *j)
{
	json_decref(j->code);
	json_decref(j->env);
	if (j->has_timer)
		uv_close((uv_handle_t *)&j->timer, on_timer_closed);
	else
		free(j);
}

/* --- while it goes --- */

static const char *stage_of(struct kernel_job *j)
{
	static const char *const words[] = {
		[KERNEL_AWAITS_TURN] = "waiting for its turn",
		[KERNEL_AWAITS_APPROVAL] = TASK_AWAITS_APPROVAL,
		[KERNEL_STARTS] = "starting",
		[KERNEL_RUNS] = "running",
	};
	const struct session *session = session_find(call_service(j->call), j->session_id, NULL);

	return words[session ? kernel_stage(session, j) : KERNEL_RUNS];
}

static void on_timer(uv_timer_t *timer)
{
	struct kernel_job *j = timer->data;
	double elapsed = (double)(uv_now(timer->loop) - j->begun_ms) / 1000;
	char text[64];

	if (!j->call)
		return;
	(void)snprintf(text, sizeof(text), "%s for %.0f s", stage_of(j), elapsed);
	call_progress(j->call, elapsed, (double)j->timeout_ms / 1000, text);
}

static void tell_of_it(struct kernel_job *j)
{
	struct service *s = call_service(j->call);

	call_log(j->call, CALL_INFO, "run", json_pack("{s:s}", "event", "started"));
	if (!j->call->progress_token)
		return;
	(void)uv_timer_init(s->loop, &j->timer);
	j->timer.data = j;
	j->has_timer = true;
	j->begun_ms = uv_now(s->loop);
	(void)uv_timer_start(&j->timer, on_timer, TASK_FIRST_WORD_MS, TASK_WORD_MS);
}

/* --- the answer --- */

static void set(json_t *o, const char *name, json_t *value)
{
	(void)json_object_set_new(o, name, value);
}

/* What was printed, as far as it was kept, within `max` bytes. */
static json_t *text_of(struct excerpt *e, size_t max, bool *is_cut)
{
	const char *end = excerpt_end(e);
	size_t kept = e->n_head + e->n_ring;
	size_t n_head = e->n_head < max / 2 ? e->n_head : max / 2;
	size_t n_end = e->n_ring < max / 2 ? e->n_ring : max / 2;

	if (e->total > kept || kept > max) {
		*is_cut = true;
		if (e->n_ring == 0) /* all of it is in the head */
			return output_join(
				e->head, n_head, e->head + e->n_head - max / 2, max / 2, e->total);
		return output_join(e->head, n_head, end + e->n_ring - n_end, n_end, e->total);
	}
	AUTO_FREE char *text = xcalloc(1, kept + 1);
	if (e->n_head > 0)
		memcpy(text, e->head, e->n_head);
	if (e->n_ring > 0)
		memcpy(text + e->n_head, end, e->n_ring);
	return output_text(text, kept);
}

/* How much of what its interpreter says is left out is told. */
#define WARNING_MAX 2000

static void describe_death(const struct kernel_result *r, bool is_closed, char *text, size_t size)
{
	bool has_more = r->message && !streq(r->message, kernel_reason(r));
	int n = snprintf(text, size, "the interpreter ended (%s%s%s): all variables are lost, ",
		kernel_reason(r), has_more ? ": " : "", has_more ? r->message : "");

	if (n < 0 || (size_t)n >= size)
		return;
	if (is_closed)
		(void)snprintf(text + n, size - (size_t)n,
			"and so are the files, since the session was closed");
	else if (r->has_other_limits)
		(void)snprintf(text + n, size - (size_t)n,
			"and the next call begins with a fresh one and its own limits (this one "
			"had memory_mb %llu, cpu %.15g); files are kept",
			(unsigned long long)r->limits.memory_mb,
			(double)r->limits.cpu_milli / 1000);
	else
		(void)snprintf(text + n, size - (size_t)n,
			"and the next call begins with a fresh one; files are kept");
}

/* What a model may do about how it ended; empty when there is nothing to say. */
static void describe_end(const struct kernel_result *r, bool is_closed, char *text, size_t size)
{
	if (r->outcome == KERNEL_DIED)
		describe_death(r, is_closed, text, size);
	else if (r->outcome == KERNEL_INTERRUPTED)
		(void)snprintf(text, size, "%s; variables are kept",
			r->was_late ? "it took too long and was interrupted: do less, or ask for "
				      "more limits.seconds"
				    : "it was interrupted");
}

/* Limits are those of a box, and the box was made before. One that is gone keeps nothing. */
static void describe_limits(const struct kernel_result *r, char *text, size_t size)
{
	if (r->has_other_limits && r->outcome != KERNEL_DIED)
		(void)snprintf(text, size,
			"the interpreter was begun with other limits, which it keeps: memory_mb "
			"%llu, cpu %.15g; restart: true begins one with the limits of the call, "
			"without the variables",
			(unsigned long long)r->limits.memory_mb,
			(double)r->limits.cpu_milli / 1000);
}

/* Which images are not there. */
static void describe_images(const struct kernel_result *r, char *text, size_t size)
{
	if (r->reply.warning.data)
		(void)snprintf(text, size, "%.*s", WARNING_MAX, r->reply.warning.data);
}

static json_t *message_of(const struct kernel_result *r, bool is_closed)
{
	char parts[3][WARNING_MAX + 1] = { "", "", "" };
	char text[sizeof(parts) + 8] = "";
	size_t n = 0;

	describe_end(r, is_closed, parts[0], sizeof(parts[0]));
	describe_limits(r, parts[1], sizeof(parts[1]));
	describe_images(r, parts[2], sizeof(parts[2]));
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i][0])
			n += (size_t)snprintf(
				text + n, sizeof(text) - n, "%s%s", n ? "; " : "", parts[i]);
	}
	return n ? output_text(text, n) : json_null();
}

/* Why variables of before are not there; null when they are. */
static json_t *fresh_of(const struct kernel_result *r)
{
	char text[200];
	bool has_reason = r->fresh == KERNEL_AFTER_DEATH && r->fresh_reason;

	if (r->fresh == KERNEL_KEPT)
		return json_null();
	(void)snprintf(text, sizeof(text), "%s%s%s", kernel_fresh_name(r->fresh),
		has_reason ? ": " : "", has_reason ? r->fresh_reason : "");
	return output_text(text, strlen(text));
}

static json_t *text_or_null(const struct kernel_text *t)
{
	return t->data ? output_text(t->data, t->size) : json_null();
}

/* The last expression, within `max` bytes: of more the ends. Its interpreter may have cut it too,
 * in the middle. */
static json_t *result_of(const struct kernel_reply *reply, size_t max, bool *is_cut)
{
	const struct kernel_text *t = &reply->result;
	uint64_t total = reply->uncut_size > t->size ? reply->uncut_size : t->size;

	if (!t->data || t->size <= max)
		return text_or_null(t);
	*is_cut = true;
	return output_join(t->data, max / 2, t->data + t->size - max / 2, max / 2, total);
}

static json_t *exit_code_of(const struct kernel_result *r)
{
	if (r->outcome == KERNEL_DIED && r->exit_code != STORE_NULL)
		return json_integer(r->exit_code);
	return r->outcome <= KERNEL_ERROR ? json_integer(r->outcome == KERNEL_ERROR) : json_null();
}

static json_t *outcome_of(const struct call *c, struct kernel_result *r, bool is_closed)
{
	size_t max = (size_t)call_service(c)->settings->mcp_max_output_bytes;
	bool is_cut = r->reply.uncut_size > 0 || r->reply.n_images_cut > 0;
	json_t *o = json_object();

	set(o, "run_id", json_string(r->run_id));
	set(o, "exit_code", exit_code_of(r));
	set(o, "stdout", text_of(&r->out, max, &is_cut));
	set(o, "stderr", text_of(&r->err, max, &is_cut));
	set(o, "result", result_of(&r->reply, max, &is_cut));
	set(o, "truncated", json_boolean(is_cut));
	set(o, "reason_code", json_string(kernel_reason(r)));
	set(o, "message", message_of(r, is_closed));
	tool_tell_of_expiry(c, o);
	set(o, "duration_ms", json_integer((json_int_t)(r->wall_ns + 500000) / 1000000));
	set(o, "traceback", text_or_null(&r->reply.traceback));
	set(o, "execution_count", json_integer(r->execution_count));
	set(o, "fresh", fresh_of(r));
	return o;
}

static void add_images(json_t *content, const struct kernel_reply *reply)
{
	for (size_t i = 0; i < reply->n_images; i++) {
		const struct kernel_image *image = &reply->images[i];
		AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(image->size));

		(void)base64_encode(image->data, image->size, text);
		(void)json_array_append_new(
			content, json_pack("{s:s,s:s,s:s}", "type", "image", "data", text,
					 "mimeType", image->mime));
	}
}

static void finish(struct kernel_job *j, struct kernel_result *r)
{
	struct call *c = j->call;
	const struct session *session = session_find(call_service(c), j->session_id, NULL);
	bool is_good = r->outcome == KERNEL_OK;
	bool has_files = session && r->reply.has_listing;
	json_t *o = outcome_of(c, r, !session || session->is_ending);

	set(o, "session_id", json_string(session ? session_shown_id(session) : ""));
	artifacts_set(c, session, is_good && has_files ? &r->reply.listing : NULL, o);
	AUTO_FREE char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12));
	json_t *content = json_pack("[o]", call_text(text ? text : ""));
	add_images(content, &r->reply);
	if (session)
		artifacts_add_links(content, session, json_object_get(o, "artifacts"));
	if (has_files)
		resources_tell(c, session, &r->reply.listing);
	call_finish_tool(c, content, o, !is_good);
}

static void on_done(void *ctx, struct kernel_result *result, struct problem *problem)
{
	struct kernel_job *j = ctx;

	if (j->call) {
		j->call->cancel = NULL;
		j->call->abandon = NULL;
		if (result)
			call_log(j->call, CALL_INFO, "run",
				json_pack("{s:s,s:s,s:s}", "event", "ended", "run_id",
					result->run_id, "reason_code", kernel_reason(result)));
		if (result)
			finish(j, result);
		else
			call_refuse_tool(j->call, problem);
	}
	job_free(j);
}

/* --- asking for it --- */

static void cancel(struct call *c)
{
	struct kernel_job *j = c->work;
	struct session *session = session_find(call_service(c), j->session_id, NULL);

	if (session)
		kernel_cancel(session, j);
}

static void abandon(struct call *c)
{
	struct kernel_job *j = c->work;

	j->call = NULL;
	call_fail_tool(c, "shutting_down: the server ends, and with it the interpreter");
}

static void on_session(struct call *c, struct session *session)
{
	struct kernel_job *j = c->work;
	struct kernel_wish wish = {
		.code = json_string_value(j->code),
		.size = json_string_length(j->code),
		.timeout_ms = j->timeout_ms,
		.env = j->env,
		.limits = j->limits,
		.trace_id = c->trace_id,
		.context = c->context,
	};

	if (!session) {
		job_free(j);
		return;
	}
	/* It was not begun when the client canceled it, or the server was told to end. */
	if (c->is_canceled || c->peer->host->is_closing) {
		job_free(j);
		call_fail_tool(c, "canceled: it was not begun");
		return;
	}
	memcpy(j->session_id, session->row.id, sizeof(j->session_id));
	c->cancel = cancel;
	c->abandon = abandon;
	tell_of_it(j);
	if (j->restarts)
		(void)kernel_restart(session);
	kernel_execute(session, &wish, on_done, j);
}

void tool_kernel_run(struct call *c, const json_t *arguments)
{
	struct kernel_job *j = xnew(struct kernel_job);
	const json_t *limits = json_object_get(arguments, "limits");
	const json_t *seconds = json_object_get(limits, "seconds");

	j->call = c;
	j->code = json_incref(json_object_get(arguments, "code"));
	j->env = json_incref(json_object_get(arguments, "env"));
	j->timeout_ms = (uint64_t)(json_number_value(seconds) * 1000);
	j->limits = (struct kernel_limits){
		.cpu_milli =
			(uint64_t)(json_number_value(json_object_get(limits, "cpu")) * 1000 + 0.5),
		.memory_mb = (uint64_t)json_number_value(json_object_get(limits, "memory_mb")),
	};
	j->restarts = json_is_true(json_object_get(arguments, "restart"));
	c->work = j;
	tool_obtain_session(c, arguments, on_session);
}
