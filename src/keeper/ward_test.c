#include "keeper/ward_sample.h"

TEST(a_run_goes_from_start_to_acknowledged)
{
	STAGE(t);
	uint64_t before = clock_realtime_ns();

	start(&t);
	CHECK_EQ(t.run->state, RUN_STARTING);
	CHECK(t.run->deadline_ns > 0);
	tell_running(&t);
	CHECK_EQ(t.run->state, RUN_RUNNING);
	tell_exited(&t, 3 << 8);
	struct result r = expect_ended(&t);
	CHECK_EQ(r.reason, REASON_NONZERO_EXIT);
	CHECK_EQ(r.exit_code, 3);
	CHECK_EQ(r.usage.open_files, 7);
	CHECK(r.created_ns >= before && r.started_ns >= r.created_ns && r.ended_ns >= before);
	CHECK_EQ(t.run->state, RUN_ENDED);
	CHECK_EQ(t.run->deadline_ns, 0);
	CHECK_EQ(t.s.k.n_runs, 1); /* kept until it is acknowledged */
	CHECK(t.s.k.busy == NULL && t.s.k.retired != NULL);
	ward_close(&t.s.k, t.run);
	CHECK_EQ(t.s.k.n_runs, 0);
}

/* Ends of pipes which the keeper kept would keep the other side waiting. */
TEST(a_run_that_does_not_linger_leaves_no_duplicates)
{
	STAGE(t);
	char byte;

	start(&t);
	CHECK_EQ(fd_set_nonblock(t.fds[CHANNEL_STDOUT], true), 0);
	CHECK_EQ(read(t.fds[CHANNEL_STDOUT], &byte, 1), 0); /* init's end is closed too */
	for (int i = 0; i < CHANNEL_COUNT; i++)
		CHECK_EQ(t.run->fds[i], -1);
}

TEST(a_lingering_run_keeps_duplicates_and_survives_its_client)
{
	STAGE(t);

	t.spec.lingers = true;
	start(&t);
	CHECK(t.run->fds[CHANNEL_STDOUT] >= 0);
	tell_running(&t);
	close_fdp(&t.s.client_fd);
	sample_turn(&t.s, 0);
	CHECK_EQ(t.s.k.n_peers, 0);
	CHECK(!t.run->peer && t.run->cause == CAUSE_NONE);
	tell_exited(&t, 0);
	CHECK_EQ(t.run->state, RUN_ENDED);
	CHECK_EQ(t.s.k.n_runs, 1);
	/* Somebody comes back for it. */
	t.s.client_fd = sample_connect(&t.s, OWNER);
	CHECK_EQ(ward_attach(&t.s.k, t.run, t.s.k.peers, NULL), 0);
	struct frame f;
	struct cur c;
	expect(t.s.client_fd, MESSAGE_STARTED, &c, &f);
	CHECK_EQ(f.n_fds, 3);
	frame_close_fds(&f);
	expect(t.s.client_fd, MESSAGE_RUNNING, &c, &f);
	CHECK_EQ(expect_ended(&t).reason, REASON_EXIT_CODE_0);
}

TEST(other_runs_are_killed_with_their_client)
{
	STAGE(t);
	struct frame f;
	struct cur c;

	start(&t);
	tell_running(&t);
	close_fdp(&t.s.client_fd);
	sample_turn(&t.s, 0);
	CHECK_EQ(t.run->cause, CAUSE_CLIENT_GONE);
	expect(t.init_fd, MESSAGE_BOX_KILL, &c, &f);
	tell_exited(&t, SIGKILL);
	CHECK_EQ(t.s.k.n_runs, 0); /* nobody to keep it for */
}

TEST(captured_files_come_before_the_end)
{
	STAGE(t);

	capture(&t);
	start(&t);
	CHECK(t.fds[CHANNEL_CAPTURE] >= 0);
	tell_running(&t);
	tell_exited(&t, 0);
	CHECK_EQ(t.run->state, RUN_ENDING);
	expect_silence(t.s.client_fd);
	tell_captured(&t, "");
	struct result r = expect_ended(&t); /* which init does not have to be gone for */
	CHECK_EQ(r.reason, REASON_EXIT_CODE_0);
	CHECK_EQ(r.usage.captured_bytes, 99);
	CHECK_STR(r.message, "exited with status 0");
}

