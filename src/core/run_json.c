/* A run as JSON: for answers, for admins, and what it used. Both names of an id are given,
 * and fields without a value are null, as clients of either kind expect. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/json.h"
#include "base/str.h"
#include "core/run.h"
#include "core/service.h"
#include "core/stream.h"

static json_t *number_or_null(int64_t n)
{
	return n == STORE_NULL ? json_null() : json_integer(n);
}

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *parsed_or_null(const char *text)
{
	json_t *value = text ? json_loads(text, 0, NULL) : NULL;

	return value ? value : json_null();
}

/* Which columns go into an answer by their own names. */
static const struct {
	const char *key;
	size_t offset;
} texts[] = {
#define TEXT(name) #name, offsetof(struct run_row, name)
	{ TEXT(spec_version) },
	{ TEXT(runtime) },
	{ TEXT(runtime_version) },
	{ TEXT(base_image) },
	{ TEXT(resolved_image) },
	{ TEXT(image_digest) },
	{ TEXT(policy_hash) },
	{ TEXT(phase) },
	{ TEXT(reason_code) },
	{ TEXT(started_at) },
	{ TEXT(finished_at) },
	{ TEXT(created_at) },
	{ TEXT(message) },
	{ TEXT(session_id) },
	{ TEXT(persona_id) },
	{ TEXT(workspace_id) },
	{ TEXT(workspace_group_id) },
	{ TEXT(scope_snapshot_id) },
	{ TEXT(trust_level) },
	{ TEXT(network_policy) },
#undef TEXT
};

/* Did a limit cut something off? */
static bool was_limited(const json_t *usage)
{
	static const char *const counters[] = { "stdout_truncated", "artifact_files_skipped" };

	for (size_t i = 0; i < ARRAY_SIZE(counters); i++) {
		if (json_integer_value(json_object_get(usage, counters[i])) > 0)
			return true;
	}
	return false;
}

static void add_status(json_t *o, const struct run_row *row, const json_t *usage)
{
	enum phase phase = PHASE_FAILED;
	char key[64];

	(void)phase_find(row->phase, &phase);
	const struct phase_status *s = phase_describe(phase, row->reason_code, was_limited(usage));
	(void)snprintf(key, sizeof(key), "sandbox.status.%s", s->code);
	set(o, "status_reason_code", json_string(s->code));
	set(o, "status_reason_details",
		json_pack("{s:s,s:s,s:s,s:b,s:b,s:s,s:s}", "code", s->code, "category", s->category,
			"severity", s->severity, "terminal", s->terminal, "retryable", s->retryable,
			"operator_action", s->operator_action, "user_message_key", key));
}

static json_t *common(const struct run_row *row, const json_t *usage)
{
	json_t *o = json_object();

	set(o, "id", json_string(row->id));
	set(o, "run_id", json_string(row->id));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		set(o, texts[i].key,
			json_text_or_null(*(char *const *)((const char *)row + texts[i].offset)));
	set(o, "exit_code", number_or_null(row->exit_code));
	set(o, "signal", number_or_null(row->signal));
	set(o, "workspace_exec",
		row->workspace_exec == STORE_NULL ? json_null()
						  : json_boolean(row->workspace_exec));
	set(o, "labels", row->labels ? parsed_or_null(row->labels) : json_object());
	add_status(o, row, usage);
	return o;
}

/* Why no run has a turn now, whoever else waits; NULL when one can. */
static const char *why_nothing_starts(const struct service *s)
{
	if (!s->settings->enable_execution)
		return "nothing is executed here: SANDBOX_ENABLE_EXECUTION is false";
	return s->is_up ? NULL : "the keeper can not be reached; the run waits for it";
}

/* When one that waits will have its turn, as far as anybody can tell. */
static json_t *estimated_start(const struct service *s, const struct run *run)
{
	char at[DATE_SIZE + 1];

	if (!run || !run->waiting.user || why_nothing_starts(s))
		return json_null();
	uint64_t ahead = queue_position(&s->queue, &run->waiting) + s->queue.n_active;
	uint64_t per_run = s->settings->queue_wait_per_run_sec;
	uint64_t slots = s->queue.max_active ? s->queue.max_active : 1;
	date_format(clock_realtime_ns() + ahead * per_run * UINT64_C(1000000000) / slots, at);
	return json_string(at);
}

