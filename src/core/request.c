#include "core/request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/str.h"
#include "core/policy.h"
#include "core/problem.h"
#include "core/request_field.h"
#include "core/request_private.h"
#include "core/settings.h"
#include "core/unknown.h"
#include "ipc/pack.h"
#include "ipc/spec.h"

#define SESSION (1u << REQUEST_SESSION)
#define RUN     (1u << REQUEST_RUN)
#define BOTH    (SESSION | RUN)
#define AT(f)   offsetof(struct request, f)

#define REQUEST_NAMES_MAX 80u

static int check_args(const json_t *value, struct problem *problem);
static int check_command(const json_t *value, struct problem *problem);
static int check_context(const json_t *value, struct problem *problem);
static int check_env(const json_t *value, struct problem *problem);
static int check_files(const json_t *value, struct problem *problem);
static int check_git(const json_t *value, struct problem *problem);
static int check_globs(const json_t *value, struct problem *problem);
static int check_labels(const json_t *value, struct problem *problem);
static int check_limits(const json_t *value, struct problem *problem);
static int check_resources(const json_t *value, struct problem *problem);
static json_t *clean_context(const json_t *value);
static json_t *clean_files(const json_t *value);
static json_t *clean_git(const json_t *value);
static json_t *clean_limits(const json_t *value);
static json_t *clean_resources(const json_t *value);

static const char *const runtime_words[] = { "native", "docker", "firecracker", NULL };
static const char *const network_words[] = { "deny_all", "allowlist", NULL };
static const char *const trust_words[] = { "trusted", "standard", "untrusted", NULL };
static const char *const source_words[] = { "IDE", "MCP", "Web", "API", "CLI", NULL };

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
	{ "workspace_exec", FIELD_BOOL, BOTH, SIZE_MAX, 0, 0, NULL, NULL, NULL },
	{ TEXT(persona_id) },
	{ TEXT(workspace_id) },
	{ TEXT(workspace_group_id) },
	{ TEXT(scope_snapshot_id) },
	{ "command", FIELD_TEXTS, RUN, AT(command), 1, REQUEST_COMMAND_MAX, NULL, NULL,
		check_command },
	{ "language", FIELD_TEXT, RUN, AT(language), 1, 32, NULL, NULL, NULL },
	{ "code", FIELD_TEXT, RUN, AT(code), 0, REQUEST_CODE_MAX, NULL, NULL, NULL },
	{ "args", FIELD_TEXTS, RUN, AT(args), 0, REQUEST_COMMAND_MAX, NULL, NULL, check_args },
	{ "env", FIELD_MAP, BOTH, AT(env), 0, POLICY_ENV_MAX, NULL, "{}", check_env },
	{ "labels", FIELD_MAP, BOTH, AT(labels), 0, REQUEST_LABELS_MAX, NULL, "{}", check_labels },
	{ "capture_patterns", FIELD_TEXTS, RUN, AT(capture_patterns), 0, REQUEST_GLOBS_MAX, NULL,
		"[]", check_globs },
	{ "files", FIELD_OTHER, RUN, AT(files), 0, REQUEST_FILES_MAX, NULL, "[]", check_files,
		clean_files },
	{ "git", FIELD_OTHER, BOTH, AT(git), 0, 0, NULL, NULL, check_git, clean_git },
	{ "resources", FIELD_OTHER, RUN, SIZE_MAX, 0, 0, NULL, "{}", check_resources,
		clean_resources },
	{ "resources", FIELD_OTHER, SESSION, SIZE_MAX, 0, 0, NULL, NULL, check_resources,
		clean_resources },
	{ "limits", FIELD_OTHER, BOTH, SIZE_MAX, 0, 0, NULL, NULL, check_limits, clean_limits },
	{ "context", FIELD_OTHER, BOTH, AT(context), 0, 0, NULL, NULL, check_context,
		clean_context },
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

