#include "core/request.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/request_private.h"
#include "core/settings.h"
#include "ipc/pack.h"
#include "ipc/spec.h"

enum field_type {
	FIELD_TEXT,
	FIELD_WORD,   /* one of a list */
	FIELD_NUMBER, /* integer from min to max */
	FIELD_MILLI,  /* real number, kept in thousandths */
	FIELD_BOOL,
	FIELD_TEXTS, /* array of at most max texts */
	FIELD_MAP,   /* object of at most max texts */
	FIELD_OTHER, /* looked at by its own check */
};

struct field {
	const char *name; /* "resources.cpu" is the member "cpu" of "resources" */
	enum field_type type;
	unsigned kinds; /* of requests it belongs to */
	size_t offset;
	uint64_t min;
	uint64_t max;
	const char *const *words;
	const char *standard; /* JSON; NULL: none */
	int (*check)(const json_t *value, struct problem *problem);
	json_t *(*clean)(const json_t *value); /* only what is known of it; a new value */
};

#define SESSION (1u << REQUEST_SESSION)
#define RUN     (1u << REQUEST_RUN)
#define BOTH    (SESSION | RUN)
#define AT(f)   offsetof(struct request, f)

static int check_command(const json_t *value, struct problem *problem);
static int check_env(const json_t *value, struct problem *problem);
static int check_files(const json_t *value, struct problem *problem);
static int check_git(const json_t *value, struct problem *problem);
static int check_globs(const json_t *value, struct problem *problem);
static int check_labels(const json_t *value, struct problem *problem);
static int check_resources(const json_t *value, struct problem *problem);
static json_t *clean_files(const json_t *value);
static json_t *clean_git(const json_t *value);
static json_t *clean_resources(const json_t *value);

static const char *const runtime_words[] = { "native", "docker", "firecracker", NULL };
static const char *const network_words[] = { "deny_all", "allowlist", NULL };
static const char *const trust_words[] = { "trusted", "standard", "untrusted", NULL };

#define TEXT(n)          #n, FIELD_TEXT, BOTH, AT(n), 1, REQUEST_TEXT_MAX, NULL, NULL, NULL
#define RUN_NUMBER(n, m) #n, FIELD_NUMBER, RUN, AT(n), 0, m, NULL, NULL, NULL

static const struct field fields[] = {
	{ "spec_version", FIELD_TEXT, BOTH, AT(spec_version), 0, 32, NULL, "\"1.0\"", NULL },
	{ "session_id", FIELD_TEXT, RUN, AT(session_id), 1, REQUEST_TEXT_MAX, NULL, NULL, NULL },
	{ "base_image", FIELD_TEXT, BOTH, AT(base_image), 1, REQUEST_IMAGE_MAX, NULL, NULL, NULL },
	{ "runtime", FIELD_WORD, BOTH, AT(runtime), 0, 0, runtime_words, NULL, NULL },
	{ "network_policy", FIELD_WORD, BOTH, AT(network_policy), 0, 0, network_words,
		"\"deny_all\"", NULL },
	{ "trust_level", FIELD_WORD, BOTH, AT(trust_level), 0, 0, trust_words, "\"standard\"",
		NULL },
	{ TEXT(persona_id) },
	{ TEXT(workspace_id) },
	{ TEXT(workspace_group_id) },
	{ TEXT(scope_snapshot_id) },
	{ "command", FIELD_TEXTS, RUN, AT(command), 1, REQUEST_COMMAND_MAX, NULL, NULL,
		check_command },
	{ "env", FIELD_MAP, BOTH, AT(env), 0, POLICY_ENV_MAX, NULL, "{}", check_env },
	{ "labels", FIELD_MAP, BOTH, AT(labels), 0, REQUEST_LABELS_MAX, NULL, "{}", check_labels },
	{ "capture_patterns", FIELD_TEXTS, RUN, AT(capture_patterns), 0, REQUEST_GLOBS_MAX, NULL,
		"[]", check_globs },
	{ "files", FIELD_OTHER, RUN, AT(files), 0, REQUEST_FILES_MAX, NULL, "[]", check_files,
		clean_files },
	{ "git", FIELD_OTHER, BOTH, AT(git), 0, 0, NULL, NULL, check_git, clean_git },
	{ "resources", FIELD_OTHER, RUN, SIZE_MAX, 0, 0, NULL, "{}", check_resources,
		clean_resources },
	{ "cpu_limit", FIELD_MILLI, SESSION, AT(cpu_milli), 0, 1u << 20, NULL, NULL, NULL },
	{ "memory_mb", FIELD_NUMBER, SESSION, AT(memory_mb), 64, 1u << 30, NULL, NULL, NULL },
	{ "timeout_sec", FIELD_NUMBER, BOTH, AT(timeout_sec), 1, 3600, NULL, NULL, NULL },
	{ RUN_NUMBER(timeout_ms, 3600u * 1000u) },
	{ RUN_NUMBER(max_output_bytes, INT64_MAX) },
	{ "stdin", FIELD_TEXT, RUN, AT(input), 0, REQUEST_STDIN_MAX, NULL, NULL, NULL },
	{ "startup_timeout_sec", FIELD_NUMBER, RUN, AT(startup_timeout_sec), 1, POLICY_STARTUP_MAX,
		NULL, NULL, NULL },
	{ "interactive", FIELD_BOOL, RUN, AT(interactive), 0, 0, NULL, "false", NULL },
	{ RUN_NUMBER(stdin_max_bytes, INT64_MAX) },
	{ RUN_NUMBER(stdin_max_frame_bytes, INT64_MAX) },
	{ RUN_NUMBER(stdin_bps, INT64_MAX) },
	{ RUN_NUMBER(stdin_idle_timeout_sec, INT64_MAX) },
	{ RUN_NUMBER(resume_from_seq, INT64_MAX) },
};

