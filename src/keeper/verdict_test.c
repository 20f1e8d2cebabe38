#include <signal.h>
#include <string.h>

#include "box/cgroup.h"
#include "keeper/keeper_private.h"
#include "lib/test.h"

#define EXITED(code) ((code) << 8)
#define UNKNOWN      USAGE_UNKNOWN

/* What is known of a run, and the one reason it must end with. */
static const struct row {
	const char *name;
	enum cause cause;
	int status; /* -1: init reported none */
	uint64_t oom_kills;
	uint64_t pids_max_hits;
	enum reason reason;
	const char *message;
} rows[] = {
	{ "success", CAUSE_NONE, EXITED(0), 0, 0, REASON_EXIT_CODE_0, "exited with status 0" },
	{ "success, nothing counted", CAUSE_NONE, EXITED(0), UNKNOWN, UNKNOWN, REASON_EXIT_CODE_0,
		"exited with status 0" },
	{ "success in spite of a refused fork", CAUSE_NONE, EXITED(0), 0, 5, REASON_EXIT_CODE_0,
		"exited with status 0" },
	{ "failure", CAUSE_NONE, EXITED(3), 0, 0, REASON_NONZERO_EXIT, "exited with status 3" },
	{ "not executable", CAUSE_NONE, EXITED(126), 0, 0, REASON_NONZERO_EXIT,
		"exited with status 126, cannot execute: files in /workspace and /tmp cannot be "
		"executed (noexec): use `sh s.sh`, or workspace_exec" },
	{ "failure, nothing counted", CAUSE_NONE, EXITED(255), UNKNOWN, UNKNOWN,
		REASON_NONZERO_EXIT, "exited with status 255" },
	{ "failure after a refused fork", CAUSE_NONE, EXITED(1), 0, 1, REASON_PIDS_LIMIT_EXCEEDED,
		"could not have more than 64 processes" },
	{ "signal", CAUSE_NONE, SIGSEGV, 0, 0, REASON_SIGNALED,
		"ended by signal 11 (Segmentation fault)" },
	{ "killed by itself", CAUSE_NONE, SIGKILL, 0, 0, REASON_SIGNALED,
		"ended by signal 9 (Killed)" },
	{ "signal with a core", CAUSE_NONE, SIGABRT | 0x80, 0, 0, REASON_SIGNALED,
		"ended by signal 6 (Aborted)" },
	{ "signal after a refused fork", CAUSE_NONE, SIGABRT, 0, 2, REASON_PIDS_LIMIT_EXCEEDED,
		"could not have more than 64 processes" },
	{ "out of memory, counted", CAUSE_NONE, SIGKILL, 1, 0, REASON_OOM_KILLED,
		"used more than 1048576 bytes of memory" },
	{ "out of memory, init gone too", CAUSE_NONE, -1, 1, 0, REASON_OOM_KILLED,
		"used more than 1048576 bytes of memory" },
	{ "out of memory, told before it is counted", CAUSE_OOM, -1, 0, 0, REASON_OOM_KILLED,
		"used more than 1048576 bytes of memory" },
	{ "out of memory and refused forks", CAUSE_NONE, EXITED(1), 1, 1, REASON_OOM_KILLED,
		"used more than 1048576 bytes of memory" },
	{ "too slow to start", CAUSE_STARTUP_TIMEOUT, -1, 0, 0, REASON_STARTUP_TIMEOUT,
		"starting took longer than 20.000 s" },
	{ "timeout", CAUSE_TIMEOUT, SIGKILL, 0, 0, REASON_EXECUTION_TIMEOUT,
		"running took longer than 1.500 s" },
	{ "timeout, init gone too", CAUSE_TIMEOUT, -1, 0, 0, REASON_EXECUTION_TIMEOUT,
		"running took longer than 1.500 s" },
	{ "ended just before the kill", CAUSE_TIMEOUT, EXITED(0), 0, 0, REASON_EXIT_CODE_0,
		"exited with status 0" },
	{ "failed just before the kill", CAUSE_TIMEOUT, EXITED(2), 0, 0, REASON_NONZERO_EXIT,
		"exited with status 2" },
	{ "timeout while out of memory", CAUSE_TIMEOUT, SIGKILL, 1, 0, REASON_EXECUTION_TIMEOUT,
		"running took longer than 1.500 s" },
	{ "canceled", CAUSE_CANCEL, SIGTERM, 0, 0, REASON_CANCELED_BY_USER, "canceled" },
	{ "canceled and went well", CAUSE_CANCEL, EXITED(0), 0, 0, REASON_CANCELED_BY_USER,
		"canceled" },
	{ "canceled before it started", CAUSE_CANCEL, -1, UNKNOWN, UNKNOWN, REASON_CANCELED_BY_USER,
		"canceled" },
	{ "left alone", CAUSE_CLIENT_GONE, SIGKILL, 0, 0, REASON_CANCELED_BY_USER,
		"the client that started it is gone" },
	{ "init died", CAUSE_NONE, -1, 0, 0, REASON_INFRASTRUCTURE_ERROR,
		"the init process of the box died" },
};

static struct ward new_run(void)
{
	return (struct ward){
		.limits = {
			.pids = 64,
			.memory_bytes = 1 << 20,
			.timeout_ms = 1500,
			.startup_ms = 20000,
		},
		.sampled_processes = UNKNOWN,
		.result = {
			.exit_code = -1,
			.usage = { .peak_bytes = UNKNOWN, .pids = UNKNOWN, .open_files = UNKNOWN },
		},
	};
}