static const struct field resource_fields[] = {
	{ "resources.cpu", FIELD_MILLI, BOTH, AT(cpu_milli), 0, 1u << 20, NULL, NULL, NULL },
	{ "resources.memory_mb", FIELD_NUMBER, BOTH, AT(memory_mb), 64, 1u << 30, NULL, NULL,
		NULL },
	{ 0 },
};

#define MEMBER(name, type, kinds, min, max) name, type, kinds, SIZE_MAX, min, max, NULL, NULL, NULL

static const struct field limit_fields[] = {
	{ MEMBER("limits.cpu", FIELD_MILLI, BOTH, 0, 1u << 20) },
	{ MEMBER("limits.memory_mb", FIELD_NUMBER, BOTH, 64, 1u << 30) },
	{ MEMBER("limits.timeout_sec", FIELD_NUMBER, BOTH, 1, 3600) },
	{ MEMBER("limits.startup_timeout_sec", FIELD_NUMBER, RUN, 1, POLICY_STARTUP_MAX) },
	{ 0 },
};

static const struct field git_fields[] = {
	{ MEMBER("git.url", FIELD_TEXT, BOTH, 1, 2048) },
	{ MEMBER("git.ref", FIELD_TEXT, BOTH, 1, 256) },
	{ MEMBER("git.patch", FIELD_TEXT, BOTH, 0, REQUEST_PATCH_MAX) },
	{ MEMBER("git.depth", FIELD_NUMBER, BOTH, 1, 1000000) },
	{ 0 },
};

static const struct field context_fields[] = {
	{ "context.source", FIELD_WORD, BOTH, SIZE_MAX, 0, 0, source_words, NULL, NULL },
	{ MEMBER("context.model", FIELD_TEXT, BOTH, 1, REQUEST_TEXT_MAX) },
	{ MEMBER("context.prompt_id", FIELD_TEXT, BOTH, 1, REQUEST_TEXT_MAX) },
	{ MEMBER("context.thread_id", FIELD_TEXT, BOTH, 1, REQUEST_TEXT_MAX) },
	{ 0 },
};

static const struct field file_fields[] = {
	{ MEMBER("files.path", FIELD_TEXT, RUN, 0, 0) },
	{ MEMBER("files.content_b64", FIELD_TEXT, RUN, 0, 0) },
	{ 0 },
};

/* Members that are objects, or lists of such. */
static const struct nested {
	const char *name;
	const struct field *fields;
} nested[] = {
	{ "resources", resource_fields },
	{ "limits", limit_fields },
	{ "git", git_fields },
	{ "files", file_fields },
	{ "context", context_fields },
};

/* --- the checks of single fields --- */

static int check_sizes(const char *field, const json_t *value, size_t max, struct problem *problem)
{
	if (json_string_length(value) > max)
		return problem_field(problem, field, "has a text of more than %zu bytes", max);
	return 0;
}

static int check_words(const char *field, const json_t *value, struct problem *problem)
{
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		if (check_sizes(field, item, SPEC_STRING_MAX, problem) < 0)
			return -1;
	}
	return 0;
}

static int check_command(const json_t *value, struct problem *problem)
{
	if (json_string_length(json_array_get(value, 0)) == 0)
		return problem_field(problem, "command", "the program's name is empty");
	return check_words("command", value, problem);
}

static int check_args(const json_t *value, struct problem *problem)
{
	return check_words("args", value, problem);
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
	problem_add(problem, "field", json_sprintf("files[%zu]", i));
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

static int check_git(const json_t *value, struct problem *problem)
{
	if (!field_get(value, &git_fields[0]))
		return problem_field(problem, "git", "must be an object with a url");
	return field_check_members(value, git_fields, problem);
}

static int check_object(
	const char *name, const struct field *f, const json_t *value, struct problem *problem)
{
	if (!json_is_object(value))
		return problem_field(problem, name, "must be an object");
	return field_check_members(value, f, problem);
}

static int check_resources(const json_t *value, struct problem *problem)
{
	return check_object("resources", resource_fields, value, problem);
}

static int check_limits(const json_t *value, struct problem *problem)
{
	return check_object("limits", limit_fields, value, problem);
}

static int check_context(const json_t *value, struct problem *problem)
{
	return check_object("context", context_fields, value, problem);
}

json_t *request_read_context(const json_t *value, struct problem *problem)
{
	if (!value || json_is_null(value))
		return json_object();
	return check_context(value, problem) < 0 ? NULL : clean_context(value);
}

static json_t *clean_files(const json_t *value)
{
	json_t *clean = json_array();
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		(void)json_array_append_new(clean, field_clean_members(item, file_fields));
	}
	return clean;
}

