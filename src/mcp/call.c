#include "mcp/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/problem.h"
#include "mcp/advice.h"
#include "mcp/catalog.h"
#include "mcp/mcp_peer.h"
#include "mcp/method.h"
#include "mcp/output.h"
#include "mcp/revision.h"

static const char *const levels[CALL_LEVELS] = { "debug", "info", "notice", "warning", "error",
	"critical", "alert", "emergency" };

const char *call_level_name(enum call_level level)
{
	return levels[level];
}

int call_level_find(const char *name)
{
	for (int i = 0; i < CALL_LEVELS; i++) {
		if (streq(levels[i], name))
			return i;
	}
	return -1;
}

struct service *call_service(const struct call *c)
{
	return c->peer->host->service;
}

/* What the audit log is to have. Other members of _meta are none of ours. */
static json_t *context_of(const json_t *meta)
{
	static const char *const names[] = { "model", "prompt_id", "thread_id" };
	json_t *context = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *value = json_object_get(meta, names[i]);
		size_t size = json_string_length(value);

		if (size == 0 || size > CALL_CONTEXT_MAX)
			continue;
		if (!context)
			context = json_object();
		(void)json_object_set(context, names[i], value);
	}
	return context;
}

struct call *call_begin(
	struct mcp_peer *p, const struct method *method, const struct rpc_message *m, void *origin)
{
	struct call *c = xnew(struct call);
	json_t *meta = json_object_get(m->params, "_meta");
	json_t *token = json_object_get(meta, "progressToken");

	c->peer = p;
	c->since_ns = clock_monotonic_ns();
	c->method = method;
	c->id = json_incref((json_t *)m->id);
	c->origin = origin;
	c->context = context_of(meta);
	c->progress = -1; /* 0 may be told */
	if (json_is_integer(token) ||
		(json_is_string(token) && json_string_length(token) <= RPC_ID_MAX))
		c->progress_token = json_incref(token);
	LIST_INSERT_HEAD(&p->calls, c, link);
	p->n_calls++;
	return c;
}

/* --- ending it --- */

static void forget_questions(struct call *c)
{
	for (struct question *q = LIST_FIRST(&c->peer->questions), *next; q; q = next) {
		next = LIST_NEXT(q, link);
		if (q->call != c)
			continue;
		LIST_REMOVE(q, link);
		free(q);
	}
}

static void end(struct call *c, json_t *answer)
{
	struct mcp_peer *p = c->peer;

	forget_questions(c);
	LIST_REMOVE(c, link);
	if (p->listener == c)
		p->listener = NULL;
	if (c->is_canceled || p->is_closing)
		json_decref(answer);
	else
		(void)p->ops->send(p->ctx, answer, c->origin, true);
	json_decref(c->id);
	json_decref(c->progress_token);
	json_decref(c->context);
	json_decref(c->warnings);
	json_decref(c->session_id);
	free(c);
	p->n_calls--;
	mcp_peer_check_gone(p);
}

static bool is_stateless(const struct call *c)
{
	return c->peer->revision && c->peer->revision->is_stateless;
}

/* What every result of a stateless revision says: that it is one, for how long it is good, and
 * whose it is. */
static void complete(const struct call *c, json_t *result)
{
	const struct mcp_catalog *k = c->peer->host->catalog;
	json_t *meta = json_object_get(result, "_meta");

	if (!meta) {
		meta = json_object();
		(void)json_object_set_new(result, "_meta", meta);
	}
	(void)json_object_set_new(meta, MCP_META_SERVER,
		json_pack("{s:s,s:s,s:s}", "name", k->name, "title", k->title, "version",
			BELLJAR_VERSION));
	(void)json_object_set_new(result, "resultType", json_string("complete"));
	if (!c->method->cache_scope)
		return;
	(void)json_object_set_new(result, "ttlMs", json_integer(c->method->cache_ms));
	(void)json_object_set_new(result, "cacheScope", json_string(c->method->cache_scope));
}