/* The two that a run has one level down. */
static const struct field resource_fields[] = {
	{ "resources.cpu", FIELD_MILLI, RUN, AT(cpu_milli), 0, 1u << 20, NULL, NULL, NULL },
	{ "resources.memory_mb", FIELD_NUMBER, RUN, AT(memory_mb), 64, 1u << 30, NULL, NULL, NULL },
	{ 0 },
};

static const struct field git_fields[] = {
	{ "git.url", FIELD_TEXT, SESSION, SIZE_MAX, 1, 2048, NULL, NULL, NULL },
	{ "git.ref", FIELD_TEXT, SESSION, SIZE_MAX, 1, 256, NULL, NULL, NULL },
	{ "git.patch", FIELD_TEXT, SESSION, SIZE_MAX, 0, REQUEST_PATCH_MAX, NULL, NULL, NULL },
	{ "git.depth", FIELD_NUMBER, SESSION, SIZE_MAX, 1, 1000000, NULL, NULL, NULL },
	{ 0 },
};

static const struct field file_fields[] = {
	{ "files.path", FIELD_TEXT },
	{ "files.content_b64", FIELD_TEXT },
	{ 0 },
};

/* Of an object, the member that a field is; NULL also for a null. */
static json_t *get_member(const json_t *object, const struct field *f)
{
	const char *dot = strchr(f->name, '.');
	json_t *value = json_object_get(object, dot ? dot + 1 : f->name);

	return json_is_null(value) ? NULL : value;
}

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++) {
		if (streq(word, *words))
			return true;
	}
	return false;
}

static size_t count(const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return n;
}

static int check_word(const struct field *f, const json_t *value, struct problem *problem)
{
	const char *word = json_string_value(value);
	char list[128] = "";

	if (word && is_one_of(word, f->words))
		return 0;
	for (size_t i = 0; i < count(f->words); i++) {
		size_t n = strlen(list);

		(void)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", f->words[i]);
	}
	return problem_field(problem, f->name, "must be one of %s", list);
}

