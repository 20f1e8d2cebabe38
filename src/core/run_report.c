/* How a run ended, for those who watch the service: one line of the log and one of the audit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/run_private.h"
#include "core/service.h"

/* Characters of a user's name that the log shows. */
#define USER_SHOWN 128

/* A message that is a word of the interface. Other messages may repeat a part of the command. */
static const char *known_message(const struct run_row *row)
{
	bool is_word = row->message && row->reason_code && streq(row->message, row->reason_code);

	return is_word ? row->message : NULL;
}

static json_t *audit_extra(const struct run *run)
{
	const struct run_row *row = &run->row;
	const char *message = known_message(row);

	if (run->phase == PHASE_KILLED)
		return json_pack("{s:s}", "message",
			message            ? message
			: row->reason_code ? row->reason_code
					   : "killed");
	if (run->phase == PHASE_FAILED)
		return json_pack("{s:s}", "error_class",
			phase_describe(run->phase, row->reason_code, false)->category);
	return NULL;
}

static void add_text(json_t *o, const char *key, const char *text)
{
	if (text)
		(void)json_object_set_new(o, key, json_stringn(text, strnlen(text, USER_SHOWN)));
}

static void log_end(const struct run *run)
{
	const struct run_row *row = &run->row;
	AUTO_JSON *o = json_object();

	add_text(o, "run_id", row->id);
	add_text(o, "user_id", row->user_id);
	add_text(o, "session_id", row->session_id);
	add_text(o, "runtime", row->runtime);
	add_text(o, "image", row->resolved_image);
	add_text(o, "policy_hash", row->policy_hash);
	add_text(o, "trace_id", row->trace_id);
	add_text(o, "phase", row->phase);
	add_text(o, "reason_code", row->reason_code);
	if (run->phase == PHASE_FAILED)
		add_text(o, "error_class",
			phase_describe(run->phase, row->reason_code, false)->category);
	if (row->exit_code != STORE_NULL)
		(void)json_object_set_new(o, "exit_code", json_integer(row->exit_code));
	if (run->result.usage.wall_us != USAGE_UNKNOWN)
		(void)json_object_set_new(o, "duration_ms",
			json_integer((json_int_t)(run->result.usage.wall_us / 1000)));
	(void)json_object_set_new(o, "log_bytes", json_integer(row->log_bytes));
	AUTO_FREE char *text = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (text)
		log_members(LOG_LEVEL_INFO, "run ended", text);
}

void run_audit(const struct run *run, const char *event, json_t *extra)
{
	json_t *whole = extra ? extra : json_object();

	(void)json_object_update(whole, (json_t *)run->request.context);
	audit_run(run->service->audit, event, &run->row, run->usage, whole);
}

void run_report_end(const struct run *run)
{
	char event[64];

	(void)snprintf(event, sizeof(event), "sandbox.run.%s", run->row.phase);
	run_audit(run, event, audit_extra(run));
	log_end(run);
}
