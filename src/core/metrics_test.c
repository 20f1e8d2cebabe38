#include "core/metrics.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "lib/test.h"

/* True when `line` is one of the lines of `text`. */
static bool has_line(const char *text, const char *line)
{
	size_t size = strlen(line);

	for (const char *p = text; (p = strstr(p, line)); p++) {
		if ((p == text || p[-1] == '\n') && p[size] == '\n')
			return true;
	}
	return false;
}

static size_t count_lines(const char *text, const char *prefix)
{
	size_t n = 0;

	for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		n += str_after(p, prefix) != NULL;
	return n;
}

TEST(counters_count_and_gauges_are_set)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	const char *const *native = METRICS_LABELS("native");

	metrics_add(m, METRIC_SESSIONS_CREATED, native, 1);
	metrics_add(m, METRIC_SESSIONS_CREATED, native, 2);
	metrics_add(m, METRIC_SESSIONS_CREATED, METRICS_LABELS("docker"), 1);
	metrics_set(m, METRIC_RUNS, METRICS_LABELS("queued"), 7);
	metrics_set(m, METRIC_RUNS, METRICS_LABELS("queued"), 5);
	metrics_set(m, METRIC_SESSIONS, NULL, 4);
	metrics_add(m, METRIC_SESSIONS, NULL, -1);
	metrics_add(m, METRIC_LOG_BYTES, native, 0.1);
	metrics_add(m, METRIC_LOG_BYTES, native, 0.2);
	metrics_add(m, METRIC_ARTIFACT_BYTES, native, 9007199254740991.0);
	AUTO_FREE char *text = metrics_text(m);
	CHECK(has_line(text, "# HELP sandbox_sessions_created_total Sessions that were created."));
	CHECK(has_line(text, "# TYPE sandbox_sessions_created_total counter"));
	CHECK(has_line(text, "sandbox_sessions_created_total{runtime=\"native\"} 3"));
	CHECK(has_line(text, "sandbox_sessions_created_total{runtime=\"docker\"} 1"));
	CHECK(has_line(text, "# TYPE sandbox_runs gauge"));
	CHECK(has_line(text, "sandbox_runs{phase=\"queued\"} 5"));
	CHECK(has_line(text, "sandbox_sessions 3"));
	CHECK(has_line(text, "sandbox_log_bytes_total{runtime=\"native\"} 0.30000000000000004"));
	CHECK(has_line(text, "sandbox_artifact_bytes_total{runtime=\"native\"} 9007199254740991"));
}

TEST(what_was_never_touched_is_there)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	AUTO_FREE char *text = metrics_text(m);

	CHECK_EQ(count_lines(text, "# HELP sandbox_"), METRIC_COUNT);
	CHECK_EQ(count_lines(text, "# TYPE sandbox_"), METRIC_COUNT);
	CHECK(has_line(text, "sandbox_metrics_dropped_total 0"));
	CHECK(has_line(text, "sandbox_sessions 0"));
}

TEST(a_histogram_is_cumulative)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	const char *const *native = METRICS_LABELS("native", "completed", "exit_code_0");
	static const double values[] = { 0.0009765625, 0.001953125, 0.25, 600, 601, -1 };

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		metrics_observe(m, METRIC_RUN_DURATION, native, values[i]);
	AUTO_FREE char *text = metrics_text(m);
#define SERIES "runtime=\"native\",outcome=\"completed\",reason=\"exit_code_0\""
	CHECK(has_line(text, "# TYPE sandbox_run_duration_seconds histogram"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"0.001\"} 2"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"0.0025\"} 3"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"0.1\"} 3"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"0.25\"} 4"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"0.5\"} 4"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"600\"} 5"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_bucket{" SERIES ",le=\"+Inf\"} 6"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_sum{" SERIES "} 1201.2529296875"));
	CHECK(has_line(text, "sandbox_run_duration_seconds_count{" SERIES "} 6"));
}

TEST(values_of_labels_are_escaped_and_cut)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	const char *longer = "0123456789012345678901234567890123456789012345678901234567890";

	metrics_add(m, METRIC_HTTP_REQUESTS, METRICS_LABELS("a\\b\"c\nd", "\xc3"), 1);
	metrics_add(m, METRIC_HTTP_REQUESTS, METRICS_LABELS(longer, NULL), 1);
	metrics_add(m, METRIC_HTTP_REQUESTS, METRICS_LABELS(longer, ""), 1);
	AUTO_FREE char *text = metrics_text(m);
	CHECK(has_line(
		text, "sandbox_http_requests_total{method=\"a\\\\b\\\"c\\nd\",code=\"?\"} 1"));
	CHECK(has_line(text, "sandbox_http_requests_total{method=\""
			     "01234567890123456789012345678901234567890123456\",code=\"\"} 2"));
}

TEST(series_are_bounded_and_what_is_left_out_is_counted)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	char value[16];

	for (unsigned i = 0; i < METRICS_SERIES_MAX + 100; i++) {
		(void)snprintf(value, sizeof(value), "x%u", i);
		metrics_add(m, METRIC_UPLOAD_BYTES, METRICS_LABELS(value), 1);
	}
	metrics_observe(m, METRIC_QUEUE_WAIT, METRICS_LABELS("native"), 1);
	metrics_set(m, METRIC_RUNS, METRICS_LABELS("queued"), 1);
	metrics_add(m, METRIC_UPLOAD_BYTES, METRICS_LABELS("x7"), 1);
	metrics_set(m, METRIC_SESSIONS, NULL, 3);
	AUTO_FREE char *text = metrics_text(m);
	CHECK(has_line(text, "sandbox_upload_bytes_total{kind=\"x7\"} 2"));
	CHECK(has_line(text, "sandbox_sessions 3"));
	/* Two have no labels, and are there from the beginning. */
	CHECK(has_line(text, "sandbox_metrics_dropped_total 104"));
	CHECK_EQ(count_lines(text, "sandbox_upload_bytes_total{"), METRICS_SERIES_MAX - 2);
	CHECK_EQ(count_lines(text, "sandbox_queue_wait_seconds_bucket"), 0);
}