static int check_text(const struct field *f, const json_t *value, struct problem *problem)
{
	if (!json_is_string(value))
		return problem_field(problem, f->name, "must be a text");
	if (json_string_length(value) < f->min || json_string_length(value) > f->max)
		return problem_field(problem, f->name, "must have %llu to %llu bytes",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_number(const struct field *f, const json_t *value, struct problem *problem)
{
	json_int_t n = json_integer_value(value);

	if (!json_is_integer(value))
		return problem_field(problem, f->name, "must be an integer");
	if (n < 0 || (uint64_t)n < f->min || (uint64_t)n > f->max)
		return problem_field(problem, f->name, "must be between %llu and %llu",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_milli(const struct field *f, const json_t *value, struct problem *problem)
{
	double v = json_number_value(value);

	if (!json_is_number(value))
		return problem_field(problem, f->name, "must be a number");
	if (!isfinite(v) || v < (double)f->min || v > (double)f->max)
		return problem_field(problem, f->name, "must be between %llu and %llu",
			(unsigned long long)f->min, (unsigned long long)f->max);
	return 0;
}

static int check_bool(const struct field *f, const json_t *value, struct problem *problem)
{
	return json_is_boolean(value) ? 0
				      : problem_field(problem, f->name, "must be true or false");
}

static int check_texts(const struct field *f, const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	if (!json_is_array(value))
		return problem_field(problem, f->name, "must be a list of texts");
	if (json_array_size(value) < f->min || json_array_size(value) > f->max)
		return problem_field(problem, f->name, "must have %llu to %llu items",
			(unsigned long long)f->min, (unsigned long long)f->max);
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item))
			return problem_field(problem, f->name, "item %zu is not a text", i);
	}
	return 0;
}

static int check_map(const struct field *f, const json_t *value, struct problem *problem)
{
	const char *key;
	json_t *item;

	if (!json_is_object(value))
		return problem_field(problem, f->name, "must be an object of texts");
	if (json_object_size(value) > f->max)
		return problem_field(problem, f->name, "must have at most %llu members",
			(unsigned long long)f->max);
	json_object_foreach((json_t *)value, key, item)
	{
		if (!json_is_string(item))
			return problem_field(
				problem, f->name, "the value of '%.64s' is not a text", key);
	}
	return 0;
}

static int check_nothing(const struct field *f, const json_t *value, struct problem *problem)
{
	(void)f;
	(void)value;
	(void)problem;
	return 0;
}

static int (*const checks[])(
	const struct field *f, const json_t *value, struct problem *problem) = {
	[FIELD_TEXT] = check_text,
	[FIELD_WORD] = check_word,
	[FIELD_NUMBER] = check_number,
	[FIELD_MILLI] = check_milli,
	[FIELD_BOOL] = check_bool,
	[FIELD_TEXTS] = check_texts,
	[FIELD_MAP] = check_map,
	[FIELD_OTHER] = check_nothing,
};

static int check_sizes(const char *field, const json_t *value, size_t max, struct problem *problem)
{
	if (json_string_length(value) > max)
		return problem_field(problem, field, "has a text of more than %zu bytes", max);
	return 0;
}

static int check_command(const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	if (json_string_length(json_array_get(value, 0)) == 0)
		return problem_field(problem, "command", "the program's name is empty");
	json_array_foreach(value, i, item)
	{
		if (check_sizes("command", item, SPEC_STRING_MAX, problem) < 0)
			return -1;
	}
	return 0;
}

static int check_env(const json_t *value, struct problem *problem)
{
	struct err err = { 0 };

	return policy_check_env(value, &err) < 0 ? problem_field(problem, "env", "%s", err.text)
						 : 0;
}

int request_refuse_file(struct problem *problem, size_t i, const char *why)
{
	(void)problem_set(
		problem, "invalid_inline_file", "invalid inline file at index %zu: %s", i, why);
	problem_add(problem, "index", json_integer((json_int_t)i));
	return -1;
}

static int check_files(const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	if (!json_is_array(value))
		return problem_field(problem, "files", "must be a list of {path, content_b64}");
	if (json_array_size(value) > REQUEST_FILES_MAX)
		return problem_field(
			problem, "files", "must have at most %u items", REQUEST_FILES_MAX);
	json_array_foreach(value, i, item)
	{
		const json_t *path = json_object_get(item, "path");

		if (!json_is_string(path) || !json_is_string(json_object_get(item, "content_b64")))
			return request_refuse_file(
				problem, i, "needs path and content_b64, both texts");
		if (!pack_name_is_clean(json_string_value(path)) ||
			strchr(json_string_value(path), '\\'))
			return request_refuse_file(
				problem, i, "the path must be relative, without '..' or '\\'");
	}
	return 0;
}

static int check_globs(const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		if (json_string_length(item) == 0)
			return problem_field(problem, "capture_patterns", "item %zu is empty", i);
		if (check_sizes("capture_patterns", item, REQUEST_GLOB_MAX, problem) < 0)
			return -1;
	}
	return 0;
}

