#include "core/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/machine.h"
#include "base/str.h"
#include "core/settings.h"
#include "lib/test.h"

struct fixture {
	struct settings c;
	struct policy p;
	struct policy_refusal refusal;
};

/* Settings from "NAME=value" words beside the defaults. */
static void start(struct fixture *f, const char *const *words)
{
	struct err err = { 0 };

	*f = (struct fixture){ 0 };
	(void)clearenv();
	(void)setenv("BELLJAR_ROOT", "/tmp/belljar_nowhere", 1);
	for (; words && *words; words++)
		CHECK_EQ(putenv((char *)*words), 0);
	if (settings_load(&f->c, NULL, NULL, 0, &err) < 0)
		fail_msg("%s", err.text);
}

static void finish(struct fixture *f)
{
	policy_refusal_fini(&f->refusal);
	settings_fini(&f->c);
}

#define FIXTURE(name, ...)                                                                         \
	CLEANUP(finish) struct fixture name;                                                       \
	start(&name, (const char *const[]){ __VA_ARGS__ })

static int decide(struct fixture *f, struct policy_request q)
{
	policy_refusal_fini(&f->refusal);
	f->p = (struct policy){ 0 };
	return policy_decide(&f->c, &q, &f->p, &f->refusal);
}

/* The request is refused with this code and exactly these details. */
static void check_refused(
	struct fixture *f, struct policy_request q, const char *code, const char *details)
{
	CHECK_EQ(decide(f, q), -EPERM);
	CHECK_STR(f->refusal.code, code);
	CHECK(f->refusal.message[0]);
	if (!details) {
		CHECK(!f->refusal.details);
		return;
	}
	AUTO_FREE char *text = json_canonical(f->refusal.details);
	CHECK_STR(text, details);
}

TEST(what_is_not_asked_for_has_a_default)
{
	FIXTURE(f, "SANDBOX_DEFAULT_MEM_MB=512", "SANDBOX_DEFAULT_CPU=1.5", NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ 0 }), 0);
	CHECK_STR(f.p.trust_level, "standard");
	CHECK_STR(f.p.runtime, "native");
	CHECK_STR(f.p.network_policy, "deny_all");
	CHECK_EQ(f.p.cpu_milli, 1500);
	CHECK_EQ(f.p.memory_mb, 512);
	CHECK_EQ(f.p.timeout_sec, 60);
	CHECK_EQ(f.p.startup_timeout_sec, 20);
	CHECK_EQ(f.p.workspace_mb, 256);
	CHECK_EQ(f.p.require, 0);
	CHECK(!f.p.approval);
	CHECK_EQ(f.p.limits.timeout_ms, 60000);
	CHECK_EQ(f.p.limits.startup_ms, 20000);
	CHECK_EQ(f.p.limits.grace_ms, 5000);
	CHECK_EQ(f.p.limits.memory_bytes, UINT64_C(512) << 20);
	CHECK_EQ(f.p.limits.cpu_milli, 1500);
	CHECK_EQ(f.p.limits.pids, 256);
	CHECK_EQ(f.p.limits.files, 1024);
	CHECK_EQ(f.p.limits.processes, 512);
	CHECK_EQ(f.p.limits.workspace_bytes, 256 << 20);
	CHECK_EQ(f.p.limits.capture_bytes, 32 << 20);
	CHECK(f.p.limits.tmp_bytes > 0);
}

TEST(a_default_is_a_part_of_the_machine)
{
	FIXTURE(f, NULL);
	uint64_t machine_mb = machine_memory_bytes() >> 20;
	uint64_t n = f.c.max_concurrent_runs;

	CHECK_EQ(decide(&f, (struct policy_request){ 0 }), 0);
	CHECK_EQ(f.p.cpu_milli, 1000);
	CHECK_EQ(f.p.memory_mb, machine_mb / 4 < 1024 ? machine_mb / 4 : 1024);
	CHECK(n >= 1 && n <= machine_cpu_milli() * 4 / 1000 + 1);
	CHECK(n == 1 || n * f.p.memory_mb <= machine_mb);
}

