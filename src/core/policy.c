#include "core/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/settings.h"

#define MB (UINT64_C(1) << 20)

/* How far somebody's code is trusted. Each number is a ceiling, below the server's own. */
static const struct profile {
	const char *name;
	uint64_t cpu_milli;
	uint64_t memory_mb;
	uint64_t timeout_sec;
	uint64_t workspace_mb;
	uint64_t pids;
	uint64_t files;
} profiles[] = {
	{ "trusted", 8000, 16384, 600, 512, 512, 4096 },
	{ "standard", 4000, 8192, 300, 256, 256, 1024 },
	{ "untrusted", 1000, 1024, 60, 64, 64, 256 },
};

#define PROFILE_STANDARD (&profiles[1])

/* Runtimes people may name. Only the native one is built; none replaces another silently. */
static const struct runtime_row {
	const char *name;
	const char *reason;  /* why it is not available; NULL: it is */
	const char *instead; /* what would take the same requests */
} runtimes[] = {
	{ "native", NULL, NULL },
	{ "docker", "docker_not_supported", "native" },
	{ "firecracker", "firecracker_not_supported", "native" },
	{ "lima", "platform_not_supported", NULL },
	{ "vz_linux", "platform_not_supported", NULL },
	{ "vz_macos", "platform_not_supported", NULL },
	{ "seatbelt", "platform_not_supported", NULL },
	{ "worktree", "platform_not_supported", NULL },
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What was asked for, or else the default, if it is no less than can be granted and no more. */
static uint64_t clamp(uint64_t asked, uint64_t standard, uint64_t smallest, uint64_t most)
{
	uint64_t wanted = asked ? asked : standard;
	uint64_t granted = wanted && wanted < smallest ? smallest : wanted;

	return granted ? least(granted, most) : most;
}

__attribute__((format(printf, 4, 5))) static int refuse(
	struct policy_refusal *refusal, const char *code, json_t *details, const char *fmt, ...)
{
	va_list ap;

	refusal->code = code;
	refusal->details = details;
	va_start(ap, fmt);
	(void)vsnprintf(refusal->message, sizeof(refusal->message), fmt, ap);
	va_end(ap);
	return -EPERM;
}

void policy_refusal_fini(struct policy_refusal *refusal)
{
	json_decref(refusal->details);
	*refusal = (struct policy_refusal){ 0 };
}

static int check_version(
	const struct settings *c, const char *version, struct policy_refusal *refusal)
{
	json_t *supported = json_array();

	for (size_t i = 0; c->spec_versions[i]; i++) {
		if (!version || streq(c->spec_versions[i], version)) {
			json_decref(supported);
			return 0;
		}
		(void)json_array_append_new(supported, json_string(c->spec_versions[i]));
	}
	return refuse(refusal, "invalid_spec_version",
		json_pack("{s:o, s:s}", "supported", supported, "provided", version),
		"Unsupported spec_version %s", quote(version).text);
}

static const struct profile *find_profile(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		if (streq(profiles[i].name, name))
			return &profiles[i];
	}
	return NULL;
}

static const struct runtime_row *find_runtime(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
		if (streq(runtimes[i].name, name))
			return &runtimes[i];
	}
	return NULL;
}

bool policy_has_runtime(const char *name)
{
	const struct runtime_row *row = find_runtime(name);

	return row && !row->reason;
}

static int choose_runtime(const struct settings *c, const char *asked, struct policy *ret,
	struct policy_refusal *refusal)
{
	const char *name = asked ? asked : c->default_runtime;
	const struct runtime_row *row = find_runtime(name);

	if (!row)
		return refuse(refusal, "invalid_request", NULL, "no runtime is called %s",
			quote(name).text);
	ret->runtime = row->name;
	if (!row->reason)
		return 0;
	json_t *suggested = json_array();
	if (row->instead)
		(void)json_array_append_new(suggested, json_string(row->instead));
	return refuse(refusal, "runtime_unavailable",
		json_pack("{s:s, s:b, s:o, s:[s]}", "runtime", row->name, "available", 0,
			"suggested", suggested, "reasons", row->reason),
		"The requested runtime is currently unavailable.");
}

