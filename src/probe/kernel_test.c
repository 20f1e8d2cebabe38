#include "probe/kernel.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "lib/test.h"
#include "probe/host.h"
#include "probe/trial.h"

static struct finding find(probe_fn *run, const struct host *host)
{
	struct finding f = { 0 };
	struct probe row = { .name = "test" };

	run(&row, host, &f);
	return f;
}

static struct finding find_version(probe_fn *run, const char *release)
{
	struct host host = { 0 };

	(void)snprintf(host.uts.release, sizeof(host.uts.release), "%s", release);
	return find(run, &host);
}

TEST(a_kernel_that_is_too_old_is_warned_of)
{
	CHECK_EQ(find_version(kernel_probe_version, "5.10.200").state, PROBE_PARTIAL);
	CHECK_EQ(find_version(kernel_probe_version, "5.12.0").state, PROBE_OK);
	CHECK_EQ(find_version(kernel_probe_version, "strange").state, PROBE_UNKNOWN);
}

TEST(known_flaws_are_named)
{
	struct finding f = find_version(kernel_probe_page_cache, "5.16.10");

	CHECK_EQ(f.state, PROBE_PARTIAL);
	CHECK(strstr(f.detail, "Dirty Pipe (CVE-2022-0847)"));
	CHECK_EQ(find_version(kernel_probe_page_cache, "7.1.0").state, PROBE_OK);
	CHECK_EQ(find_version(kernel_probe_page_cache, "strange").state, PROBE_UNKNOWN);
}

static int refuse(const void *with, struct err *err)
{
	(void)with;
	return err_set(err, -EPERM, "refused");
}

static int run_short(const void *with, struct err *err)
{
	(void)with;
	return err_set(err, -ENOMEM, "no memory");
}

static enum probe_state try_out(struct kernel_trial trial, const struct host *host)
{
	struct finding f = { 0 };
	struct probe row = { .name = "test", .with = &trial };

	kernel_probe_trial(&row, host, &f);
	return f.state;
}

TEST(what_was_refused_is_missing_and_what_ran_short_unknown)
{
	struct host host = { 0 };

	CHECK_EQ(try_out((struct kernel_trial){ .run = NULL, .proof = "done" }, &host), PROBE_OK);
	CHECK_EQ(try_out((struct kernel_trial){ .run = refuse }, &host), PROBE_MISSING);
	CHECK_EQ(try_out((struct kernel_trial){ .run = run_short }, &host), PROBE_UNKNOWN);
}

TEST(nothing_is_tried_for_want_of_a_user_namespace)
{
	struct host host = { .user_error = -EPERM };
	struct kernel_trial trial = { .needs_user = true, .proof = "done" };

	CHECK_EQ(try_out(trial, &host), PROBE_MISSING);
	CHECK_EQ(find(kernel_probe_box, &host).state, PROBE_MISSING);
	host.user_error = -ETIMEDOUT;
	CHECK_EQ(try_out(trial, &host), PROBE_UNKNOWN);
	host.is_privileged = true;
	CHECK_EQ(try_out(trial, &host), PROBE_OK);
}

TEST(why_there_is_no_user_namespace_is_told)
{
	struct host host = { .user_error = -EPERM, .user_text = "clone: Operation not permitted" };

	CHECK_STR(find(kernel_probe_user, &host).detail, host.user_text);
	CHECK_EQ(find(kernel_probe_user, &host).state, PROBE_MISSING);
	host.user_error = -ENOENT;
	CHECK_EQ(find(kernel_probe_user, &host).state, PROBE_UNKNOWN);
	CHECK_STR(find(kernel_probe_user, &host).fix, FIX_PROC);
}

TESTS(UNIT(a_kernel_that_is_too_old_is_warned_of), UNIT(known_flaws_are_named),
	UNIT(what_was_refused_is_missing_and_what_ran_short_unknown),
	UNIT(nothing_is_tried_for_want_of_a_user_namespace),
	UNIT(why_there_is_no_user_namespace_is_told))
