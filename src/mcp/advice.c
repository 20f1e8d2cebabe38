#include "mcp/advice.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/problem.h"

static const struct {
	const char *code;
	const char *quota; /* that is exceeded, or NULL: it is not about one */
	const char *advice;
} of_problems[] = {
	{ "workspace_lost", NULL,
		"call close_session, and use the session again to begin with no files" },
	{ "restore_unfinished", NULL,
		"try again, or call close_session, and use the session again to begin with no files" },
	{ "quota_exceeded", "sessions",
		"close_session one that is not needed, or wait until one expires" },
	{ "quota_exceeded", "cpu_seconds_per_day",
		"wait until what runs now is over, or until the next day begins, in UTC" },
	{ "quota_exceeded", "artifact_mb_per_day", "wait until the next day begins, in UTC" },
	{ "queue_full", NULL, "wait, and try again" },
	{ "runtime_unavailable", NULL, "try again in a moment" },
	{ "shutting_down", NULL, "try again in a moment" },
	{ "store_unavailable", NULL, "try again in a moment" },
	{ "session_has_active_runs", NULL, "wait until what runs in the session is over" },
};

const char *advice_of_problem(const struct problem *problem)
{
	const char *quota = json_string_value(json_object_get(problem->details, "quota"));

	for (size_t i = 0; i < ARRAY_SIZE(of_problems); i++) {
		const char *about = of_problems[i].quota;

		if (streq(of_problems[i].code, problem->code) &&
			(!about || (quota && streq(about, quota))))
			return of_problems[i].advice;
	}
	return NULL;
}

static const struct {
	const char *reason;
	const char *advice;
	const char *of_command; /* instead, for sandbox.run */
} of_reasons[] = {
	{ "execution_timeout", "it took too long: do less, or ask for more limits.seconds",
		"it took too long: do less, or ask for more timeout_sec" },
	{ "oom_killed",
		"it needed too much memory: work on less at once, or ask for more "
		"limits.memory_mb",
		"it needed too much memory: work on less at once" },
	{ "pids_limit_exceeded", "it started too many processes or threads", NULL },
	{ "signaled", "a signal ended it", NULL },
	{ "canceled_by_user", "it was canceled", NULL },
	{ "queue_ttl_expired", "it waited too long for its turn; try again later", NULL },
	{ "output_limit_exceeded", "it printed too much", NULL },
	{ "infrastructure_error", "the sandbox failed, not the code; try again", NULL },
	{ "startup_timeout", "the sandbox failed, not the code; try again", NULL },
	{ "provision_failed",
		"the source could not be put into /mnt/data: if that is full, remove files with "
		"run_python, or close_session",
		"files could not be put into the workspace: if that is full, remove some with rm" },
	{ "image_pull_failed", "that image is not there", NULL },
	{ "exec_failed", "the program could not be started", NULL },
	{ "policy_denied", "the policy of this server forbids it", NULL },
};

const char *advice_of_reason(const char *reason, bool is_command)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_reasons); i++) {
		if (streq(of_reasons[i].reason, reason))
			return is_command && of_reasons[i].of_command ? of_reasons[i].of_command
								      : of_reasons[i].advice;
	}
	return NULL;
}
