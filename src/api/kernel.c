/* /sessions/{id}/kernel: the interpreter of a session (core/kernel.h), which keeps its variables
 * between pieces of code. An execution is answered when it is over. A client that hangs up before
 * does not want it any more: it is interrupted, or not begun. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/fields.h"
#include "api/outcome.h"
#include "api/reply.h"
#include "api/sessions.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/str.h"
#include "core/kernel.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"

#define TIMEOUT_MAX_MS (3600u * 1000u)
#define MEMORY_MAX_MB  (1u << 20)
#define CPU_MAX        1024.0

struct execution_answer {
	struct exchange *x;
	char session_id[UUID_SIZE + 1];
	char shown_id[SESSION_NAME_MAX + 1];
};

static void set(json_t *o, const char *name, json_t *value)
{
	(void)json_object_set_new(o, name, value);
}

/* --- how it ended --- */

/* The beginning of the output and, when it is cut, its end. */
static void add_output(json_t *o, const char *name, struct excerpt *e)
{
	bool is_cut = e->total > e->n_head;

	outcome_add_text(o, name, e->head ? e->head : "", e->n_head, is_cut);
	if (is_cut)
		outcome_add_tail(o, name, excerpt_end(e), e->n_ring);
}

static json_t *text_or_null(const struct kernel_text *t)
{
	return t->data ? json_stringn(t->data, t->size) : json_null();
}

static json_t *images_json(const struct kernel_reply *reply)
{
	json_t *list = json_array();

	for (size_t i = 0; i < reply->n_images; i++) {
		const struct kernel_image *image = &reply->images[i];
		AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(image->size));

		(void)base64_encode(image->data, image->size, text);
		(void)json_array_append_new(
			list, json_pack("{s:s,s:I,s:s}", "mime", image->mime, "size",
				      (json_int_t)image->size, "data_b64", text));
	}
	return list;
}

static void add_reply(json_t *o, const struct kernel_reply *reply)
{
	set(o, "result", text_or_null(&reply->result));
	set(o, "error", text_or_null(&reply->error));
	set(o, "traceback", text_or_null(&reply->traceback));
	set(o, "result_truncated", json_boolean(reply->uncut_size > 0));
	set(o, "images", images_json(reply));
	set(o, "images_omitted", json_integer((json_int_t)reply->n_images_cut));
	set(o, "warning", text_or_null(&reply->warning));
}

/* The limits of the interpreter's box. An earlier execution may have set them. */
static json_t *limits_json(const struct kernel_result *r)
{
	return json_pack("{s:f,s:I,s:b}", "cpu", (double)r->limits.cpu_milli / 1000, "memory_mb",
		(json_int_t)r->limits.memory_mb, "are_others", r->has_other_limits);
}

static json_t *result_json(struct kernel_result *r, const char *session_id)
{
	json_t *o = json_object();
	bool died = r->outcome == KERNEL_DIED;

	set(o, "session_id", json_string(session_id));
	set(o, "run_id", json_string(r->run_id));
	set(o, "outcome", json_string(kernel_outcome_name(r->outcome)));
	set(o, "timed_out", json_boolean(r->was_late));
	set(o, "reason_code", json_string(kernel_reason(r)));
	set(o, "message", died ? json_text_or_null(r->message) : json_null());
	set(o, "exit_code",
		died && r->exit_code != STORE_NULL ? json_integer(r->exit_code) : json_null());
	add_output(o, "stdout", &r->out);
	add_output(o, "stderr", &r->err);
	add_reply(o, &r->reply);
	set(o, "execution_count", json_integer(r->execution_count));
	set(o, "duration_ms", json_integer((json_int_t)((r->wall_ns + 500000) / 1000000)));
	set(o, "fresh",
		r->fresh == KERNEL_KEPT ? json_null() : json_string(kernel_fresh_name(r->fresh)));
	set(o, "fresh_reason", json_text_or_null(r->fresh_reason));
	set(o, "limits", r->limits.memory_mb ? limits_json(r) : json_null());
	return o;
}

static void on_done(void *ctx, struct kernel_result *result, struct problem *problem)
{
	AUTO_FREE struct execution_answer *a = ctx;

	exchange_on_gone(a->x, NULL, NULL);
	if (!result) {
		reply_problem(a->x, problem);
		return;
	}
	api_note_run(a->x, result->run_id);
	reply_json(a->x, 200, result_json(result, a->shown_id));
}

/* --- POST /sessions/{id}/kernel/executions --- */

static void on_gone(struct exchange *x, void *ctx)
{
	struct execution_answer *a = ctx;
	struct session *session = session_find(api_of(x)->service, a->session_id, NULL);

	if (session)
		kernel_cancel(session, a);
}

/* A number within limits; absent, it stays 0. It has answered when it is not right. */
static int read_number(
	struct exchange *x, const json_t *o, const char *name, double max, double *ret)
{
	const json_t *value = json_object_get(o, name);

	if (!value || json_is_null(value))
		return 0;
	*ret = json_number_value(value);
	if (json_is_number(value) && *ret > 0 && *ret <= max)
		return 0;
	reply_field(x, PROBLEM_IN_BODY, name, "must be a number over 0, at most %.0f", max);
	return -EINVAL;
}