TEST(names_of_files_come_before_the_end_too)
{
	STAGE(t);

	t.spec.lists = true;
	start(&t);
	CHECK(t.fds[CHANNEL_LISTING] >= 0);
	CHECK_EQ(t.fds[CHANNEL_CAPTURE], -1);
	tell_running(&t);
	tell_exited(&t, 0);
	CHECK_EQ(t.run->state, RUN_ENDING);
	expect_silence(t.s.client_fd);
	tell_captured(&t, "");
	CHECK_EQ(expect_ended(&t).reason, REASON_EXIT_CODE_0);
}

TEST(a_failed_capture_is_told)
{
	STAGE(t);

	capture(&t);
	start(&t);
	tell_running(&t);
	tell_exited(&t, 0);
	tell_captured(&t, "read 'x'");
	struct result r = expect_ended(&t);
	CHECK_STR(r.message, "capture: read 'x'");
	CHECK_EQ(r.error, EIO);
}

TEST(a_start_that_failed_is_told_in_inits_words)
{
	STAGE(t);
	struct put p;

	start(&t);
	put_init(&p, 512);
	put_u32(&p, REASON_EXEC_FAILED);
	put_u32(&p, ENOENT);
	put_str(&p, "cannot execute 'true'");
	tell(&t, MESSAGE_BOX_FAILED, &p);
	box_kill(&t.run->boxed->box);
	close_fdp(&t.init_fd);
	struct result r = expect_ended(&t);
	CHECK_EQ(r.reason, REASON_EXEC_FAILED);
	CHECK_EQ(r.error, ENOENT);
	CHECK_EQ(r.exit_code, -1);
	CHECK_STR(r.message, "cannot execute 'true'");
	CHECK_EQ(r.started_ns, 0);
}

TEST(an_init_that_dies_is_our_failure)
{
	STAGE(t);

	start(&t);
	tell_running(&t);
	box_kill(&t.run->boxed->box);
	close_fdp(&t.init_fd);
	CHECK_EQ(expect_ended(&t).reason, REASON_INFRASTRUCTURE_ERROR);
}

/* Messages that init must not send now, or never: the box is killed for them. */
TEST(an_init_that_misbehaves_is_killed)
{
	static const struct {
		uint32_t type;
		size_t size; /* of the payload, zeros */
		enum run_state state;
		size_t n_fds;
	} rows[] = {
		{ MESSAGE_BOX_EXITED, 44, RUN_STARTING },
		{ MESSAGE_BOX_RUNNING, 8, RUN_STARTING },
		{ MESSAGE_BOX_RUNNING, 9, RUN_RUNNING },
		{ MESSAGE_BOX_FAILED, 12, RUN_STARTING }, /* success is no failure */
		{ MESSAGE_BOX_FAILED, 12, RUN_RUNNING },
		{ MESSAGE_BOX_TTY, 0, RUN_STARTING }, /* without a terminal */
		{ MESSAGE_BOX_CAPTURED, 16, RUN_RUNNING },
		{ MESSAGE_BOX_EXITED, 43, RUN_RUNNING },
		{ MESSAGE_BOX_SPEC, 0, RUN_RUNNING },
		{ MESSAGE_BOX_ASKS, 0, RUN_STARTING }, /* for a workspace, without one */
		{ MESSAGE_BOX_ASKS, 0, RUN_RUNNING },
		{ MESSAGE_START, 0, RUN_RUNNING },
		{ 12345, 0, RUN_RUNNING },
		{ MESSAGE_BOX_RUNNING, 9, RUN_STARTING, 1 },
		{ MESSAGE_BOX_TTY, 0, RUN_STARTING, 2 },
	};
	AUTO_FD null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int stray[] = { null_fd, null_fd };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		STAGE(t);
		struct put p;

		start(&t);
		if (rows[i].state == RUN_RUNNING)
			tell_running(&t);
		put_init(&p, 256);
		for (size_t j = 0; j < rows[i].size; j++)
			put_u8(&p, 0);
		CHECK_EQ(frame_send(t.init_fd, rows[i].type, &p, stray, rows[i].n_fds), 0);
		put_fini(&p);
		CHECK_EQ(expect_ended(&t).reason, REASON_INFRASTRUCTURE_ERROR);
	}
}

TEST(times_that_can_not_be_true_are_not_believed)
{
	STAGE(t);
	struct put p;
	struct frame f;
	struct cur c;
	uint64_t before = clock_monotonic_ns();

	start(&t);
	put_init(&p, 64);
	put_u64(&p, UINT64_MAX);
	put_u8(&p, 0);
	tell(&t, MESSAGE_BOX_RUNNING, &p);
	expect(t.s.client_fd, MESSAGE_RUNNING, &c, &f);
	CHECK(t.run->started_mono_ns >= before && t.run->started_mono_ns <= clock_monotonic_ns());
	put_init(&p, 256);
	put_u64(&p, 1); /* long before it started */
	put_u32(&p, 0);
	for (int i = 0; i < 4; i++)
		put_u64(&p, 0);
	tell(&t, MESSAGE_BOX_EXITED, &p);
	CHECK(expect_ended(&t).usage.wall_us < 60000000);
}

