/* Tools that execute: run_python, run_code and sandbox.run. Arguments become the body of a run,
 * what it printed and left becomes the answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/request.h"
#include "core/service.h"
#include "core/session.h"
#include "core/stream.h"
#include "lang/lang.h"
#include "lang/python_start.h"
#include "mcp/advice.h"
#include "mcp/artifacts.h"
#include "mcp/call.h"
#include "mcp/mcp_peer.h"
#include "mcp/output.h"
#include "mcp/resources.h"
#include "mcp/task.h"
#include "mcp/tool.h"
#include "mcp/tool_kernel.h"

/* --- arguments --- */

/* 0, or -EINVAL with a sentence about a variable that may not be set. */
static int check_env(const struct settings *settings, const json_t *env, struct err *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)env, name, value)
	{
		bool is_allowed = false;
		char list[120] = "";

		for (size_t i = 0; settings->mcp_env_allow[i]; i++) {
			size_t n = strlen(list);

			is_allowed = is_allowed || glob_match(settings->mcp_env_allow[i], name);
			(void)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "",
				settings->mcp_env_allow[i]);
		}
		if (!is_allowed)
			return err_set(err, -EINVAL, "env: %.60s may not be set here, only %s",
				quote(name).text, list[0] ? list : "nothing");
	}
	return 0;
}

/* Those of the language, and then those that were sent. */
static json_t *env_of(const struct lang *l, const json_t *sent)
{
	json_t *env = json_object();

	for (size_t i = 0; l && l->env[i]; i++) {
		const char *value = strchr(l->env[i], '=') + 1;
		char name[64];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(value - l->env[i] - 1), l->env[i]);
		(void)json_object_set_new(env, name, json_string(value));
	}
	if (sent)
		(void)json_object_update(env, (json_t *)sent);
	return env;
}

static json_t *file_of(const char *path, const json_t *code)
{
	size_t size = json_string_length(code);
	AUTO_FREE char *text = xcalloc(1, BASE64_TEXT_SIZE(size));

	(void)base64_encode(json_string_value(code), size, text);
	return json_pack("[{s:s,s:s}]", "path", path, "content_b64", text);
}

/* limits: {cpu, memory_mb, seconds}. */
static void set_limits(json_t *body, const json_t *limits)
{
	const json_t *cpu = json_object_get(limits, "cpu");
	const json_t *memory = json_object_get(limits, "memory_mb");
	const json_t *seconds = json_object_get(limits, "seconds");
	json_t *resources = json_object();

	if (cpu)
		(void)json_object_set(resources, "cpu", (json_t *)cpu);
	if (memory)
		(void)json_object_set_new(resources, "memory_mb",
			json_integer((json_int_t)json_number_value(memory)));
	if (json_object_size(resources) > 0)
		(void)json_object_set(body, "resources", resources);
	json_decref(resources);
	if (seconds)
		(void)json_object_set_new(body, "timeout_ms",
			json_integer((json_int_t)(json_number_value(seconds) * 1000)));
}

static void fail_code_size(struct call *c, const char *what, size_t size, uint64_t limit)
{
	call_fail_tool(c,
		"%s: it has %zu bytes, and %llu are allowed; put data into files with upload_file",
		what, size, (unsigned long long)limit);
}

/* True when it has answered that something is not as it should be. */
static bool is_refused(struct call *c, const json_t *arguments)
{
	const struct settings *settings = call_service(c)->settings;
	const json_t *code = json_object_get(arguments, "code");
	struct err err = { 0 };

	if (code && json_string_length(code) > settings->mcp_max_code_bytes) {
		fail_code_size(c, "code", json_string_length(code), settings->mcp_max_code_bytes);
		return true;
	}
	if (check_env(settings, json_object_get(arguments, "env"), &err) < 0) {
		call_fail_tool(c, "%s", err.text);
		return true;
	}
	return false;
}

/* --- how it ended --- */

static bool is_success(const struct run *run)
{
	return run->row.reason_code && streq(run->row.reason_code, "exit_code_0");
}

/* What the C library and shells say of a file on a mount that is noexec, among others. */
static bool is_for_want_of_exec(const struct run *run, const char *printed)
{
	return !run->policy.workspace_exec && printed &&
	       (strstr(printed, "Permission denied") ||
		       strstr(printed, "failed to map segment from shared object"));
}