TEST(a_default_is_never_more_than_the_most)
{
	FIXTURE(f, "SANDBOX_MAX_CPU=0.5", "SANDBOX_MAX_MEM_MB=100", "SANDBOX_DEFAULT_MEM_MB=200",
		NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ 0 }), 0);
	CHECK_EQ(f.p.cpu_milli, 500);
	CHECK_EQ(f.p.memory_mb, 100);
	CHECK_EQ(decide(&f, (struct policy_request){ .memory_mb = 80 }), 0);
	CHECK_EQ(f.p.memory_mb, 80);
}

TEST(what_fits_is_echoed)
{
	FIXTURE(f, NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ .spec_version = "1.1",
				    .trust_level = "trusted",
				    .runtime = "native",
				    .network_policy = "deny_all",
				    .cpu_milli = 1500,
				    .memory_mb = 768,
				    .timeout_sec = 77,
				    .startup_timeout_sec = 3 }),
		0);
	CHECK_STR(f.p.trust_level, "trusted");
	CHECK_EQ(f.p.cpu_milli, 1500);
	CHECK_EQ(f.p.memory_mb, 768);
	CHECK_EQ(f.p.timeout_sec, 77);
	CHECK_EQ(f.p.startup_timeout_sec, 3);
}

TEST(time_is_given_in_milliseconds_as_well)
{
	FIXTURE(f, NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ .timeout_ms = 1, .timeout_sec = 9 }), 0);
	CHECK_EQ(f.p.limits.timeout_ms, 1);
	CHECK_EQ(f.p.timeout_sec, 1);
	CHECK_EQ(decide(&f, (struct policy_request){ .timeout_ms = 2001 }), 0);
	CHECK_EQ(f.p.limits.timeout_ms, 2001);
	CHECK_EQ(f.p.timeout_sec, 3);
	CHECK_EQ(decide(&f, (struct policy_request){ .timeout_ms = 300001 }), 0);
	CHECK_EQ(f.p.limits.timeout_ms, 300000);
}

TEST(too_much_is_clamped_to_the_trust_level_and_the_server)
{
	static const struct {
		const char *trust;
		uint64_t cpu_milli, memory_mb, timeout_sec, workspace_mb, pids, files;
	} rows[] = {
		{ "trusted", 8000, 16384, 600, 512, 512, 4096 },
		{ "standard", 4000, 8192, 300, 256, 256, 1024 },
		{ "untrusted", 1000, 1024, 60, 64, 64, 256 },
	};
	FIXTURE(wide, "SANDBOX_MAX_CPU=64", "SANDBOX_MAX_MEM_MB=1000000",
		"SANDBOX_WORKSPACE_CAP_MB=10000", "SANDBOX_PIDS_LIMIT=10000",
		"SANDBOX_ULIMIT_NOFILE=100000", NULL);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_EQ(decide(&wide, (struct policy_request){ .trust_level = rows[i].trust,
					       .cpu_milli = 99000,
					       .memory_mb = 999999,
					       .timeout_sec = 3600,
					       .startup_timeout_sec = 3600 }),
			0);
		CHECK_EQ(wide.p.cpu_milli, rows[i].cpu_milli);
		CHECK_EQ(wide.p.memory_mb, rows[i].memory_mb);
		CHECK_EQ(wide.p.timeout_sec, rows[i].timeout_sec);
		CHECK_EQ(wide.p.workspace_mb, rows[i].workspace_mb);
		CHECK_EQ(wide.p.limits.pids, rows[i].pids);
		CHECK_EQ(wide.p.limits.files, rows[i].files);
		CHECK_EQ(wide.p.startup_timeout_sec, 600);
	}
	FIXTURE(narrow, "SANDBOX_MAX_CPU=0.5", "SANDBOX_MAX_MEM_MB=100",
		"SANDBOX_WORKSPACE_CAP_MB=1", "SANDBOX_PIDS_LIMIT=9", "SANDBOX_ULIMIT_NOFILE=17",
		"SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC=3600", NULL);
	CHECK_EQ(decide(&narrow, (struct policy_request){ .trust_level = "trusted" }), 0);
	CHECK_EQ(narrow.p.cpu_milli, 500);
	CHECK_EQ(narrow.p.memory_mb, 100);
	CHECK_EQ(narrow.p.limits.workspace_bytes, 1 << 20);
	CHECK_EQ(narrow.p.limits.pids, 9);
	CHECK_EQ(narrow.p.limits.files, 17);
	CHECK_EQ(narrow.p.timeout_sec, 600);
}