static int check_labels(const json_t *value, struct problem *problem)
{
	const char *key;
	json_t *item;

	json_object_foreach((json_t *)value, key, item)
	{
		if (strlen(key) > REQUEST_TEXT_MAX)
			return problem_field(problem, "labels", "has a name of more than %u bytes",
				REQUEST_TEXT_MAX);
		if (check_sizes("labels", item, REQUEST_TEXT_MAX, problem) < 0)
			return -1;
	}
	return 0;
}

static int check_members(const json_t *object, const struct field *f, struct problem *problem)
{
	for (; f->name; f++) {
		const json_t *value = get_member(object, f);

		if (value && checks[f->type](f, value, problem) < 0)
			return -1;
	}
	return 0;
}

static int check_git(const json_t *value, struct problem *problem)
{
	if (!get_member(value, &git_fields[0]))
		return problem_field(problem, "git", "must be an object with a url");
	return check_members(value, git_fields, problem);
}

static int check_resources(const json_t *value, struct problem *problem)
{
	if (!json_is_object(value))
		return problem_field(problem, "resources", "must be an object");
	return check_members(value, resource_fields, problem);
}

/* However little is asked for, it is not nothing: 0 would stand for all there is. */
static uint64_t to_milli(const json_t *value)
{
	double v = json_number_value(value);
	long long milli = llround(v * 1000);

	return milli > 0 ? (uint64_t)milli : v > 0;
}

/* The form in which a value that was checked is kept, equal for what means the same; a new
 * value, or NULL for a number that says as much as none. */
static json_t *clean_value(const struct field *f, json_t *value)
{
	if (f->type == FIELD_NUMBER && json_integer_value(value) == 0)
		return NULL;
	if (f->type == FIELD_MILLI)
		return to_milli(value) ? json_real((double)to_milli(value) / 1000) : NULL;
	return f->clean ? f->clean(value) : json_incref(value);
}

static json_t *clean_members(const json_t *object, const struct field *f)
{
	json_t *clean = json_object();

	for (; f->name; f++) {
		json_t *value = get_member(object, f);
		json_t *kept = value ? clean_value(f, value) : NULL;

		if (kept)
			(void)json_object_set_new(clean, strchr(f->name, '.') + 1, kept);
	}
	return clean;
}

static json_t *clean_files(const json_t *value)
{
	json_t *clean = json_array();
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		(void)json_array_append_new(clean, clean_members(item, file_fields));
	}
	return clean;
}

static json_t *clean_git(const json_t *value)
{
	return clean_members(value, git_fields);
}

static json_t *clean_resources(const json_t *value)
{
	return clean_members(value, resource_fields);
}

static void store_value(const struct field *f, json_t *value, struct request *ret)
{
	if (f->offset == SIZE_MAX)
		return;
	void *at = (char *)ret + f->offset;
	switch (f->type) {
	case FIELD_TEXT:
	case FIELD_WORD:
		*(const char **)at = json_string_value(value);
		break;
	case FIELD_NUMBER:
		*(uint64_t *)at = (uint64_t)json_integer_value(value);
		break;
	case FIELD_MILLI:
		*(uint64_t *)at = to_milli(value);
		break;
	case FIELD_BOOL:
		*(bool *)at = json_is_true(value);
		break;
	case FIELD_TEXTS:
	case FIELD_MAP:
	case FIELD_OTHER:
		*(const json_t **)at = value;
		break;
	}
}

