#include "core/audit.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/date.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/audit_file.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "store/record.h"

#define DAY_NS  (UINT64_C(86400) * 1000000000u)
#define TEXT(t) ((char *)(t))

static struct audit *open_audit(const struct scratch *s, uint64_t max_bytes)
{
	char path[128];
	struct audit *a = NULL;
	struct err err = { 0 };

	(void)snprintf(path, sizeof(path), "%s/audit/log.jsonl", s->path);
	struct audit_options options = { .path = path, .max_bytes = max_bytes, .keep_days = 30 };
	if (audit_open(&options, &a, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

/* The live file, or NULL. */
static char *read_log(const struct scratch *s)
{
	char *text = NULL;
	size_t size = 0;
	AUTO_FD fd = openat(s->fd, "audit/log.jsonl", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fd_read_all(fd, 1 << 20, &text, &size) < 0)
		return NULL;
	return text;
}

/* Line `n` of the live file, parsed. */
static json_t *read_line(const struct scratch *s, unsigned n)
{
	AUTO_FREE char *text = read_log(s);
	json_t *line = NULL;
	char *p = text;

	CHECK(text != NULL);
	for (; n > 0 && p; n--)
		p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
	if (!p || !*p)
		return NULL;
	CHECK(strchr(p, '\n') != NULL);
	CHECK_EQ(json_read(p, (size_t)(strchr(p, '\n') - p), &line, NULL), 0);
	return line;
}

static size_t count_files(const struct scratch *s)
{
	AUTO_FD fd = openat(s->fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(fd);
	size_t n = 0;

	for (const struct dirent *e; dir && (e = readdir(dir));)
		n += e->d_name[0] != '.';
	return n;
}

static const char *text_of(const json_t *line, const char *key)
{
	const char *text = json_string_value(json_object_get(line, key));

	return text ? text : "(none)";
}

static const struct run_row ended = {
	.id = TEXT("run-1"),
	.user_id = TEXT("alice"),
	.spec_version = TEXT("1.0"),
	.runtime = TEXT("native"),
	.runtime_version = TEXT("0.1.0"),
	.base_image = TEXT("python:3.11-slim"),
	.image_digest = TEXT("sha256:00"),
	.policy_hash = TEXT("9f86"),
	.phase = TEXT("completed"),
	.reason_code = TEXT("exit_code_0"),
	.message = TEXT("it said\n\"done\" \xff"),
	.labels = TEXT("{\"team\":\"label-secret\"}"),
	.request = TEXT("{\"command\":[\"secret-code\"],\"env\":{\"KEY\":\"secret-env\"}}"),
	.source = TEXT("rest"),
	.trace_id = TEXT("4bf92f35"),
};

TEST(a_run_is_described_and_its_code_is_not)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	AUTO_JSON *used = json_pack("{s:f,s:f,s:i,s:i,s:i,s:i,s:{s:f}}", "cpu_time_sec", 0.12,
		"wall_time_sec", 1.02, "peak_rss_mb", 42, "pids", 3, "log_bytes", 128,
		"artifact_bytes", 2048, "limits", "cpu", 1.0);

	audit_run(a, "sandbox.run.completed", &ended, used,
		json_pack("{s:i,s:s,s:{s:s},s:s}", "attempt", 2, "ts", "forged", "env", "K",
			"secret-env", "event", "forged"));
	AUTO_JSON *line = read_line(&s, 0);
	AUTO_FREE char *usage = json_canonical(json_object_get(line, "resource_usage"));
	AUTO_FREE char *all = read_log(&s);
	uint64_t ns = 0;

	CHECK_STR(text_of(line, "event"), "sandbox.run.completed");
	CHECK_EQ(date_parse(text_of(line, "ts"), &ns), 0);
	CHECK(clock_realtime_ns() - ns < DAY_NS);
	CHECK_STR(text_of(line, "source"), "API");
	CHECK_STR(text_of(line, "user_id"), "alice");
	CHECK_STR(text_of(line, "run_id"), "run-1");
	CHECK(json_object_get(line, "session_id") == NULL);
	CHECK_STR(text_of(line, "runtime_version"), "0.1.0");
	CHECK_STR(text_of(line, "base_image"), "python:3.11-slim");
	CHECK_STR(text_of(line, "image_digest"), "sha256:00");
	CHECK_STR(text_of(line, "policy_hash"), "9f86");
	CHECK_STR(text_of(line, "phase"), "completed");
	CHECK_STR(text_of(line, "reason_code"), "exit_code_0");
	CHECK(json_object_get(line, "message") == NULL); /* it may repeat what was executed */
	CHECK_STR(text_of(line, "trace_id"), "4bf92f35");
	CHECK_EQ(json_integer_value(json_object_get(line, "exit_code")), 0);
	CHECK(json_is_integer(json_object_get(line, "exit_code")));
	CHECK_EQ(json_integer_value(json_object_get(line, "attempt")), 2);
	CHECK(json_is_object(json_object_get(line, "limits")));
	CHECK_EQ(json_object_size(json_object_get(line, "resource_usage")), 5);
	CHECK(strstr(usage, "\"artifact_bytes\":2048") != NULL);
	CHECK(strstr(all, "secret") == NULL);
	CHECK(strstr(all, "forged") == NULL);
}

TEST(what_is_not_known_yet_is_left_out)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	struct run_row row = { .id = TEXT("run-2"), .exit_code = STORE_NULL };

	audit_run(a, "sandbox.run.queued", &row, NULL, NULL);
	AUTO_JSON *line = read_line(&s, 0);
	CHECK_EQ(json_object_size(line), 4); /* event, ts, source, run_id */
}

TEST(a_session_and_other_events)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	struct session_row row = {
		.id = TEXT("session-1"),
		.user_id = TEXT("bob"),
		.env = TEXT("{\"K\":\"secret-env\"}"),
		.cpu_limit = 1.5,
		.memory_mb = 512,
		.timeout_sec = STORE_NULL,
	};

	audit_session(a, "sandbox.session.created", &row, NULL);
	row.cpu_limit = NAN;
	audit_session(a, "sandbox.session.deleted", &row, NULL);
	audit_event(a, "sandbox.auth.denied", json_pack("{s:s}", "reason", "wrong key"));
	audit_event(a, "sandbox.admin.gc", NULL);
	AUTO_JSON *first = read_line(&s, 0);
	AUTO_JSON *second = read_line(&s, 1);
	AUTO_JSON *third = read_line(&s, 2);
	AUTO_JSON *fourth = read_line(&s, 3);
	AUTO_FREE char *limits = json_canonical(json_object_get(first, "limits"));
	AUTO_FREE char *others = json_canonical(json_object_get(second, "limits"));
	AUTO_FREE char *all = read_log(&s);

	CHECK_STR(text_of(first, "session_id"), "session-1");
	CHECK_STR(limits, "{\"cpu\":1.5,\"memory_mb\":512}");
	CHECK_STR(others, "{\"memory_mb\":512}");
	CHECK_STR(text_of(third, "reason"), "wrong key");
	CHECK_EQ(json_object_size(fourth), 2);
	CHECK(strstr(all, "secret") == NULL);
}

TEST(only_the_owner_may_read_it)
{
	SCRATCH(s);
	struct stat st;
	mode_t before = umask(0);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);