/* What a model may do about it; null when the code itself decided how it ended. */
static json_t *message_of(const struct call *c, const struct run *run, const char *printed)
{
	const char *reason = run->row.reason_code ? run->row.reason_code : "";
	const char *advice = advice_of_reason(reason, c->tool == &tool_sandbox_run);
	const char *detail = run->row.message ? run->row.message : "";
	char text[512];

	if (streq(reason, "nonzero_exit") && is_for_want_of_exec(run, printed))
		return json_string(
			"a file of the session or of /tmp was to be executed or loaded? " SPEC_NOEXEC_HINT);
	if (is_success(run) || streq(reason, "nonzero_exit") || (!advice && !detail[0]))
		return json_null();
	if (advice)
		(void)snprintf(text, sizeof(text), "%s (%s)", advice, detail[0] ? detail : reason);
	else
		(void)snprintf(text, sizeof(text), "%s", detail);
	return output_text(text, strlen(text));
}

static void set(json_t *o, const char *name, json_t *value)
{
	(void)json_object_set_new(o, name, value);
}

static json_t *number_or_null(int64_t n)
{
	return n == STORE_NULL ? json_null() : json_integer(n);
}

/* What every run is answered with. */
static json_t *outcome_of(const struct call *c, const struct run *run)
{
	size_t max = (size_t)call_service(c)->settings->mcp_max_output_bytes;
	bool is_cut = false;
	json_t *o = json_object();

	set(o, "run_id", json_string(run->row.id));
	set(o, "exit_code", number_or_null(run->row.exit_code));
	set(o, "stdout", output_read(run->stream, false, max, &is_cut));
	set(o, "stderr", output_read(run->stream, true, max, &is_cut));
	set(o, "truncated", json_boolean(is_cut));
	set(o, "reason_code", json_text_or_null(run->row.reason_code));
	set(o, "message", message_of(c, run, json_string_value(json_object_get(o, "stderr"))));
	if (run->result.usage.wall_us != USAGE_UNKNOWN)
		set(o, "duration_ms",
			json_integer((json_int_t)(run->result.usage.wall_us + 500) / 1000));
	return o;
}

/* With the structured one as its text first. */
static json_t *content_of(const json_t *structured)
{
	AUTO_FREE char *text = json_dumps(structured, JSON_COMPACT | JSON_REAL_PRECISION(12));

	return json_pack("[o]", call_text(text ? text : ""));
}

/* --- run_python and run_code --- */

/* What was not caught makes Python exit with 1, or be interrupted. With anything else a traceback
 * on stderr is one that somebody printed. */
static bool may_have_traceback(const struct run *run)
{
	return run->row.exit_code == 1 ||
	       (run->row.reason_code && streq(run->row.reason_code, "signaled"));
}

/* Files are only looked at when all went well. */
static void finish_code(struct task *t, struct run *run)
{
	struct call *c = t->call;
	json_t *o = outcome_of(c, run);
	bool is_good = is_success(run);
	struct session *session = run->session;
	bool is_cut = false;
	json_t *traceback = may_have_traceback(run)
				    ? output_traceback(run->stream, PYTHON_START_NAME, &is_cut)
				    : json_null();
	const struct inventory *files = is_good && run->has_listing ? &run->listing : NULL;

	tool_tell_of_expiry(c, o);
	set(o, "session_id", json_string(session ? session_shown_id(session) : ""));
	set(o, "traceback", traceback);
	if (is_cut)
		set(o, "truncated", json_true());
	artifacts_set(c, session, files, o);
	if (session && run->has_listing)
		resources_tell(c, session, &run->listing);
	json_t *content = content_of(o);
	if (session)
		artifacts_add_links(content, session, json_object_get(o, "artifacts"));
	call_finish_tool(c, content, o, !is_good);
}

static json_t *words_of(const char *const *words)
{
	json_t *list = json_array();

	for (size_t i = 0; words[i]; i++)
		(void)json_array_append_new(list, json_string(words[i]));
	return list;
}

static json_t *body_of(const struct lang *l, const json_t *arguments, const char *tool)
{
	json_t *body = json_object();

	set(body, "env", env_of(l, json_object_get(arguments, "env")));
	set(body, "labels", json_pack("{s:s,s:s}", "door", "mcp", "tool", tool));
	set_limits(body, json_object_get(arguments, "limits"));
	if (json_object_get(arguments, "workspace_exec"))
		(void)json_object_set(
			body, "workspace_exec", json_object_get(arguments, "workspace_exec"));
	return body;
}