static int choose_network(const struct settings *c, const char *asked, struct policy *ret,
	struct policy_refusal *refusal)
{
	const char *name = asked ? asked : c->network_default;

	if (streq(name, "deny_all")) {
		ret->network_policy = "deny_all";
		return 0;
	}
	if (!streq(name, "allowlist"))
		return refuse(refusal, "invalid_request", NULL,
			"network_policy is %s, not deny_all or allowlist", quote(name).text);
	return refuse(refusal, "policy_unsupported",
		json_pack("{s:s, s:s, s:s, s:[s]}", "field", "network_policy", "runtime",
			ret->runtime, "requirement", name, "reasons",
			"strict_allowlist_not_supported"),
		"Sandbox policy is unsupported for the requested runtime.");
}

static void set_limits(const struct settings *c, const struct profile *p, struct policy *ret)
{
	struct limits *l = &ret->limits;

	l->startup_ms = ret->startup_timeout_sec * 1000;
	l->grace_ms = c->cancel_grace_sec * 1000;
	l->memory_bytes = ret->memory_mb * MB;
	l->cpu_milli = ret->cpu_milli;
	l->pids = least(p->pids, c->pids_limit);
	l->workspace_bytes = ret->workspace_mb * MB;
	l->files = least(p->files, c->nofile);
	l->processes = c->nproc;
	l->capture_bytes = c->max_artifact_run_mb * MB;
}

/* The same ranges hold as for everyone who talks to a keeper. */
static int check_limits(const struct policy *p, struct policy_refusal *refusal)
{
	struct err err = { 0 };
	char word[] = "true";
	char *argv[] = { word, NULL };
	struct spec spec;

	spec_init(&spec);
	spec_make_id(spec.id);
	spec.argv = argv;
	spec.limits = p->limits;
	if (spec_check(&spec, &err) < 0)
		return refuse(refusal, "invalid_request", NULL, "%s", err.text);
	return 0;
}

static uint64_t seconds_of(uint64_t ms)
{
	return (ms + 999) / 1000;
}

/* In milliseconds if they were asked for, which people who are told of seconds need not know. */
static void choose_timeout(const struct settings *c, const struct policy_request *q,
	const struct profile *p, struct policy *ret)
{
	uint64_t sec = q->timeout_sec ? q->timeout_sec : c->exec_timeout_sec;
	uint64_t ms = q->timeout_ms ? q->timeout_ms : sec * 1000;

	ret->timeout_max_ms = p->timeout_sec * 1000;
	ret->limits.timeout_ms = least(ms, ret->timeout_max_ms);
	ret->timeout_sec = seconds_of(ret->limits.timeout_ms);
}

static int choose_limits(const struct settings *c, const struct policy_request *q,
	struct policy *ret, struct policy_refusal *refusal)
{
	const struct profile *p = q->trust_level ? find_profile(q->trust_level) : PROFILE_STANDARD;
	struct spec standard;

	if (!p)
		return refuse(refusal, "invalid_request", NULL,
			"trust_level is %s, not trusted, standard or untrusted",
			quote(q->trust_level).text);
	spec_init(&standard);
	ret->limits = standard.limits;
	ret->trust_level = p->name;
	ret->cpu_milli = clamp(q->cpu_milli, c->default_cpu_milli, SPEC_CPU_MIN,
		least(p->cpu_milli, c->max_cpu_milli));
	ret->memory_mb =
		clamp(q->memory_mb, c->default_mem_mb, 0, least(p->memory_mb, c->max_mem_mb));
	choose_timeout(c, q, p, ret);
	ret->startup_timeout_sec =
		least(q->startup_timeout_sec ? q->startup_timeout_sec : c->startup_timeout_sec,
			POLICY_STARTUP_MAX);
	ret->workspace_mb = least(p->workspace_mb, c->workspace_cap_mb);
	set_limits(c, p, ret);
	return check_limits(ret, refusal);
}

