#include "api/reply.h"

#include <string.h>

#include "base/json.h"
#include "core/problem.h"
#include "lib/test.h"

static void check_detail(const struct problem *p, const char *expected)
{
	AUTO_JSON *detail = reply_detail(p);
	AUTO_FREE char *text = json_dumps(detail, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	CHECK_STR(text, expected);
}

TEST(most_details_are_the_code)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "run_not_found", "there is no such run");
	check_detail(&p, "\"run_not_found\"");
	(void)problem_set(&p, "workspace_cap_exceeded", "too much");
	check_detail(&p, "\"workspace_cap_exceeded\"");
	problem_fini(&p);
}

TEST(some_details_are_as_older_clients_know_them)
{
	struct problem p = { 0 };

	(void)problem_set(&p, "session_has_active_runs", "busy");
	problem_add(&p, "active_runs", json_integer(1));
	problem_add(&p, "session_id", json_string("x"));
	check_detail(&p,
		"{\"active_runs\":1,\"error\":\"session_has_active_runs\",\"session_id\":\"x\"}");
	(void)problem_set(&p, "snapshot_not_found", "Snapshot not found: snap-1");
	check_detail(&p, "\"Snapshot not found: snap-1\"");
	(void)problem_set(&p, "not_found", "there is nothing at this path");
	check_detail(&p, "\"Not Found\"");
	(void)problem_set(&p, "invalid_inline_file", "invalid inline file at index 0");
	check_detail(&p, "{\"error\":{\"code\":\"invalid_inline_file\",\"details\":{},"
			 "\"message\":\"invalid inline file at index 0\"}}");
	problem_fini(&p);
}

TEST(a_field_that_is_wrong_is_named_in_a_list)
{
	struct problem p = { 0 };

	(void)problem_field(&p, "timeout_sec", "must be an integer");
	check_detail(&p, "[{\"loc\":[\"body\",\"timeout_sec\"],"
			 "\"msg\":\"timeout_sec: must be an integer\",\"type\":\"value_error\"}]");
	(void)problem_field(&p, "body", "must be a JSON object");
	check_detail(&p, "[{\"loc\":[\"body\"],\"msg\":\"body: must be a JSON object\","
			 "\"type\":\"value_error\"}]");
	(void)problem_field(&p, "wait", "must be a number");
	p.place = PROBLEM_IN_QUERY;
	check_detail(&p, "[{\"loc\":[\"query\",\"wait\"],\"msg\":\"wait: must be a number\","
			 "\"type\":\"value_error\"}]");
	(void)problem_field(&p, "Range", "is too long");
	p.place = PROBLEM_IN_HEADER;
	check_detail(&p, "[{\"loc\":[\"header\",\"Range\"],\"msg\":\"Range: is too long\","
			 "\"type\":\"value_error\"}]");
	problem_fini(&p);
}

TEST(problem_documents_are_for_those_who_ask)
{
	CHECK(reply_wants_problem("application/problem+json"));
	CHECK(reply_wants_problem("text/html, Application/Problem+JSON;q=0.9"));
	CHECK(reply_wants_problem("application/problem+json;charset=utf-8; Q=0.001"));
	CHECK(reply_wants_problem("application/problem+json;q=0, application/problem+json"));
	CHECK(reply_wants_problem("application/problem+json, text/html;q=0"));
	CHECK(!reply_wants_problem("application/problem+json;q=0"));
	CHECK(!reply_wants_problem("application/problem+json ; charset=utf-8;\tQ=0.000 , */*"));
	CHECK(!reply_wants_problem(NULL));
	CHECK(!reply_wants_problem(""));
	CHECK(!reply_wants_problem(",,"));
	CHECK(!reply_wants_problem("*/*"));
	CHECK(!reply_wants_problem("application/problem+jsonx"));
	CHECK(!reply_wants_problem("application/problem"));
}

#define PROBLEM "application/problem+json"

TEST(the_larger_weight_decides)
{
	CHECK(!reply_wants_problem("application/json, " PROBLEM ";q=0.5"));
	CHECK(!reply_wants_problem(PROBLEM ";q=0.5, application/json;q=0.501"));
	CHECK(!reply_wants_problem(PROBLEM ";q=0.5, */*"));
	CHECK(!reply_wants_problem(PROBLEM ";q=0.5, application/*;q=0.6, */*;q=0.1"));
	CHECK(reply_wants_problem(PROBLEM ";q=0.5, application/json;q=0.499, */*"));
	CHECK(reply_wants_problem("application/json;q=0.9," PROBLEM));
	CHECK(reply_wants_problem("application/json;q=0, " PROBLEM ";q=0.001"));
	/* Both alike: who names it wants it. */
	CHECK(reply_wants_problem("application/json, " PROBLEM));
	CHECK(reply_wants_problem(PROBLEM ", */*"));
	CHECK(reply_wants_problem("application/json;q=0.5, " PROBLEM ";q=0.50"));
	/* A weight that is none. */
	CHECK(reply_wants_problem("application/json, " PROBLEM ";q=0.x"));
	CHECK(reply_wants_problem("application/json, " PROBLEM ";q="));
}

TEST(types_that_may_be_json)
{
	CHECK(reply_is_json("application/json"));
	CHECK(reply_is_json("Application/JSON; charset=utf-8"));
	CHECK(reply_is_json("application/vnd.x+json"));
	CHECK(reply_is_json("application/x-www-form-urlencoded"));
	CHECK(!reply_is_json("application/jsonp"));
	CHECK(!reply_is_json("text/plain"));
	CHECK(!reply_is_json("+json"));
	CHECK(!reply_is_json("multipart/form-data; boundary=+json"));
	CHECK(!reply_is_json(""));
}

TESTS(UNIT(most_details_are_the_code), UNIT(some_details_are_as_older_clients_know_them),
	UNIT(a_field_that_is_wrong_is_named_in_a_list),
	UNIT(problem_documents_are_for_those_who_ask), UNIT(the_larger_weight_decides),
	UNIT(types_that_may_be_json))