	(void)umask(before);
	CHECK(a != NULL);
	CHECK_EQ(fstatat(s.fd, "audit", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(fstatat(s.fd, "audit/log.jsonl", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0600);
}

TEST(what_can_not_be_a_log_is_refused)
{
	SCRATCH(s);
	char path[128];
	struct err err = { 0 };
	struct audit *a = NULL;
	struct audit_options options = { .path = path, .max_bytes = 1000, .keep_days = 1 };
	size_t n_fds = scratch_count_fds();

	CHECK_EQ(mkdirat(s.fd, "dir", 0700), 0);
	CHECK_EQ(symlinkat("/dev/null", s.fd, "link"), 0);
	CHECK_EQ(mkfifoat(s.fd, "pipe", 0600), 0);
	static const char *const names[] = { "dir", "link", "pipe", "dir/" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", s.path, names[i]);
		CHECK(audit_open(&options, &a, &err) < 0);
		CHECK(err.text[0]);
	}
	(void)snprintf(path, sizeof(path), "relative");
	CHECK_EQ(audit_open(&options, &a, &err), -EINVAL);
	CHECK(a == NULL);
	CHECK_EQ(scratch_count_fds(), n_fds);
}

TEST(a_full_file_is_renamed_and_none_is_written_over)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 300);
	AUTO_FREE char *text = NULL;

	for (int i = 0; i < 20; i++)
		audit_event(a, "sandbox.test",
			json_pack("{s:s, s:i}", "pad", "0123456789012345678901234567890123456789",
				"i", i));
	/* Of about 110 bytes each, two to a file. */
	CHECK_EQ(count_files(&s), 10);
	text = read_log(&s);
	CHECK(text && strlen(text) <= 300);
	AUTO_JSON *last = read_line(&s, 1);
	CHECK_EQ(json_integer_value(json_object_get(last, "i")), 19);
}

TEST(it_is_appended_to_and_a_torn_line_stays_alone)
{
	SCRATCH(s);

	audit_free(open_audit(&s, 1 << 20));
	AUTO_FD dir = openat(s.fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(dir, "log.jsonl", "{\"event\":\"first\"}\n{\"event\":\"to");
	struct audit *a = open_audit(&s, 1 << 20);
	audit_event(a, "sandbox.third", NULL);
	audit_free(a);
	a = open_audit(&s, 1 << 20);
	audit_event(a, "sandbox.fourth", NULL);
	audit_free(a);
	AUTO_FREE char *text = read_log(&s);
	CHECK(str_after(text, "{\"event\":\"first\"}\n{\"event\":\"to\n{") != NULL);
	AUTO_JSON *line = read_line(&s, 3);
	CHECK_STR(text_of(line, "event"), "sandbox.fourth");
}

/* As after a death between the renaming and the opening. */
TEST(a_file_that_is_gone_is_made_again)
{
	SCRATCH(s);

	audit_free(open_audit(&s, 1 << 20));
	CHECK_EQ(unlinkat(s.fd, "audit/log.jsonl", 0), 0);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	audit_event(a, "sandbox.test", NULL);
	AUTO_JSON *line = read_line(&s, 0);
	CHECK_STR(text_of(line, "event"), "sandbox.test");
}

TEST(what_is_too_old_is_removed_by_its_name)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	AUTO_FD dir = openat(s.fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	static const char *const kept[] = {
		"log.jsonl.20010101T000000.000000",
		"log.jsonl.20011301T000000.000000Z",
		"log.jsonl.2001-01-01T00:00:00.000000Z",
		"log.jsonl.29990101T000000.000000Z",
		"log.jsonl-20010101T000000.000000Z",
		"other.20010101T000000.000000Z",
		"log.jsonl",
	};

	scratch_write(dir, "log.jsonl.20010101T000000.000000Z", "old\n");
	scratch_write(dir, "log.jsonl.20240229T235959.999999Z", "old\n");
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		scratch_write(dir, kept[i], "");
	CHECK_EQ(audit_sweep(a), 2);
	CHECK(!scratch_has(dir, "log.jsonl.20010101T000000.000000Z"));
	CHECK(!scratch_has(dir, "log.jsonl.20240229T235959.999999Z"));
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		CHECK(scratch_has(dir, kept[i]));
	CHECK_EQ(audit_sweep(a), 0);
}

TEST(a_sweep_is_bounded_and_the_next_goes_on)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	AUTO_FD dir = openat(s.fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned n_removed = 0;
	char name[64];

	for (unsigned i = 0; i < AUDIT_SCAN_MAX + 50; i++) {
		(void)snprintf(name, sizeof(name), "log.jsonl.20010101T000000.%06uZ", i);
		scratch_write(dir, name, "");
	}
	n_removed = audit_sweep(a);
	CHECK(n_removed > 0 && n_removed <= AUDIT_SCAN_MAX);
	n_removed += audit_sweep(a);
	CHECK_EQ(n_removed, AUDIT_SCAN_MAX + 50);
	CHECK_EQ(count_files(&s), 1);
}

TEST(a_quiet_file_is_closed_after_a_day)
{
	SCRATCH(s);

	audit_free(open_audit(&s, 1 << 20));
	AUTO_FD dir = openat(s.fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(dir, "log.jsonl",
		"{\"event\":\"sandbox.x\",\"ts\":\"2001-01-01T00:00:00.000000Z\"}\n");
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	CHECK_EQ(audit_sweep(a), 0);
	CHECK_EQ(count_files(&s), 2);
	audit_event(a, "sandbox.new", NULL);
	CHECK_EQ(audit_sweep(a), 0);
	CHECK_EQ(count_files(&s), 2);
	AUTO_JSON *line = read_line(&s, 0);
	CHECK_STR(text_of(line, "event"), "sandbox.new");
}

TEST(a_clock_that_goes_back_overwrites_nothing)
{
	SCRATCH(s);
	char path[128];
	struct audit_file f;
	struct err err = { 0 };
	const uint64_t now = UINT64_C(1700000000) * 1000000000u;

	(void)snprintf(path, sizeof(path), "%s/audit/log.jsonl", s.path);
	CHECK_EQ(audit_file_open(&f, path, 8, &err), 0);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(audit_file_append(&f, "1234567\n", 8, now, &err), 0);
	CHECK_EQ(count_files(&s), 5);
	CHECK(scratch_has(f.dir_fd, "log.jsonl.20231114T221320.000000Z"));
	CHECK(scratch_has(f.dir_fd, "log.jsonl.20231114T221320.000003Z"));
	CHECK_EQ(audit_file_rotate_older(&f, now, now, &err), 0);
	CHECK_EQ(count_files(&s), 5);
	CHECK_EQ(audit_file_rotate_older(&f, now + 1, now, &err), 0);
	CHECK_EQ(count_files(&s), 6);
	CHECK_EQ(audit_file_sweep(&f, now + 2000), 2);
	CHECK_EQ(audit_file_sweep(&f, now + DAY_NS), 3);
	audit_file_fini(&f);
}

TEST(a_line_that_is_too_long_keeps_its_ids)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	AUTO_FREE char *pad = xcalloc(1, AUDIT_LINE_MAX + 1);

	memset(pad, 'x', AUDIT_LINE_MAX);
	audit_run(a, "sandbox.run.failed", &ended, NULL, json_pack("{s:s}", "pad", pad));
	AUTO_JSON *line = read_line(&s, 0);
	CHECK(json_is_true(json_object_get(line, "too_long")));
	CHECK_STR(text_of(line, "event"), "sandbox.run.failed");
	CHECK_STR(text_of(line, "run_id"), "run-1");
	CHECK(json_object_get(line, "pad") == NULL);
}

/* A limit on the size of files stands for a disk that is full. */
TEST(what_is_lost_is_admitted_once_there_is_room)
{
	SCRATCH(s);
	CLEANUP(audit_freep) struct audit *a = open_audit(&s, 1 << 20);
	struct rlimit before;

	(void)signal(SIGXFSZ, SIG_IGN);
	audit_event(a, "sandbox.first", NULL);
	AUTO_FREE char *first = read_log(&s);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	struct rlimit small = { strlen(first) + 10, before.rlim_max };
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (int i = 0; i < 3; i++)
		audit_event(a, "sandbox.lost", NULL);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
	AUTO_FREE char *meanwhile = read_log(&s);
	CHECK_STR(meanwhile, first); /* no half line */
	audit_event(a, "sandbox.last", NULL);
	AUTO_JSON *gap = read_line(&s, 1);
	AUTO_JSON *last = read_line(&s, 2);
	CHECK_STR(text_of(gap, "event"), "sandbox.audit.lost");
	CHECK_EQ(json_integer_value(json_object_get(gap, "count")), 3);
	CHECK_STR(text_of(last, "event"), "sandbox.last");
}

TESTS(UNIT(a_run_is_described_and_its_code_is_not), UNIT(what_is_not_known_yet_is_left_out),
	UNIT(a_session_and_other_events), UNIT(only_the_owner_may_read_it),
	UNIT(what_can_not_be_a_log_is_refused),
	UNIT(a_full_file_is_renamed_and_none_is_written_over),
	UNIT(it_is_appended_to_and_a_torn_line_stays_alone),
	UNIT(a_file_that_is_gone_is_made_again), UNIT(what_is_too_old_is_removed_by_its_name),
	UNIT(a_sweep_is_bounded_and_the_next_goes_on), UNIT(a_quiet_file_is_closed_after_a_day),
	UNIT(a_clock_that_goes_back_overwrites_nothing),
	UNIT(a_line_that_is_too_long_keeps_its_ids),
	UNIT(what_is_lost_is_admitted_once_there_is_room))