/* What runs may do with their own files, from the least to the most. */
enum exec_mode {
	EXEC_OFF,
	EXEC_ASK,
	EXEC_ON,
	EXEC_COUNT,
};

static const char *const exec_words[EXEC_COUNT] = {
	[EXEC_OFF] = "off",
	[EXEC_ASK] = "ask",
	[EXEC_ON] = "on",
};

static int find_exec_mode(const char *word)
{
	for (int i = 0; i < EXEC_COUNT; i++) {
		if (streq(exec_words[i], word))
			return i;
	}
	return -EINVAL;
}

/* "untrusted=ask" into its mode; `*ret_level` is NULL where none is named. */
static int parse_exec(const char *item, const struct profile **ret_level)
{
	char level[16];
	const char *equals = strchr(item, '=');

	*ret_level = NULL;
	if (!equals)
		return find_exec_mode(item);
	(void)snprintf(level, sizeof(level), "%.*s", (int)(equals - item), item);
	*ret_level = find_profile(level);
	return *ret_level ? find_exec_mode(equals + 1) : -EINVAL;
}

int policy_check_exec(const char *item, struct err *err)
{
	const struct profile *level;

	if (parse_exec(item, &level) >= 0)
		return 0;
	return err_set(err, -EINVAL,
		"%s is not off, ask or on, nor one of them for a trust level, as untrusted=ask",
		quote(item).text);
}

/* The last item that is for it. */
static enum exec_mode exec_mode_of(const struct settings *c, const char *trust_level)
{
	enum exec_mode mode = EXEC_OFF;

	for (size_t i = 0; c->workspace_exec[i]; i++) {
		const struct profile *level;
		int found = parse_exec(c->workspace_exec[i], &level);
		bool fits =
			level ? streq(level->name, trust_level) : !streq(trust_level, "untrusted");

		if (fits && found >= 0)
			mode = (enum exec_mode)found;
	}
	return mode;
}

bool policy_allows_exec(const struct settings *c, const char *trust_level)
{
	return exec_mode_of(c, trust_level) != EXEC_OFF;
}

static int choose_exec(const struct settings *c, const struct policy_request *q, struct policy *ret,
	struct policy_refusal *refusal)
{
	enum exec_mode mode = exec_mode_of(c, ret->trust_level);

	ret->workspace_exec = mode == EXEC_ON ? q->workspace_exec >= 0 : q->workspace_exec > 0;
	if (!ret->workspace_exec || mode != EXEC_OFF)
		return 0;
	return refuse(refusal, "policy_denied",
		json_pack("{s:s, s:s, s:s}", "requirement", "workspace_exec", "setting",
			"SANDBOX_WORKSPACE_EXEC", "trust_level", ret->trust_level),
		"workspace_exec is not allowed for trust_level %s: SANDBOX_WORKSPACE_EXEC of this "
		"server is off for it; leave workspace_exec out, or have it set to ask or on",
		ret->trust_level);
}

static int parse_whole(const char *text, uint64_t *ret)
{
	return str_parse_u64(text, INT64_MAX, ret);
}

/* Numbers that a rule can be about. */
static const struct measure {
	const char *name;
	size_t offset;
	int (*parse)(const char *text, uint64_t *ret);
} measures[] = {
	{ "cpu", offsetof(struct policy, cpu_milli), str_parse_milli },
	{ "memory_mb", offsetof(struct policy, memory_mb), parse_whole },
	{ "timeout_sec", offsetof(struct policy, timeout_sec), parse_whole },
};

/* "cpu>2" into what is measured and the threshold; NULL when it is not like that. */
static const struct measure *parse_measure(const char *rule, uint64_t *ret_threshold)
{
	for (size_t i = 0; i < ARRAY_SIZE(measures); i++) {
		const char *rest = str_after(rule, measures[i].name);

		if (rest && *rest == '>' && measures[i].parse(rest + 1, ret_threshold) == 0)
			return &measures[i];
	}
	return NULL;
}