TEST(what_can_not_be_honoured_is_refused_by_code)
{
	FIXTURE(f, NULL);

	check_refused(&f, (struct policy_request){ .spec_version = "0.9" }, "invalid_spec_version",
		"{\"provided\":\"0.9\",\"supported\":[\"1.0\",\"1.1\"]}");
	CHECK_STR(f.refusal.message, "Unsupported spec_version '0.9'");
	check_refused(&f, (struct policy_request){ .network_policy = "allowlist" },
		"policy_unsupported",
		"{\"field\":\"network_policy\",\"reasons\":[\"strict_allowlist_not_supported\"],"
		"\"requirement\":\"allowlist\",\"runtime\":\"native\"}");
	check_refused(&f, (struct policy_request){ .runtime = "docker" }, "runtime_unavailable",
		"{\"available\":false,\"reasons\":[\"docker_not_supported\"],"
		"\"runtime\":\"docker\",\"suggested\":[\"native\"]}");
	check_refused(&f, (struct policy_request){ .runtime = "lima" }, "runtime_unavailable",
		"{\"available\":false,\"reasons\":[\"platform_not_supported\"],"
		"\"runtime\":\"lima\",\"suggested\":[]}");
}

TEST(less_of_a_processor_than_can_be_granted_is_rounded_up)
{
	FIXTURE(f, NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ .cpu_milli = 1 }), 0);
	CHECK_EQ(f.p.cpu_milli, 10);
	CHECK_EQ(f.p.limits.cpu_milli, 10);
}

static bool has_exec(struct fixture *f, const char *trust_level, int asked)
{
	struct policy_request q = { .trust_level = trust_level, .workspace_exec = asked };

	return decide(f, q) == 0 && f->p.workspace_exec;
}

TEST(executable_files_are_granted_by_trust_level)
{
	FIXTURE(off, NULL);

	CHECK(!has_exec(&off, "trusted", 0));
	check_refused(&off, (struct policy_request){ .workspace_exec = 1 }, "policy_denied",
		"{\"requirement\":\"workspace_exec\",\"setting\":\"SANDBOX_WORKSPACE_EXEC\","
		"\"trust_level\":\"standard\"}");
	CHECK(strstr(off.refusal.message, "SANDBOX_WORKSPACE_EXEC") != NULL);
	FIXTURE(ask, "SANDBOX_WORKSPACE_EXEC=ask", NULL);
	CHECK(!has_exec(&ask, NULL, 0) && has_exec(&ask, NULL, 1) && !has_exec(&ask, NULL, -1));
	CHECK_EQ(decide(&ask, (struct policy_request){ .trust_level = "untrusted",
				      .workspace_exec = 1 }),
		-EPERM);
	FIXTURE(on, "SANDBOX_WORKSPACE_EXEC=on", NULL);
	CHECK(has_exec(&on, "trusted", 0) && has_exec(&on, "standard", 1));
	CHECK(!has_exec(&on, "standard", -1) && !has_exec(&on, "untrusted", 0));
	CHECK_EQ(decide(&on, (struct policy_request){ .trust_level = "untrusted",
				     .workspace_exec = 1 }),
		-EPERM);
	FIXTURE(mixed, "SANDBOX_WORKSPACE_EXEC=on,untrusted=ask,trusted=off", NULL);
	CHECK(has_exec(&mixed, "standard", 0) && has_exec(&mixed, "untrusted", 1));
	CHECK(!has_exec(&mixed, "untrusted", 0) && !has_exec(&mixed, "trusted", 0));
	CHECK_EQ(policy_check_exec("yes", NULL), -EINVAL);
	CHECK_EQ(policy_check_exec("strangers=on", NULL), -EINVAL);
	CHECK_EQ(policy_check_exec("untrusted=", NULL), -EINVAL);
}

