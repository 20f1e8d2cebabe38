/* What a run or session may have, decided before anything is made: pure functions of the
 * settings and of what was asked for. Numbers that are too large are clamped, as the interface
 * promises; what can not be honoured is refused with a stable code. Any thread. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/spec.h"

struct err;
struct settings;

/* Limits of an environment. */
#define POLICY_ENV_MAX       256u
#define POLICY_ENV_BYTES_MAX (64u << 10) /* names and values together */
#define POLICY_STARTUP_MAX   600u        /* seconds */

/* What somebody asks for. Texts may be NULL and numbers 0: then the default holds. */
struct policy_request {
	const char *spec_version;
	const char *trust_level; /* trusted, standard, untrusted; else standard */
	const char *runtime;
	const char *network_policy; /* deny_all, allowlist */
	uint64_t cpu_milli;
	uint64_t memory_mb;
	uint64_t timeout_sec;
	uint64_t timeout_ms; /* instead */
	uint64_t startup_timeout_sec;
	int workspace_exec; /* 1: asked for, -1: not wanted, 0: nothing was said */
};

/* What they get. Texts are constants or the settings' own. */
struct policy {
	const char *trust_level;
	const char *runtime;
	const char *network_policy;
	uint64_t cpu_milli;
	uint64_t memory_mb;
	uint64_t timeout_sec;    /* rounded up; limits.timeout_ms is what holds */
	uint64_t timeout_max_ms; /* the most that it could have asked for */
	uint64_t startup_timeout_sec;
	uint64_t workspace_mb;
	struct limits limits; /* the same for the box, and all others */
	bool workspace_exec;  /* files of /workspace and /tmp can be executed */
	uint64_t require;     /* mask of facets, from SANDBOX_REQUIRE */
	const char *approval; /* the rule because of which it must wait for an admin, or NULL */
};

/* Why not. `code` is part of the interface: "invalid_spec_version", "invalid_request",
 * "policy_unsupported", "policy_denied", "runtime_unavailable". */
struct policy_refusal {
	const char *code;
	char message[256];
	json_t *details; /* an object, or NULL; the caller must json_decref() it */
};

/* Returns 0 with `*ret` filled, or -EPERM with `*refusal` filled. */
int policy_decide(const struct settings *c, const struct policy_request *request,
	struct policy *ret, struct policy_refusal *refusal);
void policy_refusal_fini(struct policy_refusal *refusal);

/* The rule that a longer time falls under, and what was decided upon does not; NULL: none. */
const char *policy_rule_of_longer(
	const struct settings *c, const struct policy *p, uint64_t timeout_ms);

/* Whether runs can have this runtime here. */
bool policy_has_runtime(const char *name);

/* Whether a run of that trust level may ask for executable files in its workspace. */
bool policy_allows_exec(const struct settings *c, const char *trust_level);

/* An item of SANDBOX_WORKSPACE_EXEC: "off", "ask", "on", or one of these for a trust level, as
 * "untrusted=ask"; those without a level are for trusted and standard. -EINVAL with a sentence. */
int policy_check_exec(const char *item, struct err *err);

/* Variables as a JSON object of texts. -EINVAL or -E2BIG with a sentence that names the
 * variable, never its value. */
int policy_check_env(const json_t *env, struct err *err);

/* A rule of SANDBOX_APPROVAL_REQUIRED: "all", a trust level, or "cpu>2", "memory_mb>4096",
 * "timeout_sec>300". -EINVAL with a sentence. */
int policy_check_rule(const char *rule, struct err *err);