static json_t *clean_git(const json_t *value)
{
	return field_clean_members(value, git_fields);
}

static json_t *clean_resources(const json_t *value)
{
	return field_clean_members(value, resource_fields);
}

static json_t *clean_limits(const json_t *value)
{
	return field_clean_members(value, limit_fields);
}

static json_t *clean_context(const json_t *value)
{
	return field_clean_members(value, context_fields);
}

/* --- what can be said in two places is kept in one --- */

static const struct same {
	unsigned kinds;
	const char *object, *member;       /* where it may stand */
	const char *to_object, *to_member; /* and where it is kept; NULL: at the top */
} sames[] = {
	{ RUN, "limits", "cpu", "resources", "cpu" },
	{ RUN, "limits", "memory_mb", "resources", "memory_mb" },
	{ RUN, "limits", "startup_timeout_sec", NULL, "startup_timeout_sec" },
	{ BOTH, "limits", "timeout_sec", NULL, "timeout_sec" },
	{ SESSION, "limits", "cpu", NULL, "cpu_limit" },
	{ SESSION, "limits", "memory_mb", NULL, "memory_mb" },
	{ SESSION, "resources", "cpu", NULL, "cpu_limit" },
	{ SESSION, "resources", "memory_mb", NULL, "memory_mb" },
};

static int move_same(const struct same *same, json_t *body, struct problem *problem)
{
	json_t *value = json_object_get(json_object_get(body, same->object), same->member);
	char field[64];

	if (!value)
		return 0;
	if (same->to_object)
		json_set_missing(body, same->to_object, json_object());
	json_t *to = same->to_object ? json_object_get(body, same->to_object) : body;
	const json_t *other = json_object_get(to, same->to_member);
	if (other && !json_equal(other, value)) {
		(void)snprintf(field, sizeof(field), "%s.%s", same->object, same->member);
		return problem_field(problem, field, "%s%s%s says something else; send one of them",
			same->to_object ? same->to_object : "", same->to_object ? "." : "",
			same->to_member);
	}
	(void)json_object_set(to, same->to_member, value);
	return 0;
}

static int move_sames(json_t *body, enum request_kind kind, struct problem *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(sames); i++) {
		if ((sames[i].kinds & (1u << kind)) && move_same(&sames[i], body, problem) < 0)
			return -1;
	}
	(void)json_object_del(body, "limits");
	if (kind == REQUEST_SESSION)
		(void)json_object_del(body, "resources");
	return 0;
}

/* --- all of them --- */

static void store_members(const struct field *f, const json_t *object, struct request *ret)
{
	for (; f->name; f++) {
		json_t *value = field_get(object, f);

		if (value)
			field_store(f, value, ret);
	}
}

static void store_fields(enum request_kind kind, struct request *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		json_t *value = field_get(ret->body, f);

		if ((f->kinds & (1u << kind)) && value)
			field_store(f, value, ret);
	}
	store_members(resource_fields, json_object_get(ret->body, "resources"), ret);
}

static int parse_field(
	const struct field *f, json_t *value, struct request *ret, struct problem *problem)
{
	if (field_check(f, value, problem) < 0)
		return -1;
	json_t *kept = field_clean(f, value);
	if (kept)
		(void)json_object_set_new(ret->body, f->name, kept);
	return 0;
}

