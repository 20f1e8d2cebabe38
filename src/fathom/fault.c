#include "fathom/fault.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/problem.h"

static const struct {
	const char *name;
	bool is_retryable;
} faults[FAULT_COUNT] = {
	[FAULT_TIMEOUT] = { "TIMEOUT", false },
	[FAULT_OOM] = { "OOM", false },
	[FAULT_OUTPUT_LIMIT] = { "OUTPUT_LIMIT", false },
	[FAULT_LANGUAGE_NOT_SUPPORTED] = { "LANGUAGE_NOT_SUPPORTED", false },
	[FAULT_INVALID_REQUEST] = { "INVALID_REQUEST", false },
	[FAULT_UNKNOWN_EXECUTION] = { "UNKNOWN_EXECUTION", false },
	[FAULT_SANDBOX_OVERLOADED] = { "SANDBOX_OVERLOADED", true },
	[FAULT_INTERNAL_ERROR] = { "INTERNAL_ERROR", true },
	[FAULT_NETWORK_ERROR] = { "NETWORK_ERROR", true },
};

const char *fault_name(enum fault f)
{
	return faults[f].name;
}

bool fault_is_retryable(enum fault f)
{
	return faults[f].is_retryable;
}

/* A server that ends, or does not reach what it needs, is a line that broke: to connect again
 * and to ask again is what helps. Others follow from whose mistake their status says it is. */
enum fault fault_of_problem(const struct problem *p)
{
	static const struct {
		const char *code;
		enum fault fault;
	} rows[] = {
		{ "queue_full", FAULT_SANDBOX_OVERLOADED },
		{ "quota_exceeded", FAULT_SANDBOX_OVERLOADED },
		{ "rate_limited", FAULT_SANDBOX_OVERLOADED },
		{ "insufficient_storage", FAULT_SANDBOX_OVERLOADED },
		{ "shutting_down", FAULT_NETWORK_ERROR },
		{ "store_unavailable", FAULT_NETWORK_ERROR },
		{ "runtime_unavailable", FAULT_NETWORK_ERROR },
		{ "image_pull_failed", FAULT_LANGUAGE_NOT_SUPPORTED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (streq(rows[i].code, p->code))
			return rows[i].fault;
	}
	return p->status < 500 ? FAULT_INVALID_REQUEST : FAULT_INTERNAL_ERROR;
}

struct fault_end fault_of_reason(const char *reason_code, int error)
{
	static const struct {
		const char *reason;
		int error; /* 0: any */
		struct fault_end end;
	} rows[] = {
		{ "exit_code_0", 0, { "completed", FAULT_COUNT } },
		{ "nonzero_exit", 0, { "failed", FAULT_COUNT } },
		{ "signaled", 0, { "failed", FAULT_COUNT } },
		{ "pids_limit_exceeded", 0, { "failed", FAULT_COUNT } },
		{ "oom_killed", 0, { "oom", FAULT_OOM } },
		{ "execution_timeout", 0, { "timeout", FAULT_TIMEOUT } },
		{ "canceled_by_user", 0, { "cancelled", FAULT_COUNT } },
		{ "output_limit_exceeded", 0, { "failed", FAULT_OUTPUT_LIMIT } },
		{ "queue_ttl_expired", 0, { NULL, FAULT_SANDBOX_OVERLOADED } },
		{ "image_pull_failed", 0, { NULL, FAULT_LANGUAGE_NOT_SUPPORTED } },
		{ "exec_failed", ENOENT, { NULL, FAULT_LANGUAGE_NOT_SUPPORTED } },
		{ "policy_denied", 0, { NULL, FAULT_INVALID_REQUEST } },
	};

	for (size_t i = 0; reason_code && i < ARRAY_SIZE(rows); i++) {
		if (streq(rows[i].reason, reason_code) &&
			(rows[i].error == 0 || rows[i].error == error))
			return rows[i].end;
	}
	return (struct fault_end){ NULL, FAULT_INTERNAL_ERROR };
}