static struct cgroup_stats no_stats(void)
{
	return (struct cgroup_stats){ UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN };
}

TEST(every_end_has_one_reason)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ward r = new_run();
		struct cgroup_stats stats = no_stats();

		r.cause = rows[i].cause;
		r.has_status = rows[i].status >= 0;
		r.status = r.has_status ? rows[i].status : 0;
		stats.oom_kills = rows[i].oom_kills;
		stats.pids_max_hits = rows[i].pids_max_hits;
		verdict_decide(&r, &stats);
		if (r.result.reason != rows[i].reason ||
			strcmp(r.result.message, rows[i].message) != 0)
			fail_msg("%s: %s, '%s'", rows[i].name, reason_name(r.result.reason),
				r.result.message);
	}
}

TEST(files_that_went_with_a_box_are_told_of)
{
	for (int sent = 0; sent < 2; sent++) {
		struct cgroup_stats stats = no_stats();
		struct ward r = new_run();

		r.cause = CAUSE_OOM;
		r.captures = true;
		r.owes_files = !sent;
		r.started_mono_ns = r.ended_mono_ns = 1;
		verdict_decide(&r, &stats);
		CHECK_EQ(r.result.reason, REASON_OOM_KILLED);
		CHECK_STR(r.result.message, sent ? "used more than 1048576 bytes of memory"
						 : "used more than 1048576 bytes of memory; "
						   "the files to capture went with it");
	}
}

TEST(exit_code_and_signal_are_kept_whatever_the_reason)
{
	struct cgroup_stats stats = no_stats();
	struct ward exited = new_run();
	struct ward killed = new_run();
	struct ward unknown = new_run();

	exited.has_status = true;
	exited.status = EXITED(7);
	exited.cause = CAUSE_CANCEL;
	verdict_decide(&exited, &stats);
	CHECK_EQ(exited.result.exit_code, 7);
	CHECK_EQ(exited.result.signal, 0);
	killed.has_status = true;
	killed.status = SIGKILL;
	killed.cause = CAUSE_TIMEOUT;
	verdict_decide(&killed, &stats);
	CHECK_EQ(killed.result.exit_code, -1);
	CHECK_EQ(killed.result.signal, SIGKILL);
	verdict_decide(&unknown, &stats);
	CHECK_EQ(unknown.result.exit_code, -1);
	CHECK_EQ(unknown.result.signal, 0);
}

TEST(what_init_said_of_a_failed_start_stays)
{
	struct cgroup_stats stats = no_stats();
	struct ward r = new_run();

	r.has_failed = true;
	r.cause = CAUSE_CANCEL;
	r.result.reason = REASON_EXEC_FAILED;
	(void)snprintf(r.result.message, sizeof(r.result.message), "cannot execute 'x'");
	stats.oom_kills = 1;
	verdict_decide(&r, &stats);
	CHECK_EQ(r.result.reason, REASON_EXEC_FAILED);
	CHECK_STR(r.result.message, "cannot execute 'x'");
}

TEST(a_more_special_message_stays)
{
	struct cgroup_stats stats = no_stats();
	struct ward r = new_run();

	r.has_status = true;
	(void)snprintf(r.result.message, sizeof(r.result.message), "capture: no space");
	verdict_decide(&r, &stats);
	CHECK_EQ(r.result.reason, REASON_EXIT_CODE_0);
	CHECK_STR(r.result.message, "capture: no space");
}

TEST(the_cgroup_knows_better_than_init)
{
	struct ward r = new_run();
	struct cgroup_stats stats = no_stats();

	r.has_status = true;
	r.started_mono_ns = 1000000;
	r.ended_mono_ns = 3500000;
	r.result.usage.cpu_us = 10;
	r.result.usage.peak_bytes = 20;
	r.sampled_processes = 5;
	verdict_decide(&r, &stats);
	CHECK_EQ(r.result.usage.cpu_us, 10);
	CHECK_EQ(r.result.usage.peak_bytes, 20);
	CHECK_EQ(r.result.usage.pids, 5);
	CHECK_EQ(r.result.usage.wall_us, 2500);
	stats = (struct cgroup_stats){ .cpu_us = 11, .peak_bytes = 21, .pids_peak = 4 };
	verdict_decide(&r, &stats);
	CHECK_EQ(r.result.usage.cpu_us, 11);
	CHECK_EQ(r.result.usage.peak_bytes, 21);
	CHECK_EQ(r.result.usage.pids, 3);
}

TEST(without_a_box_nothing_is_counted)
{
	struct ward r = new_run();

	r.cause = CAUSE_CANCEL;
	verdict_reach(&r);
	CHECK_EQ(r.result.reason, REASON_CANCELED_BY_USER);
	CHECK(r.result.usage.peak_bytes == UNKNOWN);
}

TESTS(UNIT(every_end_has_one_reason), UNIT(files_that_went_with_a_box_are_told_of),
	UNIT(exit_code_and_signal_are_kept_whatever_the_reason),
	UNIT(what_init_said_of_a_failed_start_stays), UNIT(a_more_special_message_stays),
	UNIT(the_cgroup_knows_better_than_init), UNIT(without_a_box_nothing_is_counted))
