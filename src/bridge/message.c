#include "bridge/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/mirror.h"

#define VERSION_MAX 32u
#define FIELD_MAX   4096u /* bytes; the server has no longer names */

static json_t *id_of(const json_t *object)
{
	json_t *id = json_object_get(object, "id");

	return json_is_string(id) || json_is_number(id) ? json_incref(id) : NULL;
}

/* What the head can not say is left out, and the server says what is missing. */
static void write_mirror(FILE *out, const char *name, const char *text, bool may_encode)
{
	if (!text || strlen(text) > FIELD_MAX)
		return;
	AUTO_FREE char *value = mirror_encode(text);
	if (may_encode || streq(value, text))
		(void)fprintf(out, "%s: %s\r\n", name, value);
}

/* NULL for a request that names no version. */
static char *fields_of(const json_t *params, const char *method)
{
	const json_t *meta = json_object_get(params, "_meta");
	const char *version =
		json_string_value(json_object_get(meta, "io.modelcontextprotocol/protocolVersion"));
	const char *name = json_string_value(json_object_get(params, "name"));
	const char *uri = json_string_value(json_object_get(params, "uri"));
	char *text = NULL;
	size_t size = 0;

	if (!version)
		return NULL;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		abort();
	write_mirror(out, "MCP-Protocol-Version", version, false);
	write_mirror(out, "Mcp-Method", method, false);
	write_mirror(out, "Mcp-Name", name ? name : uri, true);
	if (fclose(out) != 0)
		abort();
	return text;
}

static void look_at_method(const json_t *object, const char *method, struct message *m)
{
	m->is_initialize = streq(method, "initialize");
	m->is_initialized = streq(method, "notifications/initialized");
	m->is_listen = streq(method, "subscriptions/listen");
	if (m->kind == MESSAGE_REQUEST)
		m->fields = fields_of(json_object_get(object, "params"), method);
	if (streq(method, "notifications/cancelled"))
		m->cancels = json_incref(
			json_object_get(json_object_get(object, "params"), "requestId"));
}

static int look_at(const json_t *json, struct message *m, struct err *err)
{
	if (json_is_array(json) && json_array_size(json) > 0) {
		m->kind = MESSAGE_BATCH;
		return 0;
	}
	const char *method = json_string_value(json_object_get(json, "method"));
	m->id = id_of(json);
	if (method && !m->id && json_object_get(json, "id"))
		return err_set(err, -EINVAL, "an id is a text or a number");
	if (method) {
		m->kind = m->id ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
		look_at_method(json, method, m);
		return 0;
	}
	if (!json_object_get(json, "result") && !json_object_get(json, "error"))
		return err_set(err, -EINVAL, "neither a request nor a notification nor an answer");
	m->kind = MESSAGE_RESPONSE;
	return 0;
}

/* What we do not take may still be JSON with an id, whose sender waits for an answer. */
static json_t *find_id(const char *text, size_t size)
{
	AUTO_JSON *json = json_loadb(text, size, JSON_ALLOW_NUL, NULL);

	return id_of(json);
}

int message_parse(const char *text, size_t size, struct message *ret, struct err *err)
{
	AUTO_JSON *json = NULL;
	struct message m = { 0 };
	int r = json_read(text, size, &json, err);

	if (r < 0) {
		ret->id = find_id(text, size);
		return r;
	}
	r = look_at(json, &m, err);
	*ret = m;
	return r;
}

void message_fini(struct message *m)
{
	json_decref(m->id);
	json_decref(m->cancels);
	free(m->fields);
	*m = (struct message){ 0 };
}

char *message_error(const json_t *id, int code, const char *text)
{
	AUTO_JSON *json = json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id",
		id ? id : json_null(), "error", "code", code, "message", text);
	char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;

	if (!line)
		abort(); /* the texts are ours, and UTF-8 */
	return line;
}

/* Where our errors have their sentence, and JSON-RPC's. */
static const char *find_sentence(const json_t *json)
{
	const json_t *error = json_object_get(json, "error");
	const json_t *const places[] = {
		json_object_get(error, "message"),
		json_object_get(json, "detail"),
		json_object_get(json, "message"),
		error,
	};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (json_is_string(places[i]))
			return json_string_value(places[i]);
	}
	return NULL;
}

char *message_explain(int status, const char *body, size_t size)
{
	AUTO_JSON *json = NULL;
	const char *sentence = json_read(body, size, &json, NULL) == 0 ? find_sentence(json) : NULL;
	char *text = NULL;

	if (asprintf(&text, sentence ? "%s (HTTP %d)" : "%sthe server answered with HTTP %d",
		    sentence ? sentence : "", status) < 0)
		abort();
	return text;
}

bool message_is_answer(const char *body, size_t size)
{
	AUTO_JSON *json = NULL;

	if (json_read(body, size, &json, NULL) < 0)
		return false;
	return json_object_get(json, "jsonrpc") && json_object_get(json, "id") &&
	       !json_is_null(json_object_get(json, "id"));
}

char *message_version(const char *body, size_t size)
{
	AUTO_JSON *json = NULL;

	if (json_read(body, size, &json, NULL) < 0)
		return NULL;
	const char *version = json_string_value(
		json_object_get(json_object_get(json, "result"), "protocolVersion"));
	if (!version || strlen(version) > VERSION_MAX ||
		version[strspn(version, "0123456789-abcdefghijklmnopqrstuvwxyz")])
		return NULL;
	return xstrdup(version);
}