static void start_code(struct call *c, const struct lang *l, json_t *body, const json_t *arguments)
{
	struct task *t = task_new(c, body, finish_code);

	t->lists = t->digests = true;
	t->lang = l;
	task_start_in_session(t, arguments);
}

/* The code comes by stdin, as no file of the session may be in its way; what follows it there is
 * for the code to read. */
static void start_python(struct call *c, const json_t *arguments)
{
	const struct lang *l = lang_find("python");
	const json_t *code = json_object_get(arguments, "code");
	const json_t *input = json_object_get(arguments, "stdin");
	size_t n_code = json_string_length(code);
	size_t n_input = json_string_length(input);
	char size[24];

	if (n_code + n_input > REQUEST_STDIN_MAX) {
		fail_code_size(c, n_input > 0 ? "code and stdin" : "code", n_code + n_input,
			REQUEST_STDIN_MAX);
		return;
	}
	json_t *body = body_of(l, arguments, c->tool->name);
	(void)snprintf(size, sizeof(size), "%zu", n_code);
	set(body, "command", json_pack("[s,s,s,s]", l->argv[0], "-c", python_start, size));
	set(body, "stdin",
		json_pack("s+", json_string_value(code),
			n_input > 0 ? json_string_value(input) : ""));
	start_code(c, l, body, arguments);
}

/* The source becomes a file of the session. */
static void start_source(struct call *c, const struct lang *l, const json_t *arguments)
{
	const json_t *code = json_object_get(arguments, "code");
	json_t *input = json_object_get(arguments, "stdin");
	uint64_t limit = call_service(c)->settings->max_inline_bytes;

	if (json_string_length(code) > limit) {
		fail_code_size(c, "code", json_string_length(code), limit);
		return;
	}
	json_t *body = body_of(l, arguments, c->tool->name);
	set(body, "command", words_of(l->argv));
	set(body, "files", file_of(l->source, code));
	if (input)
		(void)json_object_set(body, "stdin", input);
	start_code(c, l, body, arguments);
}

static void run_python(struct call *c, const json_t *arguments)
{
	if (is_refused(c, arguments))
		return;
	if (json_is_true(json_object_get(arguments, "kernel")))
		tool_kernel_run(c, arguments);
	else if (json_is_true(json_object_get(arguments, "restart")))
		call_fail_tool(c, "restart: it is for the interpreter of kernel: true; without "
				  "kernel each call has a fresh one, so leave restart out");
	else
		start_python(c, arguments);
}

static void fail_language(struct call *c, const char *name)
{
	char list[200] = "";

	for (const struct lang *l = langs; l->name; l++) {
		size_t n = strlen(list);

		if (lang_check(l, NULL) == 0)
			(void)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", l->name);
	}
	call_fail_tool(c, "language: %s is not here, but %s", quote(name).text, list);
}

static void run_code(struct call *c, const json_t *arguments)
{
	const char *name = json_string_value(json_object_get(arguments, "language"));
	const struct lang *l = lang_find(name);

	if (is_refused(c, arguments))
		return;
	if (!l ||
		(streq(call_service(c)->settings->mcp_image, "host") && lang_check(l, NULL) < 0)) {
		fail_language(c, name);
		return;
	}
	if (streq(l->name, "python"))
		start_python(c, arguments);
	else
		start_source(c, l, arguments);
}

/* --- sandbox.run --- */

/* A path of this server as the client reached it: http becomes ws, and https wss. */
static json_t *whole_stream_url(const struct call *c, const char *url)
{
	const char *base = c->peer->base;

	return url[0] == '/' && base[0] ? json_sprintf("ws%s%s", base + strlen("http"), url)
					: json_string(url);
}

static void finish_sandbox(struct task *t, struct run *run)
{
	struct call *c = t->call;
	const struct mcp_host *host = c->peer->host;
	json_t *o = outcome_of(c, run);

	set(o, "phase", json_text_or_null(run->row.phase));
	set(o, "policy_hash", json_text_or_null(run->row.policy_hash));
	set(o, "image_digest", json_text_or_null(run->row.image_digest));
	if (run->session)
		set(o, "session_id", json_string(session_shown_id(run->session)));
	if (host->stream_url) {
		AUTO_FREE char *url = host->stream_url(host->ctx, &run->row);

		set(o, "log_stream_url", whole_stream_url(c, url));
	}
	if (run->session && run->has_listing)
		resources_tell(c, run->session, &run->listing);
	call_finish_tool(c, NULL, o, !is_success(run));
}