TEST(what_means_nothing_is_an_invalid_request)
{
	static const struct policy_request bad[] = {
		{ .runtime = "nope" },
		{ .network_policy = "allow_all" },
		{ .trust_level = "blind" },
		{ .trust_level = "" },
		{ .memory_mb = 1 },
	};
	FIXTURE(f, NULL);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		check_refused(&f, bad[i], "invalid_request", NULL);
}

TEST(the_default_runtime_is_not_replaced_by_another)
{
	FIXTURE(f, NULL);

	free(f.c.default_runtime); /* no server starts with that, so it can not be loaded */
	f.c.default_runtime = xstrdup("firecracker");
	CHECK_EQ(decide(&f, (struct policy_request){ 0 }), -EPERM);
	CHECK_STR(f.refusal.code, "runtime_unavailable");
	CHECK_EQ(decide(&f, (struct policy_request){ .runtime = "native" }), 0);
}

TEST(runtimes_that_are_there)
{
	CHECK(policy_has_runtime("native"));
	CHECK(!policy_has_runtime("docker"));
	CHECK(!policy_has_runtime("podman"));
}

TEST(rules_say_who_waits_for_an_admin)
{
	FIXTURE(f, "SANDBOX_APPROVAL_REQUIRED=trusted,cpu>2,memory_mb>1000,timeout_sec>100", NULL);
	struct policy_request small = { .cpu_milli = 2000, .memory_mb = 1000, .timeout_sec = 100 };

	CHECK_EQ(decide(&f, small), 0);
	CHECK(!f.p.approval);
	struct policy_request q = small;
	q.cpu_milli = 2001;
	CHECK_EQ(decide(&f, q), 0);
	CHECK_STR(f.p.approval, "cpu>2");
	q = small;
	q.memory_mb = 1001;
	CHECK_EQ(decide(&f, q), 0);
	CHECK_STR(f.p.approval, "memory_mb>1000");
	q = small;
	q.timeout_sec = 101;
	CHECK_EQ(decide(&f, q), 0);
	CHECK_STR(f.p.approval, "timeout_sec>100");
	q = small;
	q.trust_level = "trusted";
	CHECK_EQ(decide(&f, q), 0);
	CHECK_STR(f.p.approval, "trusted");
	/* What is asked for is clamped first: it is about what the run would get. */
	q = small;
	q.trust_level = "untrusted";
	q.cpu_milli = 99000;
	CHECK_EQ(decide(&f, q), 0);
	CHECK(!f.p.approval);
	FIXTURE(all, "SANDBOX_APPROVAL_REQUIRED=all", NULL);
	CHECK_EQ(decide(&all, small), 0);
	CHECK_STR(all.p.approval, "all");
}

TEST(a_rule_that_says_nothing_is_refused)
{
	static const char *const bad[] = { "", "some", "cpu", "cpu>", "cpu>x", "cpu>=2", "cpu<2",
		"memory_mb>1.5", "memory_mb>1G", "timeout_sec>-1", "pids>3", "all " };
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(policy_check_rule(bad[i], &err), -EINVAL);
	CHECK_EQ(policy_check_rule("cpu>0.5", &err), 0);
}

