#include "fathom/fathom_message.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/date.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/unknown.h"

/* More than any policy allows: what is above these is lowered to them here, and to the server's
 * own later. Only a time that is too long is refused. */
#define TIMEOUT_MS_MAX (3600u * 1000u)
#define MEMORY_MB_MIN  64u
#define MEMORY_MB_MAX  (1u << 30)
#define SHARES_MIN     2u
#define SHARES_MAX     (1u << 20)
#define OUTPUT_MAX     (UINT64_C(1) << 40)
#define NAMES_MAX      24u

#define SHARES_STANDARD 512
#define OUTPUT_STANDARD (1 << 20)

struct field {
	const char *name;
	bool is_required;
	int (*check)(const struct field *f, const json_t *value, struct err *err);
	uint64_t min;
	uint64_t max;
	size_t offset; /* where it goes; SIZE_MAX: nowhere */
	void (*keep)(const struct field *f, const json_t *value, void *at);
};

static const char *const type_names[FATHOM_TYPE_COUNT] = {
	[FATHOM_EXECUTE] = "execute",
	[FATHOM_CANCEL] = "cancel",
	[FATHOM_PING] = "ping",
};

/* --- one field --- */

static int check_text(const struct field *f, const json_t *value, struct err *err)
{
	size_t size = json_string_length(value);

	if (!json_is_string(value))
		return err_set(err, -EBADMSG, "%s must be a string", f->name);
	if (size < f->min || size > f->max)
		return err_set(err, -EBADMSG, "%s must have %llu to %llu bytes, not %zu", f->name,
			(unsigned long long)f->min, (unsigned long long)f->max, size);
	return 0;
}

static int check_number(const struct field *f, const json_t *value, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || (uint64_t)n < f->min || (uint64_t)n > f->max)
		return err_set(err, -EBADMSG, "%s must be an integer from %llu to %llu", f->name,
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

/* Any that is enough: it is lowered to the most. */
static int check_amount(const struct field *f, const json_t *value, struct err *err)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || (uint64_t)n < f->min)
		return err_set(err, -EBADMSG, "%s must be an integer from %llu", f->name,
			(unsigned long long)f->min);
	return 0;
}

static int check_object(const struct field *f, const json_t *value, struct err *err)
{
	return json_is_object(value) ? 0 : err_set(err, -EBADMSG, "%s must be an object", f->name);
}

static int check_env(const struct field *f, const json_t *value, struct err *err)
{
	int r = check_object(f, value, err);

	return r < 0 || policy_check_env(value, err) == 0 ? r : -EBADMSG;
}

static int check_time(const struct field *f, const json_t *value, struct err *err)
{
	uint64_t ns;

	if (!json_is_string(value) || date_parse(json_string_value(value), &ns) < 0)
		return err_set(err, -EBADMSG,
			"%s must be an ISO 8601 time such as 2025-12-27T11:30:00.000Z", f->name);
	return 0;
}

static bool is_id(const json_t *value)
{
	const char *id = json_string_value(value);
	size_t size = json_string_length(value);

	if (!id || size < 1 || size > FATHOM_ID_MAX || strlen(id) != size)
		return false;
	for (; *id; id++) {
		if ((unsigned char)*id < 0x20 || *id == 0x7f)
			return false;
	}
	return true;
}

static int check_id(const struct field *f, const json_t *value, struct err *err)
{
	if (is_id(value))
		return 0;
	return err_set(err, -EBADMSG,
		"%s must be a string of 1 to %u bytes without control characters", f->name,
		FATHOM_ID_MAX);
}

static void keep_text(const struct field *f, const json_t *value, void *at)
{
	(void)f;
	*(const char **)at = json_string_value(value);
}

static void keep_number(const struct field *f, const json_t *value, void *at)
{
	uint64_t n = (uint64_t)json_integer_value(value);

	*(uint64_t *)at = n < f->max ? n : f->max;
}

static void keep_value(const struct field *f, const json_t *value, void *at)
{
	(void)f;
	*(const json_t **)at = value;
}

/* --- all of them --- */

#define AT(field) offsetof(struct fathom_message, field)
#define NOWHERE   SIZE_MAX, NULL

#define ID    "id", true, check_id, 0, 0, AT(id), keep_text
#define STAMP "ts", true, check_time, 0, 0, NOWHERE

static const struct field ping_fields[] = { { STAMP }, { 0 } };
static const struct field cancel_fields[] = { { ID }, { STAMP }, { 0 } };
static const struct field execute_fields[] = {
	{ ID },
	{ STAMP },
	{ "language", true, check_text, 1, 64, AT(language), keep_text },
	{ "code", true, check_text, 0, FATHOM_TEXT_MAX, AT(code), keep_text },
	{ "stdin", false, check_text, 0, FATHOM_TEXT_MAX, AT(input), keep_text },
	{ "env", false, check_env, 0, 0, AT(env), keep_value },
	{ "limits", true, check_object, 0, 0, NOWHERE },
	{ "limits.timeout_ms", true, check_number, 1, TIMEOUT_MS_MAX, AT(timeout_ms), keep_number },
	{ "limits.memory_mb", true, check_amount, MEMORY_MB_MIN, MEMORY_MB_MAX, AT(memory_mb),
		keep_number },
	{ "limits.cpu_shares", false, check_amount, SHARES_MIN, SHARES_MAX, AT(cpu_shares),
		keep_number },
	{ "limits.max_output_bytes", false, check_amount, 1, OUTPUT_MAX, AT(max_output_bytes),
		keep_number },
	{ 0 },
};