static void sandbox_run(struct call *c, const json_t *arguments)
{
	static const char *const same[] = { "base_image", "command", "files", "timeout_sec",
		"runtime", "network_policy", "trust_level", "persona_id", "workspace_id",
		"workspace_group_id", "scope_snapshot_id", "spec_version" };
	const struct session *session = NULL;

	if (is_refused(c, arguments))
		return;
	if (json_object_get(arguments, "session_id")) {
		session = tool_find_session(c, arguments);
		if (!session)
			return;
	}
	json_t *body = body_of(NULL, arguments, c->tool->name);
	set_limits(body, arguments);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		json_t *value = json_object_get(arguments, same[i]);

		if (value)
			(void)json_object_set(body, same[i], value);
	}
	if (session)
		set(body, "session_id", json_string(session->row.id));
	struct task *t = task_new(c, body, finish_sandbox);
	t->lists = session != NULL;
	task_start(t);
}

/* --- the rows --- */

#define LIMITS                                                                                     \
	"\"limits\":{\"type\":\"object\",\"additionalProperties\":false,\"description\":"          \
	"\"What it may use; more than the server allows is lowered to that.\",\"properties\":{"    \
	"\"cpu\":{\"type\":\"number\",\"minimum\":0.01,\"maximum\":1024,\"description\":"          \
	"\"processor cores\"},"                                                                    \
	"\"memory_mb\":{\"type\":\"integer\",\"minimum\":64,\"maximum\":1048576},"                 \
	"\"seconds\":{\"type\":\"number\",\"minimum\":0.001,\"maximum\":3600,\"description\":"     \
	"\"wall time after which it is ended\"}}}"
#define ENV                                                                                        \
	"\"env\":{\"type\":\"object\",\"maxProperties\":64,\"additionalProperties\":"              \
	"{\"type\":\"string\"},\"description\":"                                                   \
	"\"Environment variables; only names that the server allows.\"}"
#define EXEC                                                                                       \
	"\"workspace_exec\":{\"type\":\"boolean\",\"description\":"                                \
	"\"Whether files in the session and /tmp can be executed (compiled programs, ./script, "   \
	"native modules), where the server allows it; it is in effect for this call.\"}"
#define OUTCOME                                                                                    \
	"\"run_id\":{\"type\":\"string\"},"                                                        \
	"\"exit_code\":{\"type\":[\"integer\",\"null\"],\"description\":"                          \
	"\"null when it did not exit by itself\"},"                                                \
	"\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"                       \
	"\"truncated\":{\"type\":\"boolean\",\"description\":"                                     \
	"\"something of what was printed, the traceback, the result or the images is missing\"},"  \
	"\"reason_code\":{\"type\":[\"string\",\"null\"],\"description\":\"how it ended\"},"       \
	"\"message\":{\"type\":[\"string\",\"null\"]},"                                            \
	"\"duration_ms\":{\"type\":\"integer\"},\"session_id\":{\"type\":\"string\"}"
#define CODE_OUTPUT                                                                                \
	"{" SCHEMA_DIALECT ",\"type\":\"object\",\"properties\":{" OUTCOME ","                     \
	"\"traceback\":{\"type\":[\"string\",\"null\"]}," ARTIFACTS_SCHEMA "},"                    \
	"\"required\":[\"run_id\",\"exit_code\",\"stdout\",\"stderr\",\"traceback\","              \
	"\"truncated\",\"artifacts\"]}"

const struct mcp_tool tool_run_python = {
	.name = "run_python",
	.title = "Run Python",
	.description =
		"Run Python code in a sandbox and get stdout, stderr, exit_code, the whole "
		"traceback and the files in /mnt/data (the working directory). Files stay for the "
		"next call with the same session_id; variables only with kernel: true, which also "
		"shows the last expression and figures of matplotlib, as a notebook does. "
		"There is no network. Save plots to files, such as plt.savefig('plot.png'), and look "
		"at them with read_artifact. When it fails, artifacts is empty: read the traceback, "
		"correct the code, and call again.",
	.input_schema =
		"{" SCHEMA_DIALECT ",\"type\":\"object\",\"additionalProperties\":false,"
		"\"required\":[\"session_id\",\"code\"],\"properties\":{" SCHEMA_SESSION_ID ","
		"\"code\":{\"type\":\"string\",\"description\":\"Python source\"}," LIMITS "," ENV
		"," EXEC ","
		"\"kernel\":{\"type\":\"boolean\",\"default\":false,\"description\":"
		"\"Use the interpreter that the session keeps, with the variables of the calls "
		"before.\"},"
		"\"restart\":{\"type\":\"boolean\",\"default\":false,\"description\":"
		"\"With kernel: begin with a fresh interpreter.\"}}}",
	/* No output_schema: it would demand structuredContent of a result with images. */
	.annotations = TOOL_CHANGES,
	.run = run_python,
};