int policy_check_rule(const char *rule, struct err *err)
{
	uint64_t threshold;

	if (streq(rule, "all") || find_profile(rule) || parse_measure(rule, &threshold))
		return 0;
	return err_set(err, -EINVAL,
		"a rule is all, trusted, standard, untrusted, cpu>N, memory_mb>N or timeout_sec>N");
}

static bool rule_fits(const char *rule, const struct policy *p)
{
	uint64_t threshold = 0;
	const struct measure *m = parse_measure(rule, &threshold);

	if (m)
		return *(const uint64_t *)((const char *)p + m->offset) > threshold;
	return streq(rule, "all") || streq(rule, p->trust_level);
}

static void decide_approval(const struct settings *c, struct policy *ret)
{
	for (size_t i = 0; c->approval_for[i] && !ret->approval; i++) {
		if (rule_fits(c->approval_for[i], ret))
			ret->approval = c->approval_for[i];
	}
}

const char *policy_rule_of_longer(
	const struct settings *c, const struct policy *p, uint64_t timeout_ms)
{
	struct policy longer = *p;

	longer.timeout_sec = seconds_of(timeout_ms);
	for (size_t i = 0; c->approval_for[i]; i++) {
		if (rule_fits(c->approval_for[i], &longer) && !rule_fits(c->approval_for[i], p))
			return c->approval_for[i];
	}
	return NULL;
}

/* The words were checked when the settings were loaded. */
static uint64_t required_facets(const struct settings *c)
{
	uint64_t mask = 0;

	for (size_t i = 0; c->require[i]; i++) {
		uint64_t one = FACET_ALL; /* a word nobody knows asks for everything */
		(void)facet_parse_list(c->require[i], &one, NULL);
		mask |= one;
	}
	return mask;
}

int policy_decide(const struct settings *c, const struct policy_request *request,
	struct policy *ret, struct policy_refusal *refusal)
{
	struct policy p = { .trust_level = "standard", .require = required_facets(c) };

	*refusal = (struct policy_refusal){ 0 };
	int r = check_version(c, request->spec_version, refusal);
	if (r == 0)
		r = choose_runtime(c, request->runtime, &p, refusal);
	if (r == 0)
		r = choose_network(c, request->network_policy, &p, refusal);
	if (r == 0)
		r = choose_limits(c, request, &p, refusal);
	if (r == 0)
		r = choose_exec(c, request, &p, refusal);
	if (r != 0)
		return r;
	decide_approval(c, &p);
	*ret = p;
	return 0;
}

static bool is_variable(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	static const char digits[] = "0123456789";

	if (!*name || !strchr(letters, *name))
		return false;
	for (; *name; name++) {
		if (!strchr(letters, *name) && !strchr(digits, *name))
			return false;
	}
	return true;
}

static int check_variable(const char *name, const json_t *value, struct err *err)
{
	if (!is_variable(name))
		return err_set(err, -EINVAL,
			"env: %s is not a name: letters, digits and _, no digit first",
			quote(name).text);
	if (!json_is_string(value))
		return err_set(err, -EINVAL, "env: %s is not a text", quote(name).text);
	if (strlen(json_string_value(value)) != json_string_length(value))
		return err_set(err, -EINVAL, "env: %s holds a NUL character", quote(name).text);
	return 0;
}

int policy_check_env(const json_t *env, struct err *err)
{
	const char *name;
	json_t *value;
	size_t size = 0;

	if (!env || json_is_null(env))
		return 0;
	if (!json_is_object(env))
		return err_set(err, -EINVAL, "env is not an object");
	if (json_object_size(env) > POLICY_ENV_MAX)
		return err_set(err, -E2BIG, "env has more than %u variables", POLICY_ENV_MAX);
	json_object_foreach((json_t *)env, name, value)
	{
		int r = check_variable(name, value, err);
		if (r < 0)
			return r;
		size += strlen(name) + json_string_length(value) + 2;
		if (size > POLICY_ENV_BYTES_MAX)
			return err_set(
				err, -E2BIG, "env is larger than %u bytes", POLICY_ENV_BYTES_MAX);
	}
	return 0;
}
