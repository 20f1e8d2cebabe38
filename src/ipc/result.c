#include "ipc/result.h"

#include <string.h>

#include "ipc/cur.h"

static const struct {
	const char *name;
	const char *phase;
} reasons[REASON_COUNT] = {
	[REASON_EXIT_CODE_0] = { "exit_code_0", "completed" },
	[REASON_NONZERO_EXIT] = { "nonzero_exit", "failed" },
	[REASON_SIGNALED] = { "signaled", "failed" },
	[REASON_OOM_KILLED] = { "oom_killed", "failed" },
	[REASON_PIDS_LIMIT_EXCEEDED] = { "pids_limit_exceeded", "failed" },
	[REASON_EXECUTION_TIMEOUT] = { "execution_timeout", "timed_out" },
	[REASON_STARTUP_TIMEOUT] = { "startup_timeout", "timed_out" },
	[REASON_CANCELED_BY_USER] = { "canceled_by_user", "killed" },
	[REASON_IMAGE_PULL_FAILED] = { "image_pull_failed", "failed" },
	[REASON_PROVISION_FAILED] = { "provision_failed", "failed" },
	[REASON_EXEC_FAILED] = { "exec_failed", "failed" },
	[REASON_POLICY_DENIED] = { "policy_denied", "failed" },
	[REASON_INFRASTRUCTURE_ERROR] = { "infrastructure_error", "failed" },
};

const char *reason_name(enum reason r)
{
	return reasons[r].name;
}

const char *reason_phase(enum reason r)
{
	return reasons[r].phase;
}

void result_put(const struct result *r, struct put *p)
{
	put_str(p, r->id);
	put_u32(p, (uint32_t)r->reason);
	put_u32(p, (uint32_t)r->exit_code);
	put_u32(p, (uint32_t)r->signal);
	put_u32(p, (uint32_t)r->error);
	put_u64(p, r->created_ns);
	put_u64(p, r->started_ns);
	put_u64(p, r->ended_ns);
	put_u64(p, r->enforced);
	put_u64(p, r->usage.cpu_us);
	put_u64(p, r->usage.wall_us);
	put_u64(p, r->usage.peak_bytes);
	put_u64(p, r->usage.pids);
	put_u64(p, r->usage.open_files);
	put_u64(p, r->usage.captured_bytes);
	put_u8(p, r->is_warm);
	put_str(p, r->message);
}

void result_get(struct result *r, struct cur *c)
{
	memset(r, 0, sizeof(*r));
	cur_str_into(c, r->id, sizeof(r->id));
	uint32_t reason = cur_u32(c);
	if (reason >= REASON_COUNT) {
		c->bad = true;
		return;
	}
	r->reason = (enum reason)reason;
	r->exit_code = (int32_t)cur_u32(c);
	r->signal = (int32_t)cur_u32(c);
	r->error = (int32_t)cur_u32(c);
	r->created_ns = cur_u64(c);
	r->started_ns = cur_u64(c);
	r->ended_ns = cur_u64(c);
	r->enforced = cur_u64_max(c, FACET_ALL);
	r->usage.cpu_us = cur_u64(c);
	r->usage.wall_us = cur_u64(c);
	r->usage.peak_bytes = cur_u64(c);
	r->usage.pids = cur_u64(c);
	r->usage.open_files = cur_u64(c);
	r->usage.captured_bytes = cur_u64(c);
	r->is_warm = cur_bool(c);
	cur_str_into(c, r->message, sizeof(r->message));
}
