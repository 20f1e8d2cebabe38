/* Tests of what can not be undone in a process: each runs in a forked child, which
 * tells the test about the first check that failed, or why it had to skip.
 *
 *	static void drop(void *ctx)
 *	{
 *		CHILD_CHECK(caps_enter(ctx, NULL) == 0);
 *	}
 *
 *	TEST(capabilities_are_gone)
 *	{
 *		IN_CHILD(drop, &context);
 *	}
 */
#pragma once
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/test.h"

typedef void child_fn(void *ctx);

struct child_report {
	bool failed;
	bool skipped;
	char text[512];
};

static int child_report_fd = -1;

static inline _Noreturn void child_leave(const struct child_report *report)
{
	(void)fd_write_full(child_report_fd, report, sizeof(*report));
	_exit(0);
}

static inline _Noreturn void child_fail(const char *file, int line, const char *what)
{
	struct child_report report = { .failed = true };

	(void)snprintf(
		report.text, sizeof(report.text), "%s:%d: %s (errno %d)", file, line, what, errno);
	child_leave(&report);
}

static inline _Noreturn void child_skip(const char *why)
{
	struct child_report report = { .skipped = true };

	(void)snprintf(report.text, sizeof(report.text), "%s", why);
	child_leave(&report);
}

/* Fork, run `fn`, and return what it reported. */
static inline struct child_report child_run(child_fn *fn, void *ctx)
{
	struct child_report report = { 0 };
	int read_fd = -1;
	int write_fd = -1;

	(void)fflush(NULL);
	if (fd_pipe(&read_fd, &write_fd) < 0)
		abort();
	pid_t pid = fork();
	if (pid < 0)
		abort();
	if (pid == 0) {
		child_report_fd = write_fd;
		fn(ctx);
		child_leave(&report);
	}
	(void)close(write_fd);
	if (fd_read_full(read_fd, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
		report.failed = true;
		(void)snprintf(report.text, sizeof(report.text), "the child died without a word");
	}
	(void)close(read_fd);
	(void)waitpid(pid, NULL, 0);
	return report;
}

#define CHILD_CHECK(cond)                                                                          \
	do {                                                                                       \
		if (!(cond))                                                                       \
			child_fail(__FILE__, __LINE__, #cond);                                     \
	} while (0)

#define CHILD_SKIP(why) child_skip(why)

#define IN_CHILD(fn, ctx)                                                                          \
	do {                                                                                       \
		struct child_report report_ = child_run((fn), (ctx));                              \
		if (report_.skipped)                                                               \
			SKIP(report_.text);                                                        \
		if (report_.failed)                                                                \
			fail_msg("%s", report_.text);                                              \
	} while (0)
