#include <errno.h>

#include "base/clock.h"
#include "base/err.h"
#include "keeper/sample.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define OWNER 1000u

static uint8_t buffer[FRAME_SIZE_MAX];

/* A keeper with one box on the shelf, and a run started in it by the client. The
 * test is both the client and the init of the box. */
struct stage {
	struct scratch dir;
	struct sample s;
	struct spec spec;
	struct ward *run;
	int init_fd;
	int fds[CHANNEL_COUNT]; /* the client's ends */
};

static void stage_fini(struct stage *t)
{
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&t->fds[i]);
	close_fdp(&t->init_fd);
	spec_fini(&t->spec);
	sample_close(&t->s);
	scratch_remove(&t->dir);
}

static void stage_init(struct stage *t)
{
	scratch_make(&t->dir);
	sample_open(&t->s, OWNER);
	CHECK_EQ(state_open(&t->s.k, t->dir.path, NULL), 0);
	t->init_fd = sample_box(&t->s);
	t->run = NULL;
	for (int i = 0; i < CHANNEL_COUNT; i++)
		t->fds[i] = -1;
	spec_init(&t->spec);
	spec_make_id(t->spec.id);
	t->spec.argv = xcalloc(2, sizeof(*t->spec.argv));
	t->spec.argv[0] = xstrdup("true");
}

#define STAGE(name)                                                                                \
	CLEANUP(stage_fini) struct stage name;                                                     \
	stage_init(&name)

/* The next message on `fd`, which must be of this type; `c` is at its payload. */
static void expect(int fd, uint32_t type, struct cur *c, struct frame *f)
{
	CHECK_EQ(frame_recv(fd, buffer, f), 1);
	CHECK_EQ(f->type, type);
	cur_init(c, f->data, f->size);
}

/* Init is asked to send the guest this signal. */
static void expect_signal(struct stage *t, int sig)
{
	struct frame f;
	struct cur c;

	expect(t->init_fd, MESSAGE_BOX_SIGNAL, &c, &f);
	CHECK_EQ(cur_u32(&c), sig);
	CHECK_EQ(cur_end(&c), 0);
}

static void expect_silence(int fd)
{
	struct frame f;

	CHECK_EQ(frame_recv(fd, buffer, &f), -EAGAIN);
}

/* Start it; the client gets its channels, init gets the specification. */
static void start(struct stage *t)
{
	struct err err = { 0 };
	enum reason reason;
	struct frame f;
	struct cur c;
	CLEANUP(spec_fini) struct spec got = { 0 };

	if (ward_start(&t->s.k, t->s.peer, &t->spec, &reason, &err) < 0)
		fail_msg("%s", err.text);
	t->run = t->s.k.runs;
	expect(t->init_fd, MESSAGE_BOX_SPEC, &c, &f);
	spec_get(&got, &c);
	uint32_t mask = cur_u32(&c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(got.id, t->spec.id);
	CHECK_EQ(f.n_fds, (size_t)__builtin_popcount(mask));
	frame_close_fds(&f);
	if (t->spec.tty)
		return;
	expect(t->s.client_fd, MESSAGE_STARTED, &c, &f);
	AUTO_FREE char *id = cur_str(&c, RUN_ID_SIZE);
	CHECK_STR(id, t->spec.id);
	CHECK_EQ(cur_u32(&c), mask);
	CHECK_EQ(cur_end(&c), 0);
	size_t n = 0;
	for (int i = 0; i < CHANNEL_COUNT; i++) {
		if (mask & (1u << i))
			t->fds[i] = take_fd(&f.fds[n++]);
	}
	CHECK_EQ(n, f.n_fds);
}

static void tell(struct stage *t, uint32_t type, struct put *p)
{
	CHECK_EQ(frame_send(t->init_fd, type, p, NULL, 0), 0);
	put_fini(p);
	sample_turn(&t->s, 0);
}

static void tell_running(struct stage *t)
{
	struct put p;
	struct frame f;
	struct cur c;

	put_init(&p, 64);
	put_u64(&p, clock_monotonic_ns());
	put_u8(&p, 0);
	tell(t, MESSAGE_BOX_RUNNING, &p);
	expect(t->s.client_fd, MESSAGE_RUNNING, &c, &f);
}

static void tell_exited(struct stage *t, int status)
{
	struct put p;

	put_init(&p, 256);
	put_u64(&p, clock_monotonic_ns());
	put_u32(&p, (uint32_t)status);
	put_u64(&p, 1234);
	put_u64(&p, 5 << 20);
	put_u64(&p, 7);
	put_u64(&p, 2);
	tell(t, MESSAGE_BOX_EXITED, &p);
}

static void tell_captured(struct stage *t, const char *text)
{
	struct put p;

	put_init(&p, 512);
	put_u64(&p, 99);
	put_str(&p, text);
	tell(t, MESSAGE_BOX_CAPTURED, &p);
}

static struct result expect_ended(struct stage *t)
{
	struct result result;
	struct frame f;
	struct cur c;

	/* The end of a process that was killed takes a moment, and several events. */
	for (int i = 0; i < 20 && t->run->state != RUN_ENDED; i++)
		sample_turn(&t->s, 100);
	expect(t->s.client_fd, MESSAGE_ENDED, &c, &f);
	result_get(&result, &c);
	CHECK_EQ(cur_end(&c), 0);
	CHECK_STR(result.id, t->spec.id);
	return result;
}

static void capture(struct stage *t)
{
	t->spec.globs = xcalloc(2, sizeof(*t->spec.globs));
	t->spec.globs[0] = xstrdup("*");
}

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
	CHECK_STR(expect_ended(&t).message, "capture: read 'x'");
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
		{ MESSAGE_BOX_CAPTURED, 12, RUN_RUNNING },
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
	UNIT(cancel_asks_first_and_kills_after_the_grace),
	UNIT(a_client_that_goes_takes_the_grace_along),
	UNIT(cancel_does_not_change_how_a_run_has_ended),
	UNIT(nobody_attaches_to_what_another_hears_of), UNIT(cancel_without_grace_kills_at_once),
	UNIT(cancel_before_the_start_does_not_wait_for_the_grace),
	UNIT(a_cancel_never_makes_a_run_longer), UNIT(deadlines_have_causes),
	UNIT(a_capture_that_hangs_is_ended_and_blames_nobody_else),
	UNIT(signals_reach_the_guest_while_it_runs), UNIT(a_terminal_comes_from_the_box),
	UNIT(a_client_that_vanishes_at_the_end_is_no_trouble), UNIT(an_id_serves_once))
