/* How runs are ended: by those who cancel them, and by deadlines. */
#include "keeper/ward_sample.h"

TEST(cancel_asks_first_and_kills_after_the_grace)
{
	STAGE(t);
	struct frame f;
	struct cur c;

	start(&t);
	tell_running(&t);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	expect_signal(&t, SIGTERM);
	expect_signal(&t, SIGCONT);
	CHECK(t.run->deadline_ns > clock_monotonic_ns());
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL); /* asking twice changes nothing */
	expect_silence(t.init_fd);
	ward_on_deadline(&t.s.k, t.run);
	expect(t.init_fd, MESSAGE_BOX_KILL, &c, &f);
	/* An init that does not obey goes itself. */
	ward_on_deadline(&t.s.k, t.run);
	CHECK(t.run->killed);
	close_fdp(&t.init_fd);
	CHECK_EQ(expect_ended(&t).reason, REASON_CANCELED_BY_USER);
}

TEST(a_client_that_goes_takes_the_grace_along)
{
	STAGE(t);
	struct frame f;
	struct cur c;

	start(&t);
	tell_running(&t);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	expect_signal(&t, SIGTERM);
	expect_signal(&t, SIGCONT);
	ward_cancel(&t.s.k, t.run, CAUSE_CLIENT_GONE);
	expect(t.init_fd, MESSAGE_BOX_KILL, &c, &f);
	CHECK_EQ(t.run->cause, CAUSE_CANCEL); /* the first cause stays */
}

TEST(cancel_does_not_change_how_a_run_has_ended)
{
	STAGE(t);

	capture(&t);
	start(&t);
	tell_running(&t);
	tell_exited(&t, 0);
	CHECK_EQ(t.run->state, RUN_ENDING);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	CHECK(t.run->killed); /* its files are given up */
	close_fdp(&t.init_fd);
	CHECK_EQ(expect_ended(&t).reason, REASON_EXIT_CODE_0);
}

TEST(cancel_without_grace_kills_at_once)
{
	STAGE(t);
	struct frame f;
	struct cur c;

	t.spec.limits.grace_ms = 0;
	start(&t);
	tell_running(&t);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	expect(t.init_fd, MESSAGE_BOX_KILL, &c, &f);
}

TEST(cancel_before_the_start_does_not_wait_for_the_grace)
{
	STAGE(t);

	t.spec.limits.grace_ms = 600000;
	start(&t);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	CHECK(t.run->killed || t.run->deadline_ns < clock_monotonic_ns() + 1000000000u);
	ward_on_deadline(&t.s.k, t.run);
	CHECK(t.run->killed);
	close_fdp(&t.init_fd);
	CHECK_EQ(expect_ended(&t).reason, REASON_CANCELED_BY_USER);
}

TEST(a_cancel_never_makes_a_run_longer)
{
	STAGE(t);

	t.spec.limits.timeout_ms = 50;
	t.spec.limits.grace_ms = 600000;
	start(&t);
	tell_running(&t);
	uint64_t before = t.run->deadline_ns;
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	CHECK(t.run->deadline_ns <= before);
}

TEST(deadlines_have_causes)
{
	STAGE(starting);
	STAGE(running);
	struct frame f;
	struct cur c;

	start(&starting);
	ward_on_deadline(&starting.s.k, starting.run);
	close_fdp(&starting.init_fd);
	CHECK_EQ(expect_ended(&starting).reason, REASON_STARTUP_TIMEOUT);
	start(&running);
	tell_running(&running);
	ward_on_deadline(&running.s.k, running.run);
	expect(running.init_fd, MESSAGE_BOX_KILL, &c, &f);
	tell_exited(&running, SIGKILL);
	CHECK_EQ(expect_ended(&running).reason, REASON_EXECUTION_TIMEOUT);
}

TEST(a_capture_that_hangs_is_ended_and_blames_nobody_else)
{
	STAGE(t);

	capture(&t);
	start(&t);
	tell_running(&t);
	tell_exited(&t, 0);
	ward_on_deadline(&t.s.k, t.run);
	CHECK(t.run->killed);
	close_fdp(&t.init_fd);
	CHECK_EQ(expect_ended(&t).reason, REASON_EXIT_CODE_0);
}

TESTS(UNIT(cancel_asks_first_and_kills_after_the_grace),
	UNIT(a_client_that_goes_takes_the_grace_along),
	UNIT(cancel_does_not_change_how_a_run_has_ended), UNIT(cancel_without_grace_kills_at_once),
	UNIT(cancel_before_the_start_does_not_wait_for_the_grace),
	UNIT(a_cancel_never_makes_a_run_longer), UNIT(deadlines_have_causes),
	UNIT(a_capture_that_hangs_is_ended_and_blames_nobody_else))