json_t *run_json_limits(const struct policy *p)
{
	return json_pack("{s:f,s:I,s:I,s:I,s:I,s:I}", "cpu", (double)p->cpu_milli / 1000,
		"memory_mb", (json_int_t)p->memory_mb, "nofile", (json_int_t)p->limits.files,
		"pids", (json_int_t)p->limits.pids, "startup_timeout_sec",
		(json_int_t)p->startup_timeout_sec, "timeout_sec", (json_int_t)p->timeout_sec);
}

/* What it may use, of what it asked for: from the first answer on. */
static json_t *granted(const struct run *run, const json_t *usage)
{
	json_t *limits = json_object_get(usage, "limits");

	if (limits)
		return json_incref(limits);
	return run ? run_json_limits(&run->policy) : json_null();
}

json_t *run_json(const struct service *s, const struct run_row *row)
{
	const struct run *run = run_find((struct service *)s, row->id, NULL);
	json_t *usage = run && row == &run->row && run->usage ? json_incref(run->usage)
							      : parsed_or_null(row->usage);
	json_t *o = common(row, usage);

	if (run && run->waiting.user && why_nothing_starts(s))
		set(o, "message", json_string(why_nothing_starts(s)));
	set(o, "limits", granted(run, usage));
	set(o, "resource_usage", usage);
	set(o, "estimated_start_time", estimated_start(s, run));
	set(o, "log_stream_url", json_null());
	set(o, "approval", json_text_or_null(row->approval));
	return o;
}

json_t *run_json_admin(const struct run_row *row)
{
	AUTO_JSON *usage = parsed_or_null(row->usage);
	json_t *o = common(row, usage);

	set(o, "user_id", json_text_or_null(row->user_id));
	return o;
}

static json_t *whole(uint64_t value, uint64_t unit)
{
	return value == USAGE_UNKNOWN ? json_null()
				      : json_integer((json_int_t)((value + unit / 2) / unit));
}

static json_t *seconds(uint64_t us)
{
	return us == USAGE_UNKNOWN ? json_null() : json_real(round((double)us / 1e3) / 1e3);
}

json_t *run_json_facets(uint64_t mask)
{
	json_t *list = json_array();

	for (int f = 0; f < FACET_COUNT; f++) {
		if (mask & FACET_BIT(f))
			(void)json_array_append_new(list, json_string(facet_name((enum facet)f)));
	}
	return list;
}

json_t *run_usage(const struct run *run, uint64_t artifact_bytes, uint64_t n_skipped)
{
	const struct result *r = &run->result;
	const struct usage *u = &r->usage;
	json_t *o = json_object();
	bool cut = run->stream && stream_was_truncated(run->stream);

	set(o, "artifact_bytes", json_integer((json_int_t)artifact_bytes));
	set(o, "artifact_files_skipped", json_integer((json_int_t)n_skipped));
	set(o, "cpu_time_sec", seconds(u->cpu_us));
	set(o, "enforced", run_json_facets(r->enforced));
	set(o, "limits", run_json_limits(&run->policy));
	set(o, "log_bytes",
		json_integer(run->stream ? (json_int_t)stream_log_bytes(run->stream) : 0));
	set(o, "max_open_files", whole(u->open_files, 1));
	set(o, "not_enforced", run_json_facets(r->enforced ? FACET_ALL & ~r->enforced : 0));
	set(o, "peak_rss_mb", whole(u->peak_bytes, 1 << 20));
	set(o, "pids", whole(u->pids, 1));
	set(o, "started", r->started_ns ? json_string(r->is_warm ? "warm" : "cold") : json_null());
	set(o, "stdout_truncated", json_integer(cut));
	set(o, "wall_time_sec", seconds(u->wall_us));
	return o;
}
