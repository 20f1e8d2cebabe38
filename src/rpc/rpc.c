#include "rpc/rpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

static int fail(struct rpc_fault *fault, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int fail(struct rpc_fault *fault, int code, const char *fmt, ...)
{
	va_list args;

	fault->code = code;
	va_start(args, fmt);
	(void)vsnprintf(fault->text, sizeof(fault->text), fmt, args);
	va_end(args);
	return -EBADMSG;
}

int rpc_read(const char *text, size_t size, json_t **ret, struct rpc_fault *fault)
{
	AUTO_JSON *json = NULL;
	struct err err = { 0 };

	if (json_read(text, size, &json, &err) < 0)
		return fail(fault, RPC_PARSE_ERROR, "parse error: %.150s", err.text);
	if (json_is_array(json) &&
		(json_array_size(json) == 0 || json_array_size(json) > RPC_BATCH_MAX))
		return fail(fault, RPC_INVALID_REQUEST, "a batch has from 1 to %u messages",
			RPC_BATCH_MAX);
	if (!json_is_array(json) && !json_is_object(json))
		return fail(fault, RPC_INVALID_REQUEST, "a message is an object");
	*ret = TAKE(json);
	return 0;
}

static bool is_id(const json_t *id)
{
	return json_is_number(id) || (json_is_string(id) && json_string_length(id) <= RPC_ID_MAX);
}

static int parse_call(const json_t *json, struct rpc_message *m, struct rpc_fault *fault)
{
	const json_t *method = json_object_get(json, "method");
	const json_t *params = json_object_get(json, "params");

	m->kind = json_object_get(json, "id") ? RPC_REQUEST : RPC_NOTIFICATION;
	if (m->kind == RPC_REQUEST && !m->id)
		return fail(fault, RPC_INVALID_REQUEST, "an id is a text or a number");
	if (!json_is_string(method) || json_string_length(method) == 0 ||
		json_string_length(method) > RPC_METHOD_MAX)
		return fail(fault, RPC_INVALID_REQUEST, "method: a text of 1 to %u bytes",
			RPC_METHOD_MAX);
	if (params && !json_is_object(params) && !json_is_array(params))
		return fail(fault, RPC_INVALID_REQUEST, "params: an object or an array");
	m->method = json_string_value(method);
	m->params = params;
	return 0;
}

static int parse_response(const json_t *json, struct rpc_message *m, struct rpc_fault *fault)
{
	const json_t *id = json_object_get(json, "id");
	const json_t *error = json_object_get(json, "error");

	m->kind = RPC_RESPONSE;
	m->result = json_object_get(json, "result");
	m->error = error;
	if (!m->id && !json_is_null(id))
		return fail(fault, RPC_INVALID_REQUEST, "an id is a text or a number");
	if (!m->result == !error)
		return fail(fault, RPC_INVALID_REQUEST,
			"a message has a method, or a result, or an error");
	if (error && (!json_is_object(error) || !json_is_integer(json_object_get(error, "code")) ||
			     !json_is_string(json_object_get(error, "message"))))
		return fail(fault, RPC_INVALID_REQUEST, "error: an object with code and message");
	return 0;
}

int rpc_parse(const json_t *json, struct rpc_message *ret, struct rpc_fault *fault)
{
	const json_t *id = json_object_get(json, "id");
	const char *version = json_string_value(json_object_get(json, "jsonrpc"));

	*ret = (struct rpc_message){ .id = is_id(id) ? id : NULL };
	if (!json_is_object(json))
		return fail(fault, RPC_INVALID_REQUEST, "a message is an object");
	if (!version || !streq(version, "2.0"))
		return fail(fault, RPC_INVALID_REQUEST, "jsonrpc: must be \"2.0\"");
	if (json_object_get(json, "method"))
		return parse_call(json, ret, fault);
	return parse_response(json, ret, fault);
}

/* --- writing --- */

static json_t *begin(const json_t *id)
{
	json_t *o = json_pack("{s:s}", "jsonrpc", "2.0");

	(void)json_object_set_new(o, "id", id ? json_incref((json_t *)id) : json_null());
	return o;
}

json_t *rpc_result(const json_t *id, json_t *result)
{
	json_t *o = begin(id);

	(void)json_object_set_new(o, "result", result ? result : json_object());
	return o;
}

json_t *rpc_error(const json_t *id, int code, const char *text, json_t *data)
{
	json_t *o = begin(id);
	json_t *error = json_pack("{s:i,s:s}", "code", code, "message", text);

	if (!error) /* the text is not UTF-8 */
		error = json_pack("{s:i,s:s}", "code", code, "message", "an error");
	if (data)
		(void)json_object_set_new(error, "data", data);
	(void)json_object_set_new(o, "error", error);
	return o;
}

json_t *rpc_request(const json_t *id, const char *method, json_t *params)
{
	json_t *o = begin(id);

	(void)json_object_set_new(o, "method", json_string(method));
	if (params)
		(void)json_object_set_new(o, "params", params);
	return o;
}

json_t *rpc_notification(const char *method, json_t *params)
{
	json_t *o = json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", method);

	if (params)
		(void)json_object_set_new(o, "params", params);
	return o;
}
