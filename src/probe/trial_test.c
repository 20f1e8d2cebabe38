#include "probe/trial.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "lib/test.h"
#include "probe/deadline.h"

static int refuse(const void *with, struct err *err)
{
	return err_set(err, -EXDEV, "because of %s", (const char *)with);
}

static int hang(const void *with, struct err *err)
{
	(void)with;
	(void)err;
	return pause();
}

static int die(const void *with, struct err *err)
{
	(void)with;
	(void)err;
	(void)raise(SIGKILL);
	return 0;
}

static bool has_children(void)
{
	return waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD;
}

TEST(what_failed_comes_back_in_words)
{
	struct err err = { 0 };

	CHECK_EQ(trial_run(0, refuse, "this", &err), -EXDEV);
	CHECK_STR(err.text, "because of this");
	CHECK_EQ(trial_run(0, refuse, "this", NULL), -EXDEV);
	CHECK(!has_children());
}

TEST(a_trial_that_hangs_is_ended_in_time)
{
	struct err err = { 0 };
	uint64_t start = deadline_now();

	CHECK_EQ(trial_run(0, hang, NULL, &err), -ETIMEDOUT);
	CHECK(deadline_now() - start < TRIAL_TIMEOUT_MS + 1000);
	CHECK(!has_children());
}

TEST(a_trial_that_dies_is_told_from_one_that_fails)
{
	struct err err = { 0 };

	CHECK_EQ(trial_run(0, die, NULL, &err), -ECHILD);
	CHECK(!has_children());
}

TEST(the_parent_stays_as_it_was)
{
	char before[64] = "";
	char after[64] = "";
	struct err err = { 0 };

	CHECK_EQ(gethostname(before, sizeof(before)), 0);
	(void)trial_run(CLONE_NEWUSER | CLONE_NEWUTS, trial_uts, NULL, &err);
	CHECK_EQ(gethostname(after, sizeof(after)), 0);
	CHECK_STR(before, after);
	CHECK_EQ(trial_run(0, trial_rlimits, NULL, &err), 0);
	CHECK_EQ(trial_run(0, trial_seccomp, NULL, &err), 0);
	CHECK(getppid() > 0); /* the filter forbade this in the child */
}

TEST(a_pid_namespace_is_told_from_none)
{
	struct err err = { 0 };

	CHECK_EQ(trial_run(0, trial_pid, NULL, &err), -ENOTSUP);
	if (trial_run(CLONE_NEWUSER, trial_user, NULL, &err) < 0)
		SKIP("no user namespaces here");
	CHECK_EQ(trial_run(CLONE_NEWUSER | CLONE_NEWPID, trial_pid, NULL, &err), 0);
}

TESTS(UNIT(what_failed_comes_back_in_words), UNIT(a_trial_that_hangs_is_ended_in_time),
	UNIT(a_trial_that_dies_is_told_from_one_that_fails), UNIT(the_parent_stays_as_it_was),
	UNIT(a_pid_namespace_is_told_from_none))
