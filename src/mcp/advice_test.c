#include "mcp/advice.h"

#include <string.h>

#include "base/json.h"
#include "core/problem.h"
#include "lib/test.h"

static const char *advice_about(const char *quota)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "quota_exceeded", "used up");
	if (quota)
		problem_add(&p, "quota", json_string(quota));
	const char *advice = advice_of_problem(&p);
	problem_fini(&p);
	return advice;
}

TEST(advice_fits_the_quota_that_is_exceeded)
{
	CHECK(strstr(advice_about("sessions"), "close_session") != NULL);
	CHECK(strstr(advice_about("cpu_seconds_per_day"), "close") == NULL);
	CHECK(strstr(advice_about("cpu_seconds_per_day"), "next day") != NULL);
	CHECK(advice_about("something_else") == NULL);
	CHECK(advice_about(NULL) == NULL);
}

TEST(advice_names_arguments_that_the_tool_has)
{
	CHECK(strstr(advice_of_reason("execution_timeout", false), "limits.seconds") != NULL);
	CHECK(strstr(advice_of_reason("execution_timeout", true), "timeout_sec") != NULL);
	CHECK(strstr(advice_of_reason("provision_failed", false), "/mnt/data") != NULL);
	CHECK_STR(advice_of_reason("signaled", true), advice_of_reason("signaled", false));
	CHECK(advice_of_reason("nonzero_exit", false) == NULL);
}

TESTS(UNIT(advice_fits_the_quota_that_is_exceeded), UNIT(advice_names_arguments_that_the_tool_has))
