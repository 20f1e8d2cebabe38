#include "core/problem.h"

#include <string.h>

#include "core/policy.h"
#include "lib/test.h"

TEST(a_code_has_a_status)
{
	CHECK_EQ(problem_status("run_not_found"), 404);
	CHECK_EQ(problem_status("queue_full"), 429);
	CHECK_EQ(problem_status("invalid_spec_version"), 400);
	CHECK_EQ(problem_status("policy_unsupported"), 422);
	CHECK_EQ(problem_status("runtime_unavailable"), 503);
	CHECK_EQ(problem_status("unheard_of"), 500);
}

TEST(it_is_filled_and_released)
{
	struct problem p = { 0 };

	CHECK_EQ(problem_set(&p, "queue_full", "the queue of %d is full", 3), -1);
	p.retry_after = 5;
	problem_add(&p, "limit", json_integer(3));
	problem_add(&p, "limit", json_integer(4));
	CHECK_EQ(p.status, 429);
	CHECK_STR(p.code, "queue_full");
	CHECK_STR(p.message, "the queue of 3 is full");
	CHECK_EQ(json_integer_value(json_object_get(p.details, "limit")), 4);

	/* Another one leaves nothing of it. */
	CHECK_EQ(problem_set(&p, "not_found", "no"), -1);
	CHECK_EQ(p.status, 404);
	CHECK(p.details == NULL);
	CHECK_EQ(p.retry_after, 0);
	problem_fini(&p);
	CHECK_EQ(p.status, 0);
	problem_fini(&p);
}

TEST(a_field_is_named)
{
	struct problem p = { 0 };

	CHECK_EQ(problem_field(&p, "timeout_sec", "must be between %d and %d", 1, 3600), -1);
	CHECK_EQ(p.status, 422);
	CHECK_STR(p.code, "invalid_request");
	CHECK_STR(p.message, "timeout_sec: must be between 1 and 3600");
	CHECK_STR(json_string_value(json_object_get(p.details, "field")), "timeout_sec");
	problem_fini(&p);
}

TEST(a_message_may_be_made_of_the_last_one)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "not_found", "no image");
	(void)problem_set(&p, p.code, "run: %s", p.message);
	CHECK_STR(p.message, "run: no image");
	CHECK_STR(p.code, "not_found");
	problem_fini(&p);
}

/* A character that was cut in two would make an answer that can not be encoded. */
TEST(a_message_is_always_utf8)
{
	struct problem p = { 0 };
	char text[400];

	(void)problem_set(&p, "invalid_path", "'%.2s' and \xff", "a\xc3\xa4");
	CHECK_STR(p.message, "'a?' and ?");
	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 3);
	for (size_t skip = 0; skip < 2; skip++) {
		(void)problem_set(&p, "invalid_path", "%s%s", skip ? "x" : "", text);
		json_t *json = json_string(p.message);
		CHECK(json != NULL);
		CHECK_EQ(strlen(p.message), sizeof(p.message) - 1);
		json_decref(json);
	}
	(void)problem_set(&p, "invalid_path", "whole: \xc3\xa4 \xf0\x9f\x90\x9a");
	CHECK_STR(p.message, "whole: \xc3\xa4 \xf0\x9f\x90\x9a");
	problem_fini(&p);
}

TEST(a_refusal_keeps_its_words_and_gives_its_details)
{
	struct policy_refusal refusal = { .code = "policy_unsupported",
		.message = "100%s not here",
		.details = json_pack("{s:s}", "runtime", "native") };
	struct problem p = { 0 };

	CHECK_EQ(problem_from_policy(&p, &refusal), -1);
	CHECK(refusal.details == NULL);
	CHECK_EQ(p.status, 422);
	CHECK_STR(p.message, "100%s not here");
	CHECK_STR(json_string_value(json_object_get(p.details, "runtime")), "native");
	problem_fini(&p);
}

TESTS(UNIT(a_code_has_a_status), UNIT(it_is_filled_and_released), UNIT(a_field_is_named),
	UNIT(a_message_may_be_made_of_the_last_one), UNIT(a_message_is_always_utf8),
	UNIT(a_refusal_keeps_its_words_and_gives_its_details))