void call_finish(struct call *c, json_t *result)
{
	json_t *full = result ? result : json_object();

	if (is_stateless(c))
		complete(c, full);
	end(c, rpc_result(c->id, full));
}

void call_fail(struct call *c, int code, const char *fmt, ...)
{
	char text[4096]; /* there may be a URL in it */
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	AUTO_JSON *clean = output_text(text, strlen(text));
	if (code == CALL_RESOURCE_NOT_FOUND)
		code = c->peer->revision->not_found;
	end(c, rpc_error(c->id, code, json_string_value(clean), NULL));
}

void call_be_canceled(struct call *c)
{
	void (*cancel)(struct call *) = TAKE(c->cancel);
	struct mcp_peer *p = c->peer;

	c->is_canceled = true;
	p->ops->drop(p->ctx, c->origin);
	c->origin = NULL;
	if (cancel)
		cancel(c);
}

void call_be_abandoned(struct call *c)
{
	void (*abandon)(struct call *) = TAKE(c->abandon);

	if (abandon)
		abandon(c);
}

/* --- of a tool --- */

json_t *call_text(const char *text)
{
	return json_pack("{s:s,s:o}", "type", "text", "text", output_text(text, strlen(text)));
}

/* What clients of the oldest revision do not know can make them refuse all of it. */
static void leave_out_links(json_t *content)
{
	for (size_t i = json_array_size(content); i-- > 0;) {
		const char *type =
			json_string_value(json_object_get(json_array_get(content, i), "type"));

		if (type && streq(type, "resource_link"))
			(void)json_array_remove(content, i);
	}
}

/* One line of the log for each: what was run, and how it went; never what it was made of. */
static void log_tool(const struct call *c, const json_t *structured, bool is_error)
{
	static const char *const same[] = { "run_id", "exit_code", "reason_code" };
	AUTO_JSON *o = json_pack("{s:s,s:s,s:b,s:I}", "tool", c->tool->name, "user_id",
		c->peer->who.user_id, "is_error", is_error, "duration_ms",
		(json_int_t)((clock_monotonic_ns() - c->since_ns) / 1000000));

	if (!o)
		return;
	if (c->trace_id[0])
		(void)json_object_set_new(o, "trace_id", json_string(c->trace_id));
	if (c->session_id)
		(void)json_object_set(o, "session_id", c->session_id);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		json_t *value = json_object_get(structured, same[i]);

		if (value)
			(void)json_object_set(o, same[i], value);
	}
	AUTO_FREE char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (text)
		log_members(LOG_LEVEL_INFO, "tool", text);
}

static bool has_image(const json_t *content)
{
	for (size_t i = 0; i < json_array_size(content); i++) {
		const char *type =
			json_string_value(json_object_get(json_array_get(content, i), "type"));

		if (type && streq(type, "image"))
			return true;
	}
	return false;
}

/* For programs, and where there is a text already, for the model. */
static void add_warnings(const struct call *c, json_t *content, json_t *structured)
{
	size_t i;
	const json_t *text;

	if (structured)
		(void)json_object_set(structured, "warnings", c->warnings);
	if (json_array_size(content) == 0 && structured)
		return;
	json_array_foreach(c->warnings, i, text)
	{
		(void)json_array_append_new(content, call_text(json_string_value(text)));
	}
}

void call_finish_tool(struct call *c, json_t *content, json_t *structured, bool is_error)
{
	json_t *result = json_object();
	json_t *list = content ? content : json_array();
	bool has_text = json_array_size(list) > 0;

	log_tool(c, structured, is_error);
	if (c->warnings)
		add_warnings(c, list, structured);
	if (!has_text && structured) {
		AUTO_FREE char *text =
			json_dumps(structured, JSON_COMPACT | JSON_REAL_PRECISION(12));

		(void)json_array_append_new(list, call_text(text ? text : ""));
	}
	if (!c->peer->revision->has_links)
		leave_out_links(list);
	(void)json_object_set_new(result, "content", list);
	if (structured && has_image(list))
		json_decref(structured);
	else if (structured)
		(void)json_object_set_new(result, "structuredContent", structured);
	(void)json_object_set_new(result, "isError", json_boolean(is_error));
	call_finish(c, result);
}

