/* GET /runtimes: what can execute runs here, within which limits, and what this host enforces
 * of them. A limit that is not enforced is said, not hidden. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "api/api.h"
#include "api/meta.h"
#include "api/reply.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "core/image_name.h"
#include "core/run.h"
#include "core/service.h"
#include "core/settings.h"
#include "lang/lang.h"
#include "store/store.h"

/* What is true of a runtime wherever it runs. */
static const struct posture {
	const char *name;
	const char *boundary_class;
	bool is_vm;
	const char *trust_levels[4];
	const char *warnings[3];
	const char *notes;
} postures[] = {
	{ "native", "container", false, { "trusted", "standard", "untrusted", NULL },
		{ "shares_host_kernel", "not_vm_grade_isolation", NULL },
		"Namespaces, seccomp, Landlock and cgroups of this host's kernel; no daemon." },
	{ "docker", "container", false, { NULL },
		{ "shares_host_kernel", "not_vm_grade_isolation", NULL },
		"Known by name; this version does not execute with it. Use native." },
	{ "firecracker", "vm_grade", true, { NULL }, { NULL },
		"Known by name; this version does not execute with it. Use native." },
};

static const struct posture *find_posture(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(postures); i++) {
		if (streq(postures[i].name, name))
			return &postures[i];
	}
	return &postures[0];
}

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *texts_json(const char *const *texts)
{
	json_t *list = json_array();

	for (; texts && *texts; texts++)
		(void)json_array_append_new(list, json_string(*texts));
	return list;
}

/* --- is it there --- */

/* Why a runtime can not be used now; NULL when it can. */
static const char *why_not(const struct service *s, const struct runtime *rt)
{
	const char *reason = rt->probe ? rt->probe() : NULL;

	if (reason)
		return reason;
	if (rt != s->runtime || !s->is_up)
		return "keeper_unreachable";
	return s->settings->enable_execution ? NULL : "execution_disabled";
}

static void add_reasons(json_t *o, const char *reason, bool is_ours)
{
	json_t *reasons = json_array();
	json_t *details = json_array();
	const char *normal = is_ours ? "runtime_not_ready" : "runtime_not_supported";

	if (reason) {
		(void)json_array_append_new(reasons, json_string(reason));
		(void)json_array_append_new(
			details, json_pack("{s:s,s:s}", "code", normal, "source", reason));
	}
	set(o, "reasons", reasons);
	set(o, "normalized_reasons", reason ? json_pack("[s]", normal) : json_array());
	set(o, "normalized_reason_details", details);
}

/* --- limits --- */

static void add_limits(json_t *o, const struct settings *c)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "max_mem_mb", c->max_mem_mb },
		{ "max_upload_mb", c->max_upload_mb },
		{ "max_log_bytes", c->max_log_bytes },
		{ "max_artifact_file_bytes", c->max_artifact_file_bytes },
		{ "max_artifact_total_bytes", c->max_artifact_run_mb << 20 },
		{ "queue_max_length", c->queue_max_length },
		{ "queue_ttl_sec", c->queue_ttl_sec },
		{ "workspace_cap_mb", c->workspace_cap_mb },
		{ "artifact_ttl_hours", c->artifact_ttl_hours },
		{ "pids_limit", c->pids_limit },
		{ "max_concurrent_runs", c->max_concurrent_runs },
	};

	set(o, "max_cpu", json_real((double)c->max_cpu_milli / 1000));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		set(o, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	set(o, "supported_spec_versions", texts_json((const char *const *)c->spec_versions));
}

/* --- protection --- */

static json_t *warnings_json(const struct posture *p, bool is_up, uint64_t enforced)
{
	json_t *list = texts_json(p->warnings);
	char text[64];

	for (int f = 0; is_up && f < FACET_COUNT; f++) {
		if (enforced & FACET_BIT(f))
			continue;
		(void)snprintf(text, sizeof(text), "%s_not_enforced", facet_name((enum facet)f));
		(void)json_array_append_new(list, json_string(text));
	}
	return list;
}

static json_t *network_json(bool is_up, bool denies)
{
	return json_pack("{s:{s:s,s:b,s:s},s:{s:s,s:b,s:s}}", "deny_all", "support_state",
		is_up ? "supported" : "unsupported", "strict_enforcement", denies,
		"readiness_source", "runtime", "allowlist", "support_state", "unsupported",
		"strict_enforcement", 0, "readiness_source", "runtime");
}

