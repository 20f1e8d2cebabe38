#include "api/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/str.h"
#include "core/problem.h"
#include "http/http.h"

static json_t *details_of(const struct problem *p)
{
	return p->details ? json_incref(p->details) : json_object();
}

static json_t *error_object(const struct problem *p)
{
	return json_pack(
		"{s:s,s:s,s:o}", "code", p->code, "message", p->message, "details", details_of(p));
}

/* --- what `detail` is --- */

static json_t *detail_message(const struct problem *p)
{
	return json_string(p->message);
}

/* {"error": code, ...details} */
static json_t *detail_object(const struct problem *p)
{
	json_t *o = json_pack("{s:s}", "error", p->code);

	(void)json_object_update(o, p->details);
	return o;
}

/* {"error": {code, message, details}} */
static json_t *detail_nested(const struct problem *p)
{
	return json_pack("{s:o}", "error", error_object(p));
}

/* [{"type", "loc", "msg"}] */
static json_t *detail_list(const struct problem *p)
{
	static const char *const places[] = {
		[PROBLEM_IN_BODY] = "body",
		[PROBLEM_IN_QUERY] = "query",
		[PROBLEM_IN_HEADER] = "header",
	};
	const char *field = json_string_value(json_object_get(p->details, "field"));
	json_t *loc = json_pack("[s]", places[p->place]);

	if (field && !streq(field, "body"))
		(void)json_array_append_new(loc, json_string(field));
	return json_pack("[{s:s,s:o,s:s}]", "type", "value_error", "loc", loc, "msg", p->message);
}

/* All others have their code: "run_not_found". */
static const struct {
	const char *code;
	const char *text;
	json_t *(*make)(const struct problem *p); /* without a text */
} details[] = {
	{ "not_found", "Not Found", NULL },
	{ "method_not_allowed", "Method Not Allowed", NULL },
	{ "unauthorized", NULL, detail_message },
	{ "forbidden", NULL, detail_message },
	{ "snapshot_not_found", NULL, detail_message },
	{ "session_has_active_runs", NULL, detail_object },
	{ "session_cancel_drain_timeout", NULL, detail_object },
	{ "invalid_inline_file", NULL, detail_nested },
	{ "session_base_image_required", NULL, detail_nested },
	{ "invalid_request", NULL, detail_list },
};

json_t *reply_detail(const struct problem *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(details); i++) {
		if (!streq(details[i].code, p->code))
			continue;
		return details[i].text ? json_string(details[i].text) : details[i].make(p);
	}
	return json_string(p->code);
}

/* --- headers --- */

/* Is the media type at the start of `text`, up to parameters or the next one of a list, this
 * one? */
static bool is_media_type(const char *text, const char *type)
{
	size_t size = strlen(type);

	text += strspn(text, " \t");
	return strncasecmp(text, type, size) == 0 && strchr("; \t,", text[size]) != NULL;
}

#define WEIGHT_FULL 1000

/* "0.25" in thousandths; what is no weight counts as none at all: fully. */
static int parse_weight(const char *text)
{
	int weight = 0;

	if (*text != '0')
		return WEIGHT_FULL;
	text += text[1] == '.' ? 2 : 1;
	for (int digit = WEIGHT_FULL / 10; digit > 0; digit /= 10) {
		if (*text >= '0' && *text <= '9')
			weight += digit * (*text++ - '0');
	}
	return strchr("; \t,", *text) ? weight : WEIGHT_FULL;
}

/* The weight among the parameters at `text`, up to the next one of a list. */
static int find_weight(const char *text)
{
	const char *end = text + strcspn(text, ",");

	for (const char *at = text; (at = memchr(at, ';', (size_t)(end - at)));) {
		at++;
		at += strspn(at, " \t");
		if (strncasecmp(at, "q=", 2) == 0)
			return parse_weight(at + 2);
	}
	return WEIGHT_FULL;
}

/* How much a list wants this very type, or range of types: -1 when it does not name it. */
static int weight_of(const char *accept, const char *type)
{
	int weight = -1;

	for (const char *at = accept; at; at = strchr(at, ',')) {
		at += *at == ',';
		int found = is_media_type(at, type) ? find_weight(at) : -1;
		weight = found > weight ? found : weight;
	}
	return weight;
}

/* What is said of the type itself counts, and only without that what is said of its kin. */
static int weight_of_json(const char *accept)
{
	static const char *const names[] = { "application/json", "application/*", "*/*" };
	int weight = -1;

	for (size_t i = 0; weight < 0 && i < ARRAY_SIZE(names); i++)
		weight = weight_of(accept, names[i]);
	return weight;
}

bool reply_wants_problem(const char *accept)
{
	int weight = weight_of(accept, "application/problem+json");

	return weight > 0 && weight >= weight_of_json(accept);
}

bool reply_is_json(const char *type)
{
	size_t size = strcspn(type, "; \t");

	if (is_media_type(type, "application/json") ||
		is_media_type(type, "application/x-www-form-urlencoded"))
		return true;
	return size > 5 && strncasecmp(type + size - 5, "+json", 5) == 0;
}