TEST(required_facets_are_a_mask)
{
	FIXTURE(f, "SANDBOX_REQUIRE=memory,seccomp", NULL);

	CHECK_EQ(decide(&f, (struct policy_request){ 0 }), 0);
	CHECK_EQ(f.p.require, FACET_BIT(FACET_MEMORY) | FACET_BIT(FACET_SECCOMP));
	FIXTURE(all, "SANDBOX_REQUIRE=all", NULL);
	CHECK_EQ(decide(&all, (struct policy_request){ 0 }), 0);
	CHECK_EQ(all.p.require, FACET_ALL);
}

static int check_env(const char *text, struct err *err)
{
	AUTO_JSON *env = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

	CHECK(env != NULL);
	return policy_check_env(env, err);
}

TEST(variables_have_names_and_texts)
{
	struct err err = { 0 };

	CHECK_EQ(policy_check_env(NULL, &err), 0);
	CHECK_EQ(check_env("null", &err), 0);
	CHECK_EQ(check_env("{}", &err), 0);
	CHECK_EQ(check_env("{\"_A1\": \"\", \"b\": \"=\\n\"}", &err), 0);
	CHECK_EQ(check_env("[]", &err), -EINVAL);
	CHECK_EQ(check_env("{\"\": \"x\"}", &err), -EINVAL);
	CHECK_EQ(check_env("{\"1A\": \"x\"}", &err), -EINVAL);
	CHECK_EQ(check_env("{\"A=B\": \"x\"}", &err), -EINVAL);
	CHECK_EQ(check_env("{\"A\": 1}", &err), -EINVAL);
	CHECK_EQ(check_env("{\"A\": \"swordfish\\u0000\"}", &err), -EINVAL);
	CHECK(strstr(err.text, "'A'") && !strstr(err.text, "swordfish"));
}

TEST(an_environment_has_a_size)
{
	AUTO_JSON *env = json_object();
	AUTO_FREE char *large = xcalloc(1, POLICY_ENV_BYTES_MAX);
	char name[16];

	for (unsigned i = 0; i < POLICY_ENV_MAX; i++) {
		(void)snprintf(name, sizeof(name), "A%u", i);
		(void)json_object_set_new(env, name, json_string("x"));
	}
	CHECK_EQ(policy_check_env(env, NULL), 0);
	(void)json_object_set_new(env, "B", json_string("x"));
	CHECK_EQ(policy_check_env(env, NULL), -E2BIG);
	(void)json_object_clear(env);
	/* "B=", the value and a NUL fill it to the last byte. */
	memset(large, 'x', POLICY_ENV_BYTES_MAX - 3);
	(void)json_object_set_new(env, "B", json_string(large));
	CHECK_EQ(policy_check_env(env, NULL), 0);
	(void)json_object_set_new(env, "C", json_string(""));
	CHECK_EQ(policy_check_env(env, NULL), -E2BIG);
}

TESTS(UNIT(executable_files_are_granted_by_trust_level),
	UNIT(time_is_given_in_milliseconds_as_well), UNIT(what_is_not_asked_for_has_a_default),
	UNIT(a_default_is_a_part_of_the_machine), UNIT(a_default_is_never_more_than_the_most),
	UNIT(what_fits_is_echoed), UNIT(too_much_is_clamped_to_the_trust_level_and_the_server),
	UNIT(what_can_not_be_honoured_is_refused_by_code),
	UNIT(less_of_a_processor_than_can_be_granted_is_rounded_up),
	UNIT(what_means_nothing_is_an_invalid_request),
	UNIT(the_default_runtime_is_not_replaced_by_another), UNIT(runtimes_that_are_there),
	UNIT(rules_say_who_waits_for_an_admin), UNIT(a_rule_that_says_nothing_is_refused),
	UNIT(required_facets_are_a_mask), UNIT(variables_have_names_and_texts),
	UNIT(an_environment_has_a_size))