static void add_protection(json_t *o, const struct posture *p, bool is_up, uint64_t enforced)
{
	bool denies = is_up && enforced & FACET_BIT(FACET_NET);

	set(o, "facets",
		json_pack("{s:o,s:o}", "enforced", run_json_facets(is_up ? enforced : 0),
			"not_enforced", run_json_facets(is_up ? FACET_ALL & ~enforced : 0)));
	set(o, "interactive_supported", json_boolean(is_up));
	set(o, "egress_allowlist_supported", json_false());
	set(o, "strict_deny_all_supported", json_boolean(denies));
	set(o, "strict_allowlist_supported", json_false());
	set(o, "enforcement_ready", json_pack("{s:b,s:b}", "deny_all", denies, "allowlist", 0));
	set(o, "boundary_class", json_string(p->boundary_class));
	set(o, "vm_grade_isolation", json_boolean(p->is_vm));
	set(o, "untrusted_eligible", json_boolean(is_up && p->trust_levels[0]));
	set(o, "isolation_warnings", warnings_json(p, is_up, enforced));
	set(o, "network_policy_contract", network_json(is_up, denies));
}

/* --- languages --- */

/* What the host image can run. An imported image has what it has, and is not looked into. */
static json_t *languages_json(bool is_ours)
{
	json_t *list = json_array();

	for (const struct lang *l = langs; is_ours && l->name; l++) {
		struct err err = { 0 };
		bool is_here = lang_check(l, &err) == 0;

		(void)json_array_append_new(
			list, json_pack("{s:s,s:o,s:b,s:s?}", "name", l->name, "aliases",
				      texts_json(l->aliases), "available", is_here, "reason",
				      is_here ? NULL : err.text));
	}
	return list;
}

/* --- the whole --- */

static json_t *session_json_of(bool is_up)
{
	return json_pack("{s:s,s:s,s:b,s:s,s:s}", "support_state",
		is_up ? "supported" : "unsupported", "reuse_model", "workspace",
		"requires_live_health_check", 0, "recovery_state",
		is_up ? "supported" : "unsupported", "repair_state", "not_applicable");
}

static json_t *host_json(bool is_ours)
{
	struct utsname name;

	if (!is_ours || uname(&name) < 0)
		return json_object();
	return json_pack(
		"{s:s,s:s,s:s}", "os", "linux", "kernel", name.release, "arch", name.machine);
}

static json_t *runtime_json(const struct service *s, const struct runtime *rt)
{
	const struct posture *p = find_posture(rt->name);
	const char *reason = why_not(s, rt);
	bool is_ours = !rt->probe || !rt->probe();
	bool is_up = is_ours && s->is_up && s->host;
	json_t *o = json_object();

	set(o, "name", json_string(rt->name));
	set(o, "available", json_boolean(!reason));
	set(o, "implementation_state", json_string(is_ours ? "supported" : "unsupported"));
	add_reasons(o, reason, is_ours);
	set(o, "supported_trust_levels", texts_json(p->trust_levels));
	set(o, "default_images", texts_json(is_ours ? image_name_defaults() : NULL));
	set(o, "languages", languages_json(is_ours));
	add_limits(o, s->settings);
	add_protection(o, p, is_up, is_up ? rt->facets(s->host) : 0);
	set(o, "host", host_json(is_ours));
	set(o, "session_contract", session_json_of(is_ours));
	set(o, "version", is_ours ? json_string(BELLJAR_VERSION) : json_null());
	set(o, "store_mode", json_string(store_mode(s->store)));
	set(o, "notes", json_string(p->notes));
	return o;
}

void meta_handle_runtimes(struct exchange *x)
{
	const struct service *s = api_of(x)->service;
	json_t *list = json_array();

	for (size_t i = 0; runtimes[i]; i++)
		(void)json_array_append_new(list, runtime_json(s, runtimes[i]));
	reply_json(x, 200,
		json_pack("{s:o,s:s,s:s}", "runtimes", list, "store_mode", store_mode(s->store),
			"default_runtime", s->settings->default_runtime));
}
