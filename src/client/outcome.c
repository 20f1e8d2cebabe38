#include "client/outcome.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "belljar.h"
#include "ipc/result.h"
#include "ipc/spec.h"

static const struct {
	enum reason reason;
	enum belljar_outcome outcome;
	const char *name;
} outcomes[] = {
	{ REASON_EXIT_CODE_0, BELLJAR_SUCCESS, "success" },
	{ REASON_NONZERO_EXIT, BELLJAR_NONZERO_EXIT, "nonzero_exit" },
	{ REASON_SIGNALED, BELLJAR_SIGNALED, "signaled" },
	{ REASON_OOM_KILLED, BELLJAR_OUT_OF_MEMORY, "out_of_memory" },
	{ REASON_PIDS_LIMIT_EXCEEDED, BELLJAR_PIDS_LIMIT, "pids_limit" },
	{ REASON_EXECUTION_TIMEOUT, BELLJAR_TIMEOUT, "timeout" },
	{ REASON_STARTUP_TIMEOUT, BELLJAR_STARTUP_TIMEOUT, "startup_timeout" },
	{ REASON_CANCELED_BY_USER, BELLJAR_CANCELED, "canceled" },
	{ REASON_IMAGE_PULL_FAILED, BELLJAR_IMAGE_MISSING, "image_missing" },
	{ REASON_PROVISION_FAILED, BELLJAR_PROVISION_FAILED, "provision_failed" },
	{ REASON_EXEC_FAILED, BELLJAR_EXEC_FAILED, "exec_failed" },
	{ REASON_POLICY_DENIED, BELLJAR_POLICY_DENIED, "policy_denied" },
};

const char *belljar_outcome_name(enum belljar_outcome outcome)
{
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		if (outcomes[i].outcome == outcome)
			return outcomes[i].name;
	}
	return NULL;
}

enum reason outcome_reason(enum belljar_outcome outcome)
{
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		if (outcomes[i].outcome == outcome)
			return outcomes[i].reason;
	}
	return REASON_INFRASTRUCTURE_ERROR;
}

static struct belljar_limits public_limits(const struct limits *l)
{
	return (struct belljar_limits){
		.timeout_ms = l->timeout_ms,
		.startup_ms = l->startup_ms,
		.grace_ms = l->grace_ms,
		.no_grace = l->grace_ms == 0,
		.memory_bytes = l->memory_bytes,
		.cpu_milli = l->cpu_milli,
		.pids = l->pids,
		.workspace_bytes = l->workspace_bytes,
		.tmp_bytes = l->tmp_bytes,
		.open_files = l->files,
		.capture_bytes = l->capture_bytes,
	};
}

int outcome_publish(const struct result *r, const struct spec *spec, struct belljar_result *ret,
	struct err *err)
{
	if (r->reason == REASON_INFRASTRUCTURE_ERROR)
		return err_set(err, -EIO, "%s", r->message);
	*ret = (struct belljar_result){
		.exit_code = r->exit_code,
		.signal = r->signal,
		.error = r->error,
		.created_ns = r->created_ns,
		.started_ns = r->started_ns,
		.ended_ns = r->ended_ns,
		.enforced = r->enforced,
		.cpu_us = r->usage.cpu_us,
		.wall_us = r->usage.wall_us,
		.peak_bytes = r->usage.peak_bytes,
		.pids = r->usage.pids,
		.open_files = r->usage.open_files,
		.captured_bytes = r->usage.captured_bytes,
		.is_warm = r->is_warm,
		.workspace_exec = spec->exec,
		.limits = public_limits(&spec->limits),
	};
	for (size_t i = 0; i < ARRAY_SIZE(outcomes); i++) {
		if (outcomes[i].reason == r->reason)
			ret->outcome = outcomes[i].outcome;
	}
	(void)snprintf(ret->image, sizeof(ret->image), "%s", spec->image);
	(void)snprintf(ret->message, sizeof(ret->message), "%s", r->message);
	return 0;
}