/* --- answers --- */

/* Answers are of one moment and for one client; none is a page. */
static void set_common_headers(struct exchange *x)
{
	exchange_set_header(x, "Cache-Control", "no-store");
	exchange_set_header(x, "X-Content-Type-Options", "nosniff");
}

/* Seconds and cores are rounded; nobody is to see the noise behind their last digit. */
#define DIGITS 15

static void send_json(struct exchange *x, int status, const char *type, json_t *json)
{
	size_t size;
	AUTO_FREE char *text = json_write(json, 0, DIGITS, &size);

	json_decref(json);
	set_common_headers(x);
	exchange_reply_bytes(x, status, type, text, size);
}

void reply_json(struct exchange *x, int status, json_t *json)
{
	json_t *warnings = api_warnings(x);

	if (status < 300 && warnings)
		(void)json_object_set(json, "warnings", warnings);
	send_json(x, status, "application/json", json);
}

/* RFC 7807; what we know beyond it is in `extensions`. */
static json_t *problem_document(const struct problem *p)
{
	char type[80];
	json_t *extensions = json_object();

	(void)json_object_update(extensions, p->details);
	(void)json_object_set_new(extensions, "code", json_string(p->code));
	(void)snprintf(type, sizeof(type), "urn:belljar:problem:%s", p->code);
	return json_pack("{s:s,s:s,s:s,s:i,s:o}", "type", type, "title", p->message, "detail",
		p->message, "status", p->status, "extensions", extensions);
}

void reply_problem(struct exchange *x, const struct problem *p)
{
	char seconds[24];

	if (p->retry_after) {
		(void)snprintf(
			seconds, sizeof(seconds), "%llu", (unsigned long long)p->retry_after);
		exchange_set_header(x, "Retry-After", seconds);
	}
	if (p->status == 401)
		exchange_set_header(x, "WWW-Authenticate", "Bearer");
	if (reply_wants_problem(exchange_header(x, "accept")))
		send_json(x, p->status, "application/problem+json", problem_document(p));
	else
		reply_json(x, p->status,
			json_pack(
				"{s:o,s:o}", "error", error_object(p), "detail", reply_detail(p)));
}

void reply_refusal(struct exchange *x, const char *code, const char *fmt, ...)
{
	struct problem p = { 0 };
	char text[sizeof(p.message)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)problem_set(&p, code, "%s", text);
	reply_problem(x, &p);
	problem_fini(&p);
}

void reply_field(
	struct exchange *x, enum problem_place place, const char *field, const char *fmt, ...)
{
	struct problem p = { 0 };
	char text[sizeof(p.message)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)problem_field(&p, field, "%s", text);
	p.place = place;
	reply_problem(x, &p);
	problem_fini(&p);
}

void reply_unauthorized(struct exchange *x)
{
	reply_refusal(x, "unauthorized", "Not authenticated (provide Bearer token or X-API-KEY)");
}

void reply_wrong_credentials(struct exchange *x)
{
	reply_refusal(x, "unauthorized", "Not authenticated: unknown key, or invalid token");
}

void reply_error(struct exchange *x, int status, const char *code, const char *message)
{
	struct problem p = { .status = status, .code = code };

	(void)snprintf(p.message, sizeof(p.message), "%s", message);
	if (streq(code, "payload_too_large")) /* what the server itself has measured */
		problem_add(&p, "field", json_string("body"));
	reply_problem(x, &p);
	problem_fini(&p);
}

/* --- bodies --- */

/* 400 that names the field, as far as there is one. */
static void refuse_json(struct exchange *x, const char *field, const char *why)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "invalid_json", "%s: %s", field, why);
	problem_add(&p, "field", json_string(field));
	reply_problem(x, &p);
	problem_fini(&p);
}

static int read_body(struct exchange *x, const char *body, size_t size, json_t **ret)
{
	const char *type = exchange_header(x, "content-type");
	struct err err = { 0 };

	if (type && !reply_is_json(type)) {
		reply_refusal(x, "unsupported_media_type",
			"the body must be application/json, not '%.100s'", type);
		return -EINVAL;
	}
	char field[JSON_FIELD_SIZE] = "";
	int r = size ? json_read_field(body, size, ret, field, &err)
		     : err_set(&err, -EBADMSG, "there is no body");
	if (r < 0)
		refuse_json(x, *field ? field : "body", err.text);
	else
		exchange_drop_body(x);
	return r;
}

int reply_read_json(struct exchange *x, json_t **ret)
{
	size_t size;
	const char *body = exchange_body(x, &size);

	return read_body(x, body, size, ret);
}

int reply_read_optional_json(struct exchange *x, json_t **ret)
{
	size_t size;
	const char *body = exchange_body(x, &size);

	if (size > 0)
		return read_body(x, body, size, ret);
	*ret = NULL;
	return 0;
}