static const struct field *const fields_of[FATHOM_TYPE_COUNT] = {
	[FATHOM_EXECUTE] = execute_fields,
	[FATHOM_CANCEL] = cancel_fields,
	[FATHOM_PING] = ping_fields,
};

/* "limits.timeout_ms" is a member of "limits". A null is as good as nothing. */
static json_t *find_value(const json_t *body, const char *name)
{
	const char *dot = strchr(name, '.');
	const json_t *parent = dot ? json_object_get(body, "limits") : body;
	json_t *value = json_object_get(parent, dot ? dot + 1 : name);

	return json_is_null(value) ? NULL : value;
}

static int take_field(const struct field *f, struct fathom_message *m, struct err *err)
{
	const json_t *value = find_value(m->body, f->name);

	if (!value)
		return f->is_required ? err_set(err, -EBADMSG, "%s is required", f->name) : 0;
	int r = f->check(f, value, err);
	if (r == 0 && f->keep)
		f->keep(f, value, (char *)m + f->offset);
	return r;
}

static int check_version(const json_t *body, struct err *err)
{
	const json_t *v = find_value(body, "v");

	if (!v)
		return err_set(err, -EBADMSG, "v is required");
	if (!json_is_integer(v))
		return err_set(err, -EBADMSG, "v must be an integer");
	if (json_integer_value(v) != FATHOM_VERSION_SPOKEN)
		return err_set(err, -EBADMSG,
			"version %lld of the protocol is not supported, only %d",
			(long long)json_integer_value(v), FATHOM_VERSION_SPOKEN);
	return 0;
}

static int find_type(const json_t *body, enum fathom_type *ret, struct err *err)
{
	const char *name = json_string_value(find_value(body, "type"));

	for (int i = 0; name && i < FATHOM_TYPE_COUNT; i++) {
		if (streq(type_names[i], name)) {
			*ret = (enum fathom_type)i;
			return 0;
		}
	}
	return err_set(err, -EBADMSG, "type must be execute, cancel or ping");
}

static const char *const own_names[] = { "v", "type" };

/* Names that the message does not have; whoever got it decides what that means. */
static void note_unknown(struct fathom_message *m)
{
	const char *names[NAMES_MAX + 1] = { NULL };
	struct unknown_check c = { .names = names, .warns = true, .warnings = json_array() };
	struct problem none = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(own_names); i++)
		names[n++] = own_names[i];
	for (const struct field *f = fields_of[m->type]; f->name && n < NAMES_MAX; f++)
		names[n++] = f->name;
	(void)unknown_members(&c, m->body, "", "", &none);
	if (m->type == FATHOM_EXECUTE)
		(void)unknown_members(
			&c, json_object_get(m->body, "limits"), "limits", "limits", &none);
	m->warnings = c.warnings;
}

/* One that is refused for what stands somewhere in it may still say which execution it is about. */
static int read_body(const char *data, size_t size, json_t **ret, struct err *err)
{
	int r = json_read(data, size, ret, err);

	if (r < 0)
		(void)json_read_loosely(data, size, JSON_TAKES_NUL | JSON_TAKES_TWICE, ret, NULL);
	return r;
}

int fathom_message_parse(const char *data, size_t size, struct fathom_message *ret, struct err *err)
{
	*ret = (struct fathom_message){
		.cpu_shares = SHARES_STANDARD,
		.max_output_bytes = OUTPUT_STANDARD,
	};
	int r = read_body(data, size, &ret->body, err);
	if (is_id(find_value(ret->body, "id")))
		ret->id = json_string_value(find_value(ret->body, "id"));
	if (r < 0)
		return err_wrap(err, -EBADMSG, "a message must be one JSON object");
	if (!json_is_object(ret->body))
		return err_set(err, -EBADMSG, "a message must be one JSON object");
	r = check_version(ret->body, err);
	if (r == 0)
		r = find_type(ret->body, &ret->type, err);
	if (r < 0)
		return r;
	for (const struct field *f = fields_of[ret->type]; r == 0 && f->name; f++)
		r = take_field(f, ret, err);
	if (r == 0)
		note_unknown(ret);
	return r;
}

/* Code and variables do not stay in memory that others get. */
static void wipe(const json_t *text)
{
	if (json_is_string(text))
		explicit_bzero((char *)json_string_value(text), json_string_length(text));
}

void fathom_message_fini(struct fathom_message *m)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)m->env, name, value)
	{
		wipe(value);
	}
	wipe(json_object_get(m->body, "code"));
	json_decref(m->body);
	json_decref(m->warnings);
	*m = (struct fathom_message){ 0 };
}
