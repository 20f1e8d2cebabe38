#include "probe/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "lib/test.h"
#include "probe/deadline.h"

static int run(struct spawn *s, const char *script, uint64_t timeout_ms)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };

	CHECK_EQ(spawn_start(s, argv, timeout_ms), 0);
	return spawn_finish(s);
}

TEST(output_and_status_come_back)
{
	struct spawn s;

	CHECK_EQ(run(&s, "echo one; echo two >&2; exit 3", 5000), 3);
	CHECK_STR(s.output, "one\ntwo\n");
	CHECK_EQ(spawn_finish(&s), -ESRCH);
}

TEST(the_environment_is_bare_and_the_input_empty)
{
	struct spawn s;

	(void)setenv("SECRET", "hunter2", 1);
	CHECK_EQ(run(&s, "cat; echo \"$SECRET\"", 5000), 0);
	CHECK_STR(s.output, "\n");
}

TEST(a_program_that_does_not_end_is_killed_with_its_children)
{
	struct spawn s;
	uint64_t start = deadline_now();
	int status = 0;

	/* so that the orphan's end can be waited for */
	CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	CHECK_EQ(run(&s, "sleep 77 & echo $!; wait", 200), -ETIMEDOUT);
	CHECK(deadline_now() - start < 2000);
	pid_t child = (pid_t)strtol(s.output, NULL, 10);
	CHECK(child > 1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_program_that_closed_its_output_and_stays_is_killed_too)
{
	struct spawn s;

	CHECK_EQ(run(&s, "exec >&- 2>&-; sleep 77", 200), -ETIMEDOUT);
}

TEST(endless_output_is_cut_off)
{
	struct spawn s;
	uint64_t start = deadline_now();

	CHECK_EQ(run(&s, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", 200),
		-ETIMEDOUT);
	CHECK(deadline_now() - start < 2000);
	CHECK_EQ(strlen(s.output), SPAWN_OUTPUT_MAX - 1);
}

TEST(a_signal_is_no_exit_status)
{
	struct spawn s;

	CHECK_EQ(run(&s, "kill -9 $$", 5000), -EINTR);
}

TEST(a_program_that_is_not_there_ends_with_127)
{
	const char *const argv[] = { "/nonexistent/program", NULL };
	struct spawn s;

	CHECK_EQ(spawn_start(&s, argv, 5000), 0);
	CHECK_EQ(spawn_finish(&s), 127);
}

TESTS(UNIT(output_and_status_come_back), UNIT(the_environment_is_bare_and_the_input_empty),
	UNIT(a_program_that_does_not_end_is_killed_with_its_children),
	UNIT(a_program_that_closed_its_output_and_stays_is_killed_too),
	UNIT(endless_output_is_cut_off), UNIT(a_signal_is_no_exit_status),
	UNIT(a_program_that_is_not_there_ends_with_127))