void call_fail_tool(struct call *c, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	call_finish_tool(c, json_pack("[o]", call_text(text)), NULL, true);
}

void call_refuse_tool(struct call *c, const struct problem *problem)
{
	const char *runtime = json_string_value(json_object_get(problem->details, "runtime"));
	const char *advice = advice_of_problem(problem);

	/* One that was not built will not be there in a moment either. */
	if (runtime && streq(problem->code, "runtime_unavailable")) {
		call_fail_tool(c,
			"%s: this server does not have the runtime %s; leave runtime out, or say "
			"native",
			problem->code, quote(runtime).text);
		return;
	}
	call_fail_tool(c, "%s: %s%s%s", problem->code, problem->message, advice ? "; " : "",
		advice ? advice : "");
}

/* --- before the answer --- */

static bool tell(struct call *c, json_t *message)
{
	struct mcp_peer *p = c->peer;

	if (!c->is_canceled && !p->is_closing)
		return p->ops->send(p->ctx, message, c->origin, false);
	json_decref(message);
	return false;
}

bool call_tell_listener(struct call *c, const char *method, json_t *params)
{
	json_t *full = params ? params : json_object();

	(void)json_object_set_new(full, "_meta", json_pack("{s:O}", MCP_META_SUBSCRIPTION, c->id));
	return tell(c, rpc_notification(method, full));
}

void call_progress(struct call *c, double progress, double total, const char *message)
{
	if (!c->progress_token || progress <= c->progress)
		return;
	c->progress = progress;
	json_t *params =
		json_pack("{s:O,s:f}", "progressToken", c->progress_token, "progress", progress);
	if (total > 0)
		(void)json_object_set_new(params, "total", json_real(total));
	if (message)
		(void)json_object_set_new(params, "message", json_string(message));
	(void)tell(c, rpc_notification("notifications/progress", params));
}

void call_log(struct call *c, enum call_level level, const char *logger, json_t *data)
{
	if (c->peer->log_level < 0 || (int)level < c->peer->log_level) {
		json_decref(data);
		return;
	}
	(void)tell(c, rpc_notification("notifications/message",
			      json_pack("{s:s,s:s,s:o}", "level", call_level_name(level), "logger",
				      logger, "data", data)));
}

/* --- asking the client --- */

static void answer_at_once(struct call *c, const char *why,
	void (*answered)(struct call *c, const json_t *result, const json_t *error))
{
	AUTO_JSON *error = json_pack("{s:i,s:s}", "code", RPC_METHOD_NOT_FOUND, "message", why);

	answered(c, NULL, error);
}

void call_ask(struct call *c, const char *capability, const char *method, json_t *params,
	void (*answered)(struct call *c, const json_t *result, const json_t *error))
{
	struct mcp_peer *p = c->peer;
	AUTO_JSON *taken = params;

	if (is_stateless(c) || !json_object_get(p->capabilities, capability)) {
		answer_at_once(c, "the client can not do that", answered);
		return;
	}
	if (c->is_canceled || p->is_closing) {
		answer_at_once(c, "the client does not wait any more", answered);
		return;
	}
	struct question *q = xnew(struct question);
	*q = (struct question){ .id = ++p->next_question, .call = c, .answered = answered };
	LIST_INSERT_HEAD(&p->questions, q, link);
	AUTO_JSON *id = json_integer((json_int_t)q->id);
	json_t *message = rpc_request(id, method, json_incref(taken));
	if (p->ops->send(p->ctx, message, c->origin, false))
		return;
	LIST_REMOVE(q, link);
	free(q);
	answer_at_once(c, "the client can not be asked on this connection", answered);
}