TEST(nobody_attaches_to_what_another_hears_of)
{
	STAGE(t);
	struct err err;

	start(&t);
	AUTO_FD other = sample_connect(&t.s, OWNER);
	CHECK(t.s.k.peers != t.run->peer);
	CHECK_EQ(ward_attach(&t.s.k, t.run, t.s.k.peers, &err), -EBUSY);
	CHECK(t.run->peer != t.s.k.peers);
}

TEST(signals_reach_the_guest_while_it_runs)
{
	STAGE(t);

	start(&t);
	tell_running(&t);
	ward_signal(&t.s.k, t.run, SIGUSR1);
	expect_signal(&t, SIGUSR1);
	tell_exited(&t, 0);
	(void)expect_ended(&t);
	ward_signal(&t.s.k, t.run, SIGUSR1);
	ward_cancel(&t.s.k, t.run, CAUSE_CANCEL);
	CHECK_EQ(t.run->cause, CAUSE_NONE);
}

TEST(a_terminal_comes_from_the_box)
{
	STAGE(t);
	struct frame f;
	struct cur c;
	AUTO_FD terminal = open("/dev/null", O_RDWR | O_CLOEXEC);

	t.spec.tty = true;
	start(&t);
	expect_silence(t.s.client_fd);
	CHECK_EQ(frame_send(t.init_fd, MESSAGE_BOX_TTY, NULL, &terminal, 1), 0);
	sample_turn(&t.s, 0);
	expect(t.s.client_fd, MESSAGE_STARTED, &c, &f);
	AUTO_FREE char *id = cur_str(&c, RUN_ID_SIZE);
	CHECK_EQ(cur_u32(&c), 1u << CHANNEL_TTY);
	CHECK_EQ(f.n_fds, 1);
	frame_close_fds(&f);
	tell_running(&t);
	tell_exited(&t, 0);
	CHECK_EQ(expect_ended(&t).reason, REASON_EXIT_CODE_0);
}

TEST(a_client_that_vanishes_at_the_end_is_no_trouble)
{
	STAGE(t);

	start(&t);
	tell_running(&t);
	close_fdp(&t.s.client_fd); /* and the keeper does not know yet */
	struct put p;
	put_init(&p, 256);
	put_u64(&p, clock_monotonic_ns());
	put_u32(&p, 0);
	for (int i = 0; i < 4; i++)
		put_u64(&p, 0);
	CHECK_EQ(frame_send(t.init_fd, MESSAGE_BOX_EXITED, &p, NULL, 0), 0);
	put_fini(&p);
	sample_turn(&t.s, 0);
	CHECK_EQ(t.s.k.n_runs, 0);
	CHECK_EQ(t.s.k.n_peers, 0);
}

TEST(an_id_serves_once)
{
	STAGE(t);
	struct err err = { 0 };
	enum reason reason;

	start(&t);
	CHECK_EQ(ward_start(&t.s.k, t.s.peer, &t.spec, &reason, &err), -EEXIST);
	CHECK_EQ(reason, REASON_POLICY_DENIED);
	CHECK(strstr(err.text, t.spec.id) != NULL);
	CHECK_EQ(t.s.k.n_runs, 1);
}

TESTS(UNIT(a_run_goes_from_start_to_acknowledged),
	UNIT(a_run_that_does_not_linger_leaves_no_duplicates),
	UNIT(a_lingering_run_keeps_duplicates_and_survives_its_client),
	UNIT(other_runs_are_killed_with_their_client), UNIT(captured_files_come_before_the_end),
	UNIT(names_of_files_come_before_the_end_too), UNIT(a_failed_capture_is_told),
	UNIT(a_start_that_failed_is_told_in_inits_words), UNIT(an_init_that_dies_is_our_failure),
	UNIT(an_init_that_misbehaves_is_killed), UNIT(times_that_can_not_be_true_are_not_believed),
	UNIT(nobody_attaches_to_what_another_hears_of), UNIT(signals_reach_the_guest_while_it_runs),
	UNIT(a_terminal_comes_from_the_box), UNIT(a_client_that_vanishes_at_the_end_is_no_trouble),
	UNIT(an_id_serves_once))