static int parse_fields(
	const json_t *body, enum request_kind kind, struct request *ret, struct problem *problem)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const struct field *f = &fields[i];
		json_t *value = field_get(body, f);

		if (!(f->kinds & (1u << kind)) || !value)
			continue;
		if (parse_field(f, value, ret, problem) < 0)
			return -1;
	}
	if (move_sames(ret->body, kind, problem) < 0)
		return -1;
	store_fields(kind, ret);
	return 0;
}

/* Either a command, or code with its language. */
static int check_program(const struct request *r, struct problem *problem)
{
	if (r->command && (r->language || r->code))
		return problem_field(problem, r->code ? "code" : "language",
			"send either command, or language and code");
	if (r->code && !r->language)
		return problem_field(problem, "language", "is required with code");
	if (r->language && !r->code)
		return problem_field(problem, "code", "is required with language");
	if (r->args && !r->code)
		return problem_field(problem, "args", "is for language and code");
	if (!r->command && !r->code)
		return problem_field(problem, "command", "is required, or language and code");
	return 0;
}

static int check_run(const struct request *r, struct problem *problem)
{
	bool has_neither = !r->session_id && !r->base_image;

	if (check_program(r, problem) < 0)
		return -1;
	if ((r->session_id && r->base_image) || (has_neither && !r->code))
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
	const json_t *exec = json_object_get(r->body, "workspace_exec");
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
		.workspace_exec = exec ? (json_is_true(exec) ? 1 : -1) : 0,
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

	(void)json_object_del(whole, "context");
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

/* --- names --- */

static const char *const ignored_names[] = { "resources.pids", "resources.nofile", "limits.pids",
	"limits.nofile", NULL };

static const struct unknown_hint name_hints[] = {
	{ "argv", "command" },
	{ "branch", "git.ref" },
	{ "cmd", "command" },
	{ "commit", "git.ref" },
	{ "program", "command" },
	{ "source", "code" },
	{ "variables", "env" },
	{ "seconds", "timeout_sec" },
	{ "timeout", "timeout_sec" },
	{ "idempotency_key", "the header Idempotency-Key" },
	{ "wait", "the parameter ?wait" },
	{ 0 },
};

static size_t add_names(const struct field *f, size_t n_fields, enum request_kind kind,
	const char **names, size_t n)
{
	for (size_t i = 0; i < n_fields && f[i].name && n < REQUEST_NAMES_MAX; i++) {
		if (f[i].kinds & (1u << kind))
			names[n++] = f[i].name;
	}
	return n;
}

static void list_names(enum request_kind kind, const char *names[REQUEST_NAMES_MAX + 1])
{
	size_t n = add_names(fields, ARRAY_SIZE(fields), kind, names, 0);

	for (size_t i = 0; i < ARRAY_SIZE(nested); i++)
		n = add_names(nested[i].fields, SIZE_MAX, kind, names, n);
	names[n] = NULL;
}

static int check_nested(const struct unknown_check *c, const struct nested *of, const json_t *value,
	struct problem *problem)
{
	size_t i;
	json_t *item;

	json_array_foreach(value, i, item)
	{
		char shown[64];

		(void)snprintf(shown, sizeof(shown), "%s[%zu]", of->name, i);
		if (unknown_members(c, item, of->name, shown, problem) < 0)
			return -1;
	}
	return unknown_members(c, value, of->name, of->name, problem);
}

int request_check_names(const json_t *body, enum request_kind kind, bool warns, json_t *warnings,
	struct problem *problem)
{
	const char *names[REQUEST_NAMES_MAX + 1];
	struct unknown_check c = {
		.names = names,
		.ignored = ignored_names,
		.hints = name_hints,
		.warns = warns,
		.warnings = warnings,
	};

	list_names(kind, names);
	if (unknown_members(&c, body, "", "", problem) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(nested); i++) {
		const json_t *value = json_object_get(body, nested[i].name);

		if (check_nested(&c, &nested[i], value, problem) < 0)
			return -1;
	}
	return 0;
}