static void store_resources(struct request *ret)
{
	const json_t *resources = json_object_get(ret->body, "resources");

	for (const struct field *f = resource_fields; f->name; f++) {
		json_t *value = get_member(resources, f);

		if (value)
			store_value(f, value, ret);
	}
}

static int parse_field(
	const struct field *f, json_t *value, struct request *ret, struct problem *problem)
{
	if (checks[f->type](f, value, problem) < 0)
		return -1;
	if (f->check && f->check(value, problem) < 0)
		return -1;
	json_t *kept = clean_value(f, value);
	if (!kept)
		return 0;
	(void)json_object_set_new(ret->body, f->name, kept);
	store_value(f, kept, ret);
	return 0;
}

static int parse_fields(
	const json_t *body, enum request_kind kind, struct request *ret, struct problem *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		json_t *value = get_member(body, f);

		if (!(f->kinds & (1u << kind)) || !value)
			continue;
		if (parse_field(f, value, ret, problem) < 0)
			return -1;
	}
	store_resources(ret);
	return 0;
}

static int check_run(const struct request *r, struct problem *problem)
{
	if (!r->command)
		return problem_field(problem, "command", "is required");
	if (!r->session_id == !r->base_image)
		return problem_field(
			problem, "body", "Provide exactly one of session_id or base_image");
	if (r->git && r->session_id)
		return problem_field(problem, "git",
			"is for a run with base_image; a session is made with its own git");
	if (r->input && r->interactive)
		return problem_field(problem, "stdin", "an interactive run is given none");
	return 0;
}

int request_parse(
	const json_t *body, enum request_kind kind, struct request *ret, struct problem *problem)
{
	*ret = (struct request){ 0 };
	if (!json_is_object(body))
		return problem_field(problem, "body", "must be a JSON object");
	ret->body = json_object();
	int r = parse_fields(body, kind, ret, problem);
	if (r == 0 && kind == REQUEST_RUN)
		r = check_run(ret, problem);
	if (r < 0)
		request_fini(ret);
	return r;
}

void request_fini(struct request *r)
{
	json_decref(r->body);
	*r = (struct request){ 0 };
}

int request_decide(const struct request *r, const struct settings *c, struct policy *ret,
	struct problem *problem)
{
	struct policy_refusal refusal = { 0 };
	struct policy_request asked = {
		.spec_version = r->spec_version,
		.trust_level = r->trust_level,
		.runtime = r->runtime,
		.network_policy = r->network_policy,
		.cpu_milli = r->cpu_milli,
		.memory_mb = r->memory_mb,
		.timeout_sec = r->timeout_sec,
		.timeout_ms = r->timeout_ms,
		.startup_timeout_sec = r->startup_timeout_sec,
	};

	if (policy_decide(c, &asked, ret, &refusal) == 0)
		return 0;
	int result = problem_from_policy(problem, &refusal);
	policy_refusal_fini(&refusal);
	return result;
}

/* What the settings say where a request does not; in a session that is the session's to say. */
static void fill_from_settings(json_t *body, enum request_kind kind, const struct settings *c)
{
	if (json_object_get(body, "session_id"))
		return;
	json_set_missing(body, "runtime", json_string(c->default_runtime));
	if (!json_object_get(body, "timeout_ms"))
		json_set_missing(
			body, "timeout_sec", json_integer((json_int_t)c->exec_timeout_sec));
	if (kind == REQUEST_RUN)
		json_set_missing(body, "startup_timeout_sec",
			json_integer((json_int_t)c->startup_timeout_sec));
}

void request_fingerprint(
	const struct request *r, enum request_kind kind, const struct settings *c, char ret[65])
{
	AUTO_JSON *whole = json_copy(r->body);

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];

		if ((f->kinds & (1u << kind)) && f->standard)
			json_set_missing(
				whole, f->name, json_loads(f->standard, JSON_DECODE_ANY, NULL));
	}
	fill_from_settings(whole, kind, c);
	AUTO_FREE char *text = json_canonical(whole);
	digest_of(text, strlen(text), ret);
}