const struct mcp_tool tool_run_code = {
	.name = "run_code",
	.title = "Run code in any language",
	.description =
		"Run a program in one of the languages of this server: python, javascript, shell, "
		"ruby, perl, lua, c, go, java, elixir (those that are installed; session_info "
		"lists them). Works like run_python in the same sessions and files; the source is "
		"kept in /mnt/data under the name that the language needs, such as main.js, but "
		"for Python.",
	.input_schema =
		"{" SCHEMA_DIALECT ",\"type\":\"object\",\"additionalProperties\":false,"
		"\"required\":[\"session_id\",\"language\",\"code\"],"
		"\"properties\":{" SCHEMA_SESSION_ID ","
		"\"language\":{\"type\":\"string\",\"maxLength\":32,\"description\":"
		"\"such as javascript, shell or c\"},"
		"\"code\":{\"type\":\"string\"},"
		"\"stdin\":{\"type\":\"string\",\"description\":\"what it can read\"}," LIMITS
		"," ENV "," EXEC "}}",
	.output_schema = CODE_OUTPUT,
	.annotations = TOOL_CHANGES,
	.run = run_code,
};

#define ID(name) "\"" name "\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":256}"

const struct mcp_tool tool_sandbox_run = {
	.name = "sandbox.run",
	.title = "Run a command",
	.description =
		"Run a command, as a list of arguments, in a sandbox: in a session that exists "
		"(session_id), or in a fresh one of an image (base_image, \"host\" for the programs "
		"of this machine) that is gone afterwards. files are written to /workspace first. "
		"Returns when it ended. There is no network.",
	.input_schema =
		"{" SCHEMA_DIALECT ",\"type\":\"object\",\"properties\":{"
		"\"runtime\":{\"type\":\"string\",\"enum\":[\"native\",\"docker\",\"firecracker\"]},"
		"\"session_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64},"
		"\"base_image\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":255},"
		"\"command\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":4096,\"items\":"
		"{\"type\":\"string\"}},"
		"\"files\":{\"type\":\"array\",\"maxItems\":256,\"items\":{\"type\":\"object\","
		"\"required\":[\"path\",\"content_b64\"],\"properties\":{"
		"\"path\":{\"type\":\"string\"},\"content_b64\":{\"type\":\"string\"}}}},"
		"\"timeout_sec\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":3600},"
		"\"cpu\":{\"type\":\"number\",\"minimum\":0.01,\"maximum\":1024},"
		"\"memory_mb\":{\"type\":\"integer\",\"minimum\":64,\"maximum\":1048576},"
		"\"network_policy\":{\"type\":\"string\",\"enum\":[\"deny_all\",\"allowlist\"]},"
		"\"trust_level\":{\"type\":\"string\",\"enum\":"
		"[\"trusted\",\"standard\",\"untrusted\"]}," ID("persona_id") "," ID("workspace_id") "," ID(
			"workspace_group_id") "," ID("scope_snapshot_id") ","
									  "\"spec_version\":{\"type\":\"string\",\"maxLength\":32}," ENV
									  "," EXEC "},"
									  "\"oneOf\":[{\"required\":[\"session_id\",\"command\"]},"
									  "{\"required\":[\"base_image\",\"command\"]}]}",
	.output_schema =
		"{" SCHEMA_DIALECT ",\"type\":\"object\",\"properties\":{" OUTCOME ","
		"\"phase\":{\"type\":[\"string\",\"null\"]},"
		"\"policy_hash\":{\"type\":[\"string\",\"null\"]},"
		"\"image_digest\":{\"type\":[\"string\",\"null\"]},"
		"\"log_stream_url\":{\"type\":\"string\"}},"
		"\"required\":[\"run_id\",\"exit_code\",\"stdout\",\"stderr\",\"truncated\"]}",
	.annotations = TOOL_CHANGES,
	.run = sandbox_run,
};
