#include "cli/result_json.h"

#include <jansson.h>
#include <string.h>

#include "base/fd.h"
#include "belljar.h"
#include "lib/test.h"

static const struct capture_text nothing;

/* What is printed, parsed again: one object on one line. */
static json_t *print(const struct belljar_result *result, const struct belljar_error *error,
	const struct capture_text *out, const struct capture_text *err)
{
	static char text[64 << 10];
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	AUTO_FD saved = dup(STDOUT_FILENO);

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	(void)fflush(stdout);
	CHECK(dup2(write_fd, STDOUT_FILENO) == STDOUT_FILENO);
	close_fdp(&write_fd);
	result_json_print(result, error, out, err);
	(void)fflush(stdout);
	CHECK(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
	ssize_t n = fd_read_full(read_fd, text, sizeof(text) - 1);
	CHECK(n > 1);
	text[n] = '\0';
	CHECK(strchr(text, '\n') == text + n - 1);
	json_t *object = json_loads(text, 0, NULL);
	CHECK(json_is_object(object));
	return object;
}

static void decrefp(json_t **json)
{
	json_decref(*json);
}

#define AUTO_JSON CLEANUP(decrefp) json_t

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	CHECK(text != NULL);
	return text;
}

static struct belljar_result success(void)
{
	return (struct belljar_result){
		.created_ns = UINT64_C(1700000000123456789),
		.started_ns = UINT64_C(1700000000200000000),
		.ended_ns = UINT64_C(1700000001000999999),
		.enforced = 1u << BELLJAR_FACET_MEMORY | 1u << BELLJAR_FACET_SECCOMP,
		.cpu_us = 1500,
		.wall_us = 2500000,
		.peak_bytes = 3 << 20,
		.pids = BELLJAR_UNKNOWN,
		.open_files = 4,
		.limits = { .timeout_ms = 60000, .memory_bytes = 1 << 30, .cpu_milli = 1500 },
		.image = "host",
		.message = "exited with status 0",
		.captured_files = 2,
		.capture_incomplete = true,
	};
}

TEST(a_result_is_told_in_the_words_of_every_door)
{
	struct belljar_result r = success();
	struct capture_text out = { (char *)"hi\n", 3, false };
	AUTO_JSON *j = print(&r, NULL, &out, &nothing);
	const json_t *usage = json_object_get(j, "resource_usage");

	CHECK_STR(text_of(j, "phase"), "completed");
	CHECK_STR(text_of(j, "reason_code"), "exit_code_0");
	CHECK_STR(text_of(j, "stdout"), "hi\n");
	CHECK_STR(text_of(j, "stdout_encoding"), "utf8");
	CHECK(json_is_false(json_object_get(j, "stdout_truncated")));
	CHECK_STR(text_of(j, "stderr"), "");
	CHECK_STR(text_of(j, "created_at"), "2023-11-14T22:13:20.123Z");
	CHECK_STR(text_of(j, "finished_at"), "2023-11-14T22:13:21.000Z");
	CHECK_EQ(json_integer_value(json_object_get(j, "exit_code")), 0);
	CHECK(json_is_null(json_object_get(j, "signal")));
	CHECK(json_is_null(json_object_get(usage, "pids")));
	CHECK(json_real_value(json_object_get(usage, "wall_time_sec")) == 2.5);
	CHECK(json_real_value(json_object_get(usage, "peak_rss_mb")) == 3.0);
	CHECK_EQ(json_integer_value(json_object_get(j, "captured_files")), 2);
	CHECK(json_is_true(json_object_get(j, "capture_incomplete")));
	CHECK_EQ(json_array_size(json_object_get(j, "enforced")), 2);
	CHECK_EQ(json_array_size(json_object_get(j, "enforced")) +
			 json_array_size(json_object_get(j, "not_enforced")),
		BELLJAR_FACET_COUNT);
}

TEST(every_outcome_has_words)
{
	for (int outcome = BELLJAR_SUCCESS; outcome <= BELLJAR_POLICY_DENIED; outcome++) {
		struct belljar_result r = success();

		r.outcome = (enum belljar_outcome)outcome;
		r.exit_code = -1;
		r.started_ns = 0;
		AUTO_JSON *j = print(&r, NULL, &nothing, &nothing);
		CHECK(*text_of(j, "phase") && *text_of(j, "reason_code"));
		CHECK(json_is_null(json_object_get(j, "exit_code")));
		CHECK(json_is_null(json_object_get(j, "started_at")));
	}
}

TEST(output_that_is_no_text_is_base64_and_says_so)
{
	static const struct {
		const char *bytes;
		const char *base64;
	} cases[] = {
		{ "\xff", "/w==" },
		{ "\xff\xfe", "//4=" },
		{ "a\xff"
		  "b",
			"Yf9i" },
		{ "abc\x80", "YWJjgA==" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct belljar_result r = success();
		struct capture_text out = { (char *)cases[i].bytes, strlen(cases[i].bytes), true };
		AUTO_JSON *j = print(&r, NULL, &nothing, &out);

		CHECK_STR(text_of(j, "stderr"), cases[i].base64);
		CHECK_STR(text_of(j, "stderr_encoding"), "base64");
		CHECK(json_is_true(json_object_get(j, "stderr_truncated")));
		CHECK_STR(text_of(j, "stdout_encoding"), "utf8");
	}
}

TEST(a_nul_in_text_is_kept)
{
	struct belljar_result r = success();
	struct capture_text out = { (char *)"a\0b", 3, false };
	static char text[4096];
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	AUTO_FD saved = dup(STDOUT_FILENO);

	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	CHECK(dup2(write_fd, STDOUT_FILENO) == STDOUT_FILENO);
	close_fdp(&write_fd);
	result_json_print(&r, NULL, &out, &nothing);
	(void)fflush(stdout);
	CHECK(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
	CHECK(fd_read_full(read_fd, text, sizeof(text) - 1) > 0);
	CHECK(strstr(text, "\"stdout\":\"a\\u0000b\"") != NULL);
}

TEST(a_sentence_with_odd_bytes_is_not_lost)
{
	struct belljar_result r = success();

	(void)snprintf(r.message, sizeof(r.message), "cannot execute '\xff\xc3': \xe2\x82\xac ä");
	AUTO_JSON *j = print(&r, NULL, &nothing, &nothing);
	CHECK_STR(text_of(j, "message"), "cannot execute '\xef\xbf\xbd\xef\xbf\xbd': € ä");
	CHECK_STR(text_of(j, "phase"), "completed");
}

TEST(our_own_failure_is_an_infrastructure_error)
{
	/* Cut in the middle of a character, as a long path may be. */
	struct belljar_error error = { .code = -5, .text = "open /tmp/\xc3" };
	AUTO_JSON *j = print(NULL, &error, &nothing, &nothing);

	CHECK_STR(text_of(j, "phase"), "failed");
	CHECK_STR(text_of(j, "reason_code"), "infrastructure_error");
	CHECK_STR(text_of(j, "message"), "open /tmp/\xef\xbf\xbd");
	CHECK(json_is_null(json_object_get(j, "exit_code")));
}

TESTS(UNIT(a_result_is_told_in_the_words_of_every_door), UNIT(every_outcome_has_words),
	UNIT(output_that_is_no_text_is_base64_and_says_so), UNIT(a_nul_in_text_is_kept),
	UNIT(a_sentence_with_odd_bytes_is_not_lost),
	UNIT(our_own_failure_is_an_infrastructure_error))
