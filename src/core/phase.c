#include "core/phase.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"

#define BIT(p) (1u << (p))
#define OVER   (BIT(PHASE_COMPLETED) | BIT(PHASE_FAILED) | BIT(PHASE_TIMED_OUT) | BIT(PHASE_KILLED))

/* A run that is recovered, or that ends before we hear of its start, skips phases. */
static const struct {
	const char *name;
	unsigned next;
} phases[PHASE_COUNT] = {
	[PHASE_QUEUED] = { "queued", BIT(PHASE_STARTING) | BIT(PHASE_FAILED) | BIT(PHASE_KILLED) },
	[PHASE_STARTING] = { "starting", BIT(PHASE_RUNNING) | BIT(PHASE_QUEUED) | OVER },
	[PHASE_RUNNING] = { "running", OVER },
	[PHASE_COMPLETED] = { "completed", 0 },
	[PHASE_FAILED] = { "failed", 0 },
	[PHASE_TIMED_OUT] = { "timed_out", 0 },
	[PHASE_KILLED] = { "killed", 0 },
};

const char *phase_name(enum phase p)
{
	return phases[p].name;
}

int phase_find(const char *name, enum phase *ret)
{
	for (int i = 0; i < PHASE_COUNT; i++) {
		if (streq(phases[i].name, name)) {
			*ret = (enum phase)i;
			return 0;
		}
	}
	return -EINVAL;
}

bool phase_is_over(enum phase p)
{
	return BIT(p) & OVER;
}

bool phase_may_follow(enum phase from, enum phase to)
{
	return phases[from].next & BIT(to);
}

enum phase phase_of(enum reason reason)
{
	enum phase p = PHASE_FAILED;

	(void)phase_find(reason_phase(reason), &p);
	return p;
}

/* Rows with a reason are looked at first, in this order; then those of the phase alone. */
static const struct {
	enum phase phase;
	const char *reason; /* NULL: any other */
	struct phase_status status;
} statuses[] = {
	{ PHASE_FAILED, "nonzero_exit",
		{ "nonzero_exit", "execution", "error", true, true, "review_exit_code" } },
	{ PHASE_FAILED, "policy_denied",
		{ "policy_failed", "policy", "error", true, false, "review_policy" } },
	{ PHASE_FAILED, "queue_ttl_expired",
		{ "queue_ttl_expired", "lifecycle", "warning", true, true, "retry_later" } },
	{ PHASE_FAILED, "image_pull_failed",
		{ "runtime_unavailable", "runtime", "error", true, false,
			"check_runtime_readiness" } },
	{ PHASE_FAILED, "exec_failed",
		{ "runtime_error", "execution", "error", true, false, "inspect_logs" } },
	{ PHASE_TIMED_OUT, "startup_timeout",
		{ "startup_timeout", "timeout", "error", true, true, "check_runtime_readiness" } },
	{ PHASE_KILLED, "canceled_by_user",
		{ "canceled_by_user", "cancellation", "warning", true, false, "none" } },
	{ PHASE_KILLED, "output_limit_exceeded",
		{ "output_limit_exceeded", "limits", "warning", true, false, "review_limits" } },
	{ PHASE_QUEUED, NULL, { "queued", "lifecycle", "info", false, false, "none" } },
	{ PHASE_STARTING, NULL, { "starting", "lifecycle", "info", false, false, "none" } },
	{ PHASE_RUNNING, NULL, { "running", "lifecycle", "info", false, false, "none" } },
	{ PHASE_COMPLETED, NULL, { "completed", "success", "info", true, false, "none" } },
	{ PHASE_FAILED, NULL,
		{ "runtime_error", "execution", "error", true, true, "inspect_logs" } },
	{ PHASE_TIMED_OUT, NULL,
		{ "execution_timeout", "timeout", "error", true, true, "retry_later" } },
	{ PHASE_KILLED, NULL, { "killed", "cancellation", "error", true, true, "inspect_logs" } },
};

const struct phase_status *phase_describe(enum phase p, const char *reason, bool limited)
{
	static const struct phase_status limits = { "limits_applied", "limits", "warning", true,
		false, "review_limits" };

	if (limited && phase_is_over(p) && p != PHASE_KILLED)
		return &limits;
	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		if (statuses[i].phase == p &&
			(!statuses[i].reason || (reason && streq(statuses[i].reason, reason))))
			return &statuses[i].status;
	}
	return NULL; /* not reached: every phase has a row */
}