TEST(the_same_as_json)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	const char *const *native = METRICS_LABELS("native", "completed", "exit_code_0");

	metrics_add(m, METRIC_RUNS_COMPLETED, native, 128);
	metrics_observe(m, METRIC_RUN_DURATION, native, 912.25);
	metrics_observe(m, METRIC_RUN_DURATION, native, 0.25);
	AUTO_JSON *json = metrics_json(m);
	AUTO_FREE char *completed =
		json_dumps(json_object_get(json, "sandbox_runs_completed_total"), JSON_COMPACT);
	CHECK_STR(completed, "[{\"labels\":{\"runtime\":\"native\",\"outcome\":\"completed\","
			     "\"reason\":\"exit_code_0\"},\"value\":128}]");
	const json_t *sum = json_object_get(json, "sandbox_run_duration_seconds_sum");
	const json_t *count = json_object_get(json, "sandbox_run_duration_seconds_count");
	CHECK(json_number_value(json_object_get(json_array_get(sum, 0), "value")) == 912.5);
	CHECK_EQ(json_integer_value(json_object_get(json_array_get(count, 0), "value")), 2);
	CHECK(json_object_get(json, "sandbox_run_duration_seconds") == NULL);
	CHECK_EQ(json_array_size(json_object_get(json, "sandbox_queue_full_total")), 0);
	CHECK(json_is_array(json_object_get(json, "sandbox_queue_full_total")));
}

/* Every metric with something in it. */
static char *full_text(void)
{
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();

	for (enum metric id = 0; id < METRIC_COUNT; id++) {
		const char *const *odd = METRICS_LABELS("a\"\\\n", "b", "c");

		if (id == METRIC_RUN_DURATION || id == METRIC_START_LATENCY ||
			id == METRIC_QUEUE_WAIT || id == METRIC_HTTP_SECONDS) {
			metrics_observe(m, id, odd, 0.07);
			metrics_observe(m, id, METRICS_LABELS("x", "y", "z"), 1e6);
		} else {
			metrics_add(m, id, odd, 1.5);
			metrics_add(m, id, METRICS_LABELS("x", "y", "z"), 1e18);
		}
	}
	return metrics_text(m);
}

/* What `promtool check metrics` says about `text`; its status, or a negative errno. */
static int promtool(const char *text, char *said, size_t size)
{
	char *const argv[] = { (char *)"promtool", (char *)"check", (char *)"metrics", NULL };
	posix_spawn_file_actions_t actions;
	int status = 0;
	pid_t pid = 0;
	AUTO_FD in = memfd_create("metrics", MFD_CLOEXEC);
	AUTO_FD out = memfd_create("said", MFD_CLOEXEC);

	CHECK(in >= 0 && out >= 0);
	CHECK_EQ(fd_write_full(in, text, strlen(text)), 0);
	CHECK_EQ(lseek(in, 0, SEEK_SET), 0);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
	int r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return -r;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	ssize_t n = pread(out, said, size - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(prometheus_own_tool_accepts_it)
{
	char said[4096] = "";
	AUTO_FREE char *text = full_text();
	int r = promtool(text, said, sizeof(said));

	if (r == -ENOENT)
		SKIP("there is no promtool here (Debian package prometheus)");
	CHECK_STR(said, "");
	CHECK_EQ(r, 0);

	/* It also accepts a server that has done nothing, and does find mistakes. */
	CLEANUP(metrics_freep) struct metrics *m = metrics_new();
	AUTO_FREE char *empty = metrics_text(m);
	CHECK_EQ(promtool(empty, said, sizeof(said)), 0);
	CHECK_STR(said, "");
	CHECK(promtool("sandbox_x{a=\"} 1\n", said, sizeof(said)) > 0);
}

TESTS(UNIT(counters_count_and_gauges_are_set), UNIT(what_was_never_touched_is_there),
	UNIT(a_histogram_is_cumulative), UNIT(values_of_labels_are_escaped_and_cut),
	UNIT(series_are_bounded_and_what_is_left_out_is_counted), UNIT(the_same_as_json),
	UNIT(prometheus_own_tool_accepts_it))
