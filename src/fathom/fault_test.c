#include "fathom/fault.h"

#include <errno.h>

#include "base/str.h"
#include "core/phase.h"
#include "core/problem.h"

#include "lib/test.h"

TEST(only_what_is_the_sandboxs_own_is_worth_another_try)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		CHECK(fault_name((enum fault)i) != NULL);
		CHECK_EQ(fault_is_retryable((enum fault)i), i >= FAULT_SANDBOX_OVERLOADED);
	}
	CHECK_STR(fault_name(FAULT_TIMEOUT), "TIMEOUT");
	CHECK_STR(fault_name(FAULT_NETWORK_ERROR), "NETWORK_ERROR");
}

static enum fault fault_called(const char *code)
{
	struct problem p = { 0 };

	(void)problem_set(&p, code, "x");
	enum fault f = fault_of_problem(&p);
	problem_fini(&p);
	return f;
}

TEST(refusals_are_whose_mistake_they_are)
{
	CHECK_EQ(fault_called("invalid_request"), FAULT_INVALID_REQUEST);
	CHECK_EQ(fault_called("invalid_inline_file"), FAULT_INVALID_REQUEST);
	CHECK_EQ(fault_called("policy_unsupported"), FAULT_INVALID_REQUEST);
	CHECK_EQ(fault_called("queue_full"), FAULT_SANDBOX_OVERLOADED);
	CHECK_EQ(fault_called("quota_exceeded"), FAULT_SANDBOX_OVERLOADED);
	CHECK_EQ(fault_called("insufficient_storage"), FAULT_SANDBOX_OVERLOADED);
	CHECK_EQ(fault_called("shutting_down"), FAULT_NETWORK_ERROR);
	CHECK_EQ(fault_called("store_unavailable"), FAULT_NETWORK_ERROR);
	CHECK_EQ(fault_called("internal_error"), FAULT_INTERNAL_ERROR);
}

static void check_reason(const char *reason, int error, const char *status, enum fault fault)
{
	struct fault_end end = fault_of_reason(reason, error);

	CHECK_EQ(end.fault, fault);
	CHECK_EQ(end.status == NULL, status == NULL);
	if (status)
		CHECK_STR(end.status, status);
}

TEST(every_end_has_its_words)
{
	check_reason("exit_code_0", 0, "completed", FAULT_COUNT);
	check_reason("nonzero_exit", 0, "failed", FAULT_COUNT);
	check_reason("signaled", 0, "failed", FAULT_COUNT);
	check_reason("pids_limit_exceeded", 0, "failed", FAULT_COUNT);
	check_reason("oom_killed", 0, "oom", FAULT_OOM);
	check_reason("execution_timeout", 0, "timeout", FAULT_TIMEOUT);
	check_reason("canceled_by_user", 0, "cancelled", FAULT_COUNT);
	check_reason("output_limit_exceeded", 0, "failed", FAULT_OUTPUT_LIMIT);
	check_reason("queue_ttl_expired", 0, NULL, FAULT_SANDBOX_OVERLOADED);
	check_reason("exec_failed", ENOENT, NULL, FAULT_LANGUAGE_NOT_SUPPORTED);
	check_reason("exec_failed", ENOMEM, NULL, FAULT_INTERNAL_ERROR);
	check_reason("startup_timeout", 0, NULL, FAULT_INTERNAL_ERROR);
	check_reason("a new one", 0, NULL, FAULT_INTERNAL_ERROR);
	check_reason(NULL, 0, NULL, FAULT_INTERNAL_ERROR);
}

/* One that a guest brings about itself is a status; a new reason must be thought about. */
TEST(no_reason_of_the_keepers_is_forgotten)
{
	static const enum reason ours[] = { REASON_STARTUP_TIMEOUT, REASON_IMAGE_PULL_FAILED,
		REASON_PROVISION_FAILED, REASON_EXEC_FAILED, REASON_POLICY_DENIED,
		REASON_INFRASTRUCTURE_ERROR };

	for (int r = 0; r < REASON_COUNT; r++) {
		bool is_ours = false;

		for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
			is_ours = is_ours || ours[i] == (enum reason)r;
		CHECK_EQ(fault_of_reason(reason_name((enum reason)r), 0).status == NULL, is_ours);
	}
}

TESTS(UNIT(only_what_is_the_sandboxs_own_is_worth_another_try),
	UNIT(refusals_are_whose_mistake_they_are), UNIT(every_end_has_its_words),
	UNIT(no_reason_of_the_keepers_is_forgotten))