/* The env of the request, checked by kernel_execute() but for its kind. */
static int read_env(struct exchange *x, const json_t *body, const json_t **ret)
{
	const json_t *env = json_object_get(body, "env");
	const char *name;
	const json_t *value;

	*ret = json_is_object(env) && json_object_size(env) > 0 ? env : NULL;
	if (env && !json_is_object(env) && !json_is_null(env)) {
		reply_field(x, PROBLEM_IN_BODY, "env", "must be an object of texts");
		return -EINVAL;
	}
	json_object_foreach((json_t *)*ret, name, value)
	{
		if (!json_is_string(value)) {
			reply_field(x, PROBLEM_IN_BODY, "env", "its values must be texts");
			return -EINVAL;
		}
	}
	return 0;
}

static int check_fields(struct exchange *x, const json_t *body)
{
	static const char *const known[] = { "code", "timeout_ms", "env", "cpu", "memory_mb",
		"context", "context.source", "context.model", "context.prompt_id",
		"context.thread_id", NULL };

	if (fields_check_body(x, body, known) < 0)
		return -EINVAL;
	if (json_is_string(json_object_get(body, "code")))
		return 0;
	reply_field(x, PROBLEM_IN_BODY, "code", "must be a text, of Python");
	return -EINVAL;
}

/* For the audit log, which would take an interpreter for one of MCP. A new object, or NULL when it
 * has answered. */
static json_t *read_context(struct exchange *x, const json_t *body)
{
	struct problem problem = { 0 };
	json_t *context = request_read_context(json_object_get(body, "context"), &problem);

	if (context)
		json_set_missing(context, "source", json_string("API"));
	else
		reply_problem(x, &problem);
	problem_fini(&problem);
	return context;
}

static int read_wish(struct exchange *x, const json_t *body, struct kernel_wish *ret)
{
	double timeout_ms = 0;
	double memory_mb = 0;
	double cpu = 0;

	if (check_fields(x, body) < 0 ||
		read_number(x, body, "timeout_ms", TIMEOUT_MAX_MS, &timeout_ms) < 0 ||
		read_number(x, body, "memory_mb", MEMORY_MAX_MB, &memory_mb) < 0 ||
		read_number(x, body, "cpu", CPU_MAX, &cpu) < 0 || read_env(x, body, &ret->env) < 0)
		return -EINVAL;
	ret->code = json_string_value(json_object_get(body, "code"));
	ret->size = json_string_length(json_object_get(body, "code"));
	ret->timeout_ms = (uint64_t)(timeout_ms + 0.5);
	ret->limits.memory_mb = (uint64_t)(memory_mb + 0.5);
	ret->limits.cpu_milli = (uint64_t)(cpu * 1000 + 0.5);
	ret->trace_id = api_trace_id(x);
	return 0;
}

static void handle_execute(struct exchange *x)
{
	struct session *session = sessions_find(x);
	struct kernel_wish wish = { 0 };
	AUTO_JSON *body = NULL;

	if (!session || reply_read_json(x, &body) < 0 || read_wish(x, body, &wish) < 0)
		return;
	AUTO_JSON *context = read_context(x, body);
	if (!context)
		return;
	wish.context = context;
	struct execution_answer *a = xnew(struct execution_answer);
	a->x = x;
	memcpy(a->session_id, session->row.id, sizeof(a->session_id));
	(void)snprintf(a->shown_id, sizeof(a->shown_id), "%s", session_shown_id(session));
	exchange_on_gone(x, on_gone, a);
	kernel_execute(session, &wish, on_done, a);
}

/* --- the others --- */

static void handle_get(struct exchange *x)
{
	const struct session *session = sessions_find(x);

	if (!session)
		return;
	struct kernel_now now = kernel_look(session);
	reply_json(x, 200,
		json_pack("{s:s,s:s,s:s?,s:I,s:I}", "session_id", session_shown_id(session),
			"state", now.state, "run_id", now.run_id, "waiting",
			(json_int_t)now.n_waiting, "execution_count",
			(json_int_t)now.execution_count));
}

static void answer_whether(
	struct exchange *x, const char *name, bool (*ask)(struct session *session))
{
	struct session *session = sessions_find(x);

	if (!session)
		return;
	json_t *o = json_pack("{s:s}", "session_id", session_shown_id(session));
	set(o, name, json_boolean(ask(session)));
	reply_json(x, 200, o);
}

static void handle_interrupt(struct exchange *x)
{
	answer_whether(x, "interrupted", kernel_interrupt);
}

static void handle_restart(struct exchange *x)
{
	answer_whether(x, "restarted", kernel_restart);
}

/* Code, in which JSON may have made six bytes of one, and variables. */
#define BODY_MAX (8u << 20)
#define KERNEL   API_BASE "/sessions/{id}/kernel"

const struct route routes_kernel[] = {
	{ "GET", KERNEL, ACCESS_USER, BODY_NONE, 0, handle_get, "" },
	{ "POST", KERNEL "/executions", ACCESS_USER, BODY_MEMORY, BODY_MAX, handle_execute, "" },
	{ "POST", KERNEL "/interrupt", ACCESS_USER, BODY_NONE, 0, handle_interrupt, "" },
	{ "POST", KERNEL "/restart", ACCESS_USER, BODY_NONE, 0, handle_restart, "" },
	{ 0 },
};
