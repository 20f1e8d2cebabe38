#include "base/json.h"
#include "base/json_write.h"
#include "core/run.h"
#include "core/service_sample.h"

static const char *text_at(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* A stored row, all texts of which are the test's own. */
static struct run_row sample_row(void)
{
	return (struct run_row){
		.id = (char *)"00000000-0000-4000-8000-000000000001",
		.user_id = (char *)"alice",
		.runtime = (char *)"native",
		.phase = (char *)"completed",
		.reason_code = (char *)"exit_code_0",
		.labels = (char *)"{\"a\":\"b\"}",
		.usage = (char *)"{\"stdout_truncated\":0,\"artifact_files_skipped\":0}",
		.request = (char *)"{\"body\":{\"env\":{\"SECRET\":\"x\"}}}",
		.exit_code = 0,
		.signal = STORE_NULL,
	};
}

TEST(a_row_as_an_answer_shows_it)
{
	SAMPLE(m);
	sample_open(&m);
	struct run_row row = sample_row();
	AUTO_JSON *o = run_json(m.service, &row);
	AUTO_FREE char *text = json_dumps(o, 0);

	CHECK_STR(text_at(o, "id"), row.id);
	CHECK_STR(text_at(o, "run_id"), row.id);
	CHECK_STR(text_at(o, "phase"), "completed");
	CHECK_EQ(json_integer_value(json_object_get(o, "exit_code")), 0);
	CHECK(json_is_null(json_object_get(o, "signal")));
	CHECK(json_is_null(json_object_get(o, "session_id")));
	CHECK(json_is_null(json_object_get(o, "estimated_start_time")));
	CHECK_STR(text_at(json_object_get(o, "labels"), "a"), "b");
	CHECK(json_object_get(json_object_get(o, "resource_usage"), "stdout_truncated") != NULL);
	const json_t *details = json_object_get(o, "status_reason_details");
	CHECK_STR(text_at(details, "code"), text_at(o, "status_reason_code"));
	CHECK(json_is_true(json_object_get(details, "terminal")));
	CHECK(strstr(text, "SECRET") == NULL); /* what it is to execute is nobody's business */
	CHECK(json_object_get(o, "user_id") == NULL);
	sample_remove(&m);
}

TEST(an_admin_sees_whose_it_is)
{
	struct run_row row = sample_row();
	AUTO_JSON *o = run_json_admin(&row);
	AUTO_FREE char *text = json_dumps(o, 0);

	CHECK_STR(text_at(o, "user_id"), "alice");
	CHECK(strstr(text, "SECRET") == NULL);
}

TEST(a_limit_that_cut_something_off_shows)
{
	struct run_row row = sample_row();
	AUTO_JSON *whole = run_json_admin(&row);

	row.usage = (char *)"{\"stdout_truncated\":1}";
	AUTO_JSON *cut = run_json_admin(&row);
	row.usage = (char *)"no json";
	AUTO_JSON *odd = run_json_admin(&row);
	CHECK(!streq(text_at(whole, "status_reason_code"), text_at(cut, "status_reason_code")));
	CHECK_STR(text_at(whole, "status_reason_code"), text_at(odd, "status_reason_code"));
}

TEST(what_was_granted_shows_from_the_beginning)
{
	SAMPLE(m);
	m.settings.max_mem_mb = 128;
	sample_open(&m);
	struct run *run = sample_run_of(&m, "alice",
		"{\"base_image\":\"host\",\"command\":[\"true\"],\"resources\":{\"memory_mb\":9999}}");
	AUTO_JSON *o = run_json(m.service, &run->row);

	CHECK(json_is_null(json_object_get(o, "resource_usage")));
	CHECK_EQ(json_integer_value(json_object_get(json_object_get(o, "limits"), "memory_mb")),
		128);
	sample_remove(&m);
}

TEST(what_waits_has_an_estimate)
{
	SAMPLE(m);
	m.settings.max_concurrent_runs = 1;
	sample_open(&m);
	struct run *first = sample_run(&m, NULL);
	struct run *second = sample_run(&m, NULL);
	AUTO_JSON *a = run_json(m.service, &first->row);
	AUTO_JSON *b = run_json(m.service, &second->row);

	CHECK(json_is_null(json_object_get(a, "estimated_start_time")));
	CHECK(text_at(b, "estimated_start_time") != NULL);
	CHECK(strcmp(text_at(b, "estimated_start_time"), second->row.created_at) > 0);
	CHECK_STR(text_at(a, "phase"), "starting");
	CHECK_STR(text_at(b, "phase"), "queued");
	sample_remove(&m);
}

TEST(usage_that_was_not_measured_is_null)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);

	run->result = job_result(sample_job(0), REASON_EXIT_CODE_0, 0);
	run->result.usage.cpu_us = 1234567;
	run->result.usage.peak_bytes = USAGE_UNKNOWN;
	run->result.usage.wall_us = USAGE_UNKNOWN;
	AUTO_JSON *o = run_usage(run, 42, 3);
	AUTO_FREE char *text = json_canonical(o);
	AUTO_FREE char *as_made = json_write(o, 0, 0, NULL);
	CHECK_STR(text, as_made); /* an answer looks the same before and after a restart */
	CHECK(json_is_null(json_object_get(o, "peak_rss_mb")));
	CHECK(json_is_null(json_object_get(o, "wall_time_sec")));
	CHECK(strstr(text, "\"cpu_time_sec\":1.235") != NULL);
	CHECK_EQ(json_integer_value(json_object_get(o, "pids")), 4);
	CHECK_EQ(json_integer_value(json_object_get(o, "artifact_bytes")), 42);
	CHECK_EQ(json_integer_value(json_object_get(o, "artifact_files_skipped")), 3);
	CHECK_EQ(json_array_size(json_object_get(o, "enforced")), FACET_COUNT - 1);
	CHECK_EQ(json_array_size(json_object_get(o, "not_enforced")), 1);
	CHECK(json_integer_value(json_object_get(json_object_get(o, "limits"), "pids")) > 0);
	sample_remove(&m);
}

/* A run that never began claims nothing about what was enforced. */
TEST(what_never_began_enforced_nothing)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = sample_run(&m, NULL);
	AUTO_JSON *o = run_usage(run, 0, 0);

	CHECK_EQ(json_array_size(json_object_get(o, "enforced")), 0);
	CHECK_EQ(json_array_size(json_object_get(o, "not_enforced")), 0);
	sample_remove(&m);
}

TESTS(UNIT(a_row_as_an_answer_shows_it), UNIT(what_was_granted_shows_from_the_beginning),
	UNIT(an_admin_sees_whose_it_is), UNIT(a_limit_that_cut_something_off_shows),
	UNIT(what_waits_has_an_estimate), UNIT(usage_that_was_not_measured_is_null),
	UNIT(what_never_began_enforced_nothing))
