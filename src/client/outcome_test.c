#include "client/outcome.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "belljar.h"
#include "ipc/result.h"
#include "ipc/spec.h"
#include "lib/test.h"

static struct spec standard(void)
{
	struct spec spec;

	spec_init(&spec);
	return spec;
}

TEST(every_reason_has_an_outcome_of_its_own)
{
	struct spec spec = standard();
	uint64_t seen = 0;

	for (int reason = 0; reason < REASON_COUNT; reason++) {
		struct result r = { .reason = (enum reason)reason, .message = "why" };
		struct belljar_result result;

		if (reason == REASON_INFRASTRUCTURE_ERROR)
			continue;
		CHECK_EQ(outcome_publish(&r, &spec, &result, NULL), 0);
		CHECK(belljar_outcome_name(result.outcome) != NULL);
		CHECK(!(seen & (UINT64_C(1) << result.outcome)));
		seen |= UINT64_C(1) << result.outcome;
	}
}

TEST(a_failure_of_the_sandbox_is_no_result)
{
	struct spec spec = standard();
	struct result r = { .reason = REASON_INFRASTRUCTURE_ERROR, .message = "init died" };
	struct belljar_result result = { .exit_code = 77 };
	struct err err;

	CHECK_EQ(outcome_publish(&r, &spec, &result, &err), -EIO);
	CHECK_STR(err.text, "init died");
	CHECK_EQ(result.exit_code, 77); /* outputs are untouched on failure */
}

TEST(facts_and_limits_are_carried_over)
{
	struct spec spec = standard();
	struct result r = {
		.reason = REASON_NONZERO_EXIT,
		.exit_code = 3,
		.usage = { .cpu_us = 11, .wall_us = 12, .peak_bytes = 13, .pids = 14 },
		.message = "exited with status 3",
	};
	struct belljar_result result;

	CHECK_EQ(outcome_publish(&r, &spec, &result, NULL), 0);
	CHECK_EQ(result.outcome, BELLJAR_NONZERO_EXIT);
	CHECK_EQ(result.exit_code, 3);
	CHECK_EQ(result.cpu_us, 11);
	CHECK_EQ(result.peak_bytes, 13);
	CHECK_EQ(result.limits.memory_bytes, spec.limits.memory_bytes);
	CHECK_EQ(result.limits.open_files, spec.limits.files);
	CHECK_STR(result.image, "host");
	CHECK_STR(result.message, r.message);
}

TEST(an_outcome_nobody_knows_has_no_name)
{
	CHECK(belljar_outcome_name((enum belljar_outcome)99) == NULL);
}

TESTS(UNIT(every_reason_has_an_outcome_of_its_own), UNIT(a_failure_of_the_sandbox_is_no_result),
	UNIT(facts_and_limits_are_carried_over), UNIT(an_outcome_nobody_knows_has_no_name))
