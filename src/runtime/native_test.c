#include "runtime/native_sample.h"

TEST(it_is_up_when_the_keeper_has_told_what_it_holds)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	CHECK(!runtime_native.is_up(s.host)); /* nobody listens yet */
	CHECK_EQ(start(&s, RUN_A, &h), -EAGAIN);
	listen_at(&s);
	greet(&s, RUN_A, RUN_B);
	CHECK_EQ(s.n_runs, 1);
	CHECK_EQ(s.n_workspaces, 1);
	CHECK_STR(s.run, RUN_A);
	CHECK_STR(runtime_native.instance(s.host), INSTANCE);
	CHECK_EQ(runtime_native.facets(s.host), 0x55);
	stage_remove(&s);
}

TEST(a_job_from_start_to_acknowledgement)
{
	struct stage s;
	struct heard h;
	int pipe_fds[2];
	size_t n_fds;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	n_fds = scratch_count_fds();
	say_started(&s, RUN_A, 1u << CHANNEL_STDOUT | 1u << CHANNEL_CAPTURE, pipe_fds, 2);
	UNTIL(&s, streq(h.words, "s"));
	CHECK(h.fds[CHANNEL_STDOUT] >= 0 && h.fds[CHANNEL_CAPTURE] >= 0);
	CHECK_EQ(h.fds[CHANNEL_STDIN], -1);
	CHECK_EQ(scratch_count_fds(), n_fds + 2);
	say_running(&s, RUN_A);
	UNTIL(&s, streq(h.words, "sr"));
	CHECK_EQ(h.started_ns, 1234567);
	runtime_native.close_stdin(h.job);
	expect_id(&s, MESSAGE_CLOSE_STDIN, RUN_A);
	runtime_native.cancel(h.job);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(h.words, "srE"));
	CHECK_EQ(h.result.exit_code, 3);
	runtime_native.cancel(h.job); /* too late, and not sent */
	CHECK(is_silent(&s));         /* nothing is acknowledged before that is asked for */
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	close_heard(&h);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	stage_remove(&s);
}

TEST(a_job_that_is_refused_hears_nothing_else)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	h.releases = true;
	say_refused(&s, RUN_A, ENOSPC, REASON_PROVISION_FAILED);
	UNTIL(&s, streq(h.words, "R"));
	CHECK_EQ(h.code, -ENOSPC);
	CHECK_EQ(h.reason, REASON_PROVISION_FAILED);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	say_running(&s, RUN_A);
	CHECK(is_silent(&s));
	CHECK_STR(h.words, "R");
	stage_remove(&s);
}

/* What is released while it runs is killed; its end finds nobody, and is acknowledged. */
TEST(a_job_that_is_released_early_is_canceled_and_acknowledged)
{
	struct stage s;
	struct heard h;
	int pipe_fds[2];

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	CHECK_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
	size_t n_fds = scratch_count_fds();
	say_started(&s, RUN_A, 3, pipe_fds, 2);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	CHECK_STR(h.words, "");
	CHECK_EQ(scratch_count_fds(), n_fds); /* nobody took those */
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
	stage_remove(&s);
}

TEST(runs_from_before_are_adopted_or_discarded)
{
	struct stage s;
	struct heard h = { .fds = { -1, -1, -1, -1, -1, -1 } };

	stage_make(&s);
	listen_at(&s);
	greet(&s, RUN_A, NULL);
	CHECK_EQ(runtime_native.adopt(s.host, RUN_A, &events, &h, &h.job), 0);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(h.words, "srE"));
	runtime_native.release(h.job);
	expect_id(&s, MESSAGE_ACK, RUN_A);
	runtime_native.discard(s.host, RUN_B);
	runtime_native.discard(s.host, RUN_B); /* once is enough */
	expect_id(&s, MESSAGE_ATTACH, RUN_B);
	say_started(&s, RUN_B, 0, NULL, 0);
	expect_id(&s, MESSAGE_CANCEL, RUN_B);
	say_ended(&s, RUN_B);
	expect_id(&s, MESSAGE_ACK, RUN_B);
	stage_remove(&s);
}

TEST(workspaces_are_made_refused_and_dropped)
{
	struct stage s;
	struct made a = { 0 }, b = { 0 }, c = { 0 };

	stage_make(&s);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &a);
	CHECK_EQ(a.n, 1);
	CHECK_EQ(a.code, -EAGAIN);
	listen_at(&s);
	greet(&s, NULL, NULL);
	a = (struct made){ 0 };
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &a);
	runtime_native.make_workspace(s.host, RUN_B, 1 << 20, on_made, &b);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_A);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_B);
	say_id(&s, MESSAGE_WORKSPACE, RUN_B);
	UNTIL(&s, b.n == 1);
	CHECK_EQ(b.code, 0);
	say_refused(&s, RUN_A, ENOSPC, REASON_PROVISION_FAILED);
	UNTIL(&s, a.n == 1);
	CHECK_EQ(a.code, -ENOSPC);
	runtime_native.drop_workspace(s.host, RUN_B);
	expect_id(&s, MESSAGE_DROP_WORKSPACE, RUN_B);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &c);
	close_fdp(&s.fd);
	UNTIL(&s, c.n == 1);
	CHECK_EQ(c.code, -ECONNRESET);
	stage_remove(&s);
}

TEST(two_wishes_for_one_workspace_are_answered_in_their_order)
{
	struct stage s;
	struct made a = { 0 }, b = { 0 };

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &a);
	runtime_native.make_workspace(s.host, RUN_A, 1 << 20, on_made, &b);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_A);
	expect_id(&s, MESSAGE_MAKE_WORKSPACE, RUN_A);
	say_id(&s, MESSAGE_WORKSPACE, RUN_A);
	say_refused(&s, RUN_A, EEXIST, REASON_PROVISION_FAILED);
	UNTIL(&s, a.n == 1 && b.n == 1);
	CHECK_EQ(a.code, 0);
	CHECK_EQ(b.code, -EEXIST);
	stage_remove(&s);
}

TESTS(UNIT(it_is_up_when_the_keeper_has_told_what_it_holds),
	UNIT(a_job_from_start_to_acknowledgement), UNIT(a_job_that_is_refused_hears_nothing_else),
	UNIT(a_job_that_is_released_early_is_canceled_and_acknowledged),
	UNIT(runs_from_before_are_adopted_or_discarded),
	UNIT(workspaces_are_made_refused_and_dropped),
	UNIT(two_wishes_for_one_workspace_are_answered_in_their_order))
