#include "core/run.h"
#include "core/service_sample.h"

#define INTERACTIVE                                                                                \
	"{\"spec_version\":\"1.1\",\"base_image\":\"host\",\"command\":[\"cat\"],\"interactive\":true%s}"

/* A run that waits for its box. */
static struct run *waiting(struct sample *m, const char *more)
{
	char body[256];

	(void)snprintf(body, sizeof(body), INTERACTIVE, more);
	return sample_run(m, body);
}

/* A run that somebody types into. */
static struct run *typed_into(struct sample *m, const char *more)
{
	struct run *run = waiting(m, more);

	job_started(sample_job(0));
	job_running(sample_job(0));
	CHECK(!sample_job(0)->stdin_is_closed);
	return run;
}

/* What the guest can read now. */
static size_t heard(char *buf, size_t size)
{
	int fd = sample_job(0)->ends[CHANNEL_STDIN];

	CHECK_EQ(fd_set_nonblock(fd, true), 0);
	ssize_t n = read(fd, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* End it, and return its frames; the caller frees them. */
static char *end_and_read(struct sample *m, struct run *run)
{
	char id[UUID_SIZE + 1];
	struct run_row row = { 0 };

	memcpy(id, run->row.id, sizeof(id));
	job_ends(sample_job(0), REASON_EXIT_CODE_0, 0);
	sample_await_end(m, id, &row);
	row_fini(&run_table, &row);
	return sample_frames(m, "alice", id);
}

static struct run *given(struct sample *m, const char *text)
{
	AUTO_JSON *body =
		json_pack("{s:s,s:[s],s:s}", "base_image", "host", "command", "cat", "stdin", text);
	AUTO_FREE char *dump = json_dumps(body, 0);
	struct run *run = sample_run(m, dump);

	job_started(sample_job(0));
	job_running(sample_job(0));
	return run;
}

TEST(what_the_request_has_is_given_and_then_it_ends)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = given(&m, "two\nlines\n");
	char buf[64];

	CHECK_EQ(heard(buf, sizeof(buf)), 10);
	CHECK_STR(buf, "two\nlines\n");
	CHECK(sample_job(0)->stdin_is_closed);
	CHECK_EQ(run->input.fd, -1);
	run_input_write(run, "more", 4);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

TEST(none_at_all_is_given_as_well)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = given(&m, "");

	CHECK(sample_job(0)->stdin_is_closed);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

TEST(more_than_a_pipe_holds_is_given_as_it_is_taken)
{
	enum { SIZE = 300000 };
	SAMPLE(m);
	sample_open(&m);
	AUTO_FREE char *text = xcalloc(1, SIZE + 1);
	AUTO_FREE char *buf = xcalloc(1, SIZE + 1);
	size_t n = 0;

	memset(text, 'x', SIZE);
	struct run *run = given(&m, text);
	CHECK(!sample_job(0)->stdin_is_closed);
	SAMPLE_UNTIL(&m, (n += heard(buf, SIZE)) == SIZE);
	SAMPLE_UNTIL(&m, sample_job(0)->stdin_is_closed);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

TEST(what_is_typed_arrives_and_the_end_as_well)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, "");
	char buf[64];

	run_input_write(run, "hello", 5);
	run_input_write(run, "", 0);
	CHECK_EQ(heard(buf, sizeof(buf)), 5);
	CHECK_STR(buf, "hello");
	run_input_close(run);
	CHECK(sample_job(0)->stdin_is_closed); /* the keeper's duplicate, too */
	CHECK_EQ(read(sample_job(0)->ends[CHANNEL_STDIN], buf, 1), 0);
	run_input_write(run, "late", 4);
	run_input_close(run);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "truncated") == NULL);
	sample_remove(&m);
}

/* Nobody has to know when a run begins: before its box is there, and before it runs. */
TEST(what_is_typed_too_early_waits_and_so_does_the_end)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = waiting(&m, "");
	char buf[64];

	run_input_write(run, "one,", 4);
	job_started(sample_job(0));
	run_input_write(run, "two", 3);
	run_input_close(run);
	run_input_write(run, "late", 4);
	CHECK_EQ(heard(buf, sizeof(buf)), 0);
	CHECK(!sample_job(0)->stdin_is_closed);
	job_running(sample_job(0));
	CHECK_EQ(heard(buf, sizeof(buf)), 7);
	CHECK_STR(buf, "one,two");
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "truncated") == NULL);
	sample_remove(&m);
}

TEST(an_end_alone_waits_as_well)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = waiting(&m, "");
	char byte;

	run_input_close(run);
	job_started(sample_job(0));
	job_running(sample_job(0));
	CHECK(sample_job(0)->stdin_is_closed);
	CHECK_EQ(read(sample_job(0)->ends[CHANNEL_STDIN], &byte, 1), 0);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

/* The first frame is the start, whatever was dropped before it. */
TEST(limits_that_were_passed_too_early_are_told_after_the_start)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run =
		waiting(&m, ",\"stdin_max_frame_bytes\":3,\"stdin_max_bytes\":5,\"stdin_bps\":6");
	char buf[64];
	uint64_t seq = stream_last_seq(run->stream);

	run_input_write(run, "abcdef", 6);
	run_input_write(run, "ghijkl", 6);
	run_input_write(run, "never", 5);
	CHECK_EQ(stream_last_seq(run->stream), seq);
	job_started(sample_job(0));
	job_running(sample_job(0));
	CHECK_EQ(heard(buf, sizeof(buf)), 5);
	CHECK_STR(buf, "abcgh");
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(sample_in_order(frames, "\"event\":\"start\"", "stdin_frame_cap", "stdin_frame_cap",
		"\"truncated\",\"reason\":\"stdin_cap\"", "\"event\":\"stdin_closed\"", NULL));
	sample_remove(&m);
}

/* Whoever typed before the start is not idle since then. */
TEST(to_wait_for_the_start_is_not_to_be_idle)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = waiting(&m, ",\"stdin_idle_timeout_sec\":1");

	run_input_write(run, "x", 1);
	run->input.last_ns -= UINT64_C(5000000000);
	run_input_tick(run, clock_monotonic_ns());
	job_started(sample_job(0));
	job_running(sample_job(0));
	run_input_tick(run, clock_monotonic_ns());
	CHECK(run->input.fd >= 0);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

TEST(a_run_that_never_begins_forgets_what_was_typed)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = waiting(&m, "");

	run_input_write(run, "x", 1);
	job_started(sample_job(0));
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "truncated") == NULL);
	sample_remove(&m);
}

/* Frame, then rate, then total: each takes from what the one before left. */
TEST(limits_are_applied_in_order_and_told)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, ",\"stdin_max_frame_bytes\":8,\"stdin_bps\":6,"
					 "\"stdin_max_bytes\":4");
	char buf[64];

	CHECK_EQ(run->input.max_frame_bytes, 8);
	run_input_write(run, "0123456789", 10);
	CHECK_EQ(heard(buf, sizeof(buf)), 4);
	CHECK_STR(buf, "0123");
	CHECK(run->input.fd < 0); /* the total is used up */
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(sample_in_order(frames, "stdin_frame_cap", "stdin_rate",
		"\"truncated\",\"reason\":\"stdin_cap\"", "\"event\":\"stdin_closed\"", NULL));
	sample_remove(&m);
}

TEST(what_comes_too_fast_is_dropped_whole)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, ",\"stdin_bps\":5");
	char buf[64];

	run_input_write(run, "12345", 5);
	run_input_write(run, "67890", 5); /* nothing of it is within the rate */
	run_input_write(run, "abcde", 5);
	CHECK_EQ(heard(buf, sizeof(buf)), 5);
	CHECK_STR(buf, "12345");
	CHECK(run->input.fd >= 0);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "stdin_rate") != NULL);
	CHECK(strstr(frames, "stdin_closed") == NULL);
	sample_remove(&m);
}

TEST(the_frames_about_it_are_limited)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, ",\"stdin_max_frame_bytes\":1");
	uint64_t seq = stream_last_seq(run->stream);

	for (int i = 0; i < 1500; i++)
		run_input_write(run, "ab", 2);
	CHECK_EQ(stream_last_seq(run->stream), seq + 1000);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "stdin_frame_cap") != NULL);
	sample_remove(&m);
}

/* A guest that does not read gets it all when it does, in order, and then the end. */
TEST(what_the_guest_does_not_read_waits)
{
	SAMPLE(m);
	m.settings.stdin_bps = m.settings.stdin_max_bytes = 1 << 20;
	m.settings.stdin_max_frame_bytes = 1 << 20;
	sample_open(&m);
	struct run *run = typed_into(&m, "");
	AUTO_FREE char *all = xcalloc(1, 300000);
	AUTO_FREE char *back = xcalloc(1, 300000);
	size_t n = 0;

	for (size_t i = 0; i < 300000; i++)
		all[i] = (char)('a' + i % 23);
	run_input_write(run, all, 200000);
	run_input_write(run, all + 200000, 100000);
	run_input_close(run);
	CHECK(!sample_job(0)->stdin_is_closed); /* not before it is there */
	int fd = sample_job(0)->ends[CHANNEL_STDIN];
	CHECK_EQ(fd_set_nonblock(fd, true), 0);
	for (ssize_t got = -1; got != 0;) {
		got = read(fd, back + n, 300000 - n + (n == 300000));
		n += got > 0 ? (size_t)got : 0;
		sample_turn(&m);
	}
	CHECK_EQ(n, 300000);
	CHECK_MEM(all, back, n);
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "truncated") == NULL);
	sample_remove(&m);
}

TEST(a_guest_that_hangs_up_is_not_written_to)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, "");

	close_fdp(&sample_job(0)->ends[CHANNEL_STDIN]);
	run_input_write(run, "x", 1);
	CHECK(run->input.fd < 0);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "exit_code_0") != NULL);
	sample_remove(&m);
}

TEST(it_is_closed_when_nobody_types)
{
	SAMPLE(m);
	sample_open(&m);
	struct run *run = typed_into(&m, ",\"stdin_idle_timeout_sec\":3");
	uint64_t now = run->input.last_ns;

	run_input_tick(run, now + UINT64_C(2900000000));
	CHECK(run->input.fd >= 0);
	run_input_tick(run, now + UINT64_C(3000000000));
	CHECK(run->input.fd < 0);
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(sample_in_order(frames, "\"truncated\",\"reason\":\"stdin_idle\"",
		"\"event\":\"stdin_closed\",\"data\":{\"reason\":\"stdin_idle\"}", NULL));
	sample_remove(&m);
}

TEST(a_run_may_end_with_input_pending)
{
	SAMPLE(m);
	m.settings.stdin_bps = m.settings.stdin_max_frame_bytes = 1 << 20;
	sample_open(&m);
	struct run *run = typed_into(&m, "");
	AUTO_FREE char *all = xcalloc(1, 200000);

	run_input_write(run, all, 200000);
	CHECK(run->input.n_pending > 0);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(strstr(frames, "exit_code_0") != NULL);
	sample_remove(&m);
}

/* One that is typed into goes on while the server ends and another begins; its id for the keeper.
 * What it is, is only in the store until the keeper tells of it. */
static struct run *left_over(struct sample *m, const char *more, char hex[1][RUN_ID_SIZE + 1])
{
	char id[UUID_SIZE + 1];

	sample_use_sqlite(m);
	sample_open(m);
	memcpy(id, typed_into(m, more)->row.id, sizeof(id));
	uuid_to_hex(id, hex[0]);
	sample_settle(m);
	sample_restart(m);
	return run_find(m->service, id, NULL);
}

/* The keeper has it, and says how far it is. */
static void go_on(const char hex[1][RUN_ID_SIZE + 1])
{
	sample_up(hex, 1, NULL, 0);
	job_started(sample_job(0));
	job_running(sample_job(0));
}

TEST(what_is_typed_before_the_keeper_tells_of_a_run_is_kept)
{
	SAMPLE(m);
	char hex[1][RUN_ID_SIZE + 1];
	struct run *run = left_over(&m, ",\"stdin_max_frame_bytes\":5", hex);
	char buf[64];

	CHECK(run_input_is_typed(run));
	run_input_write(run, "hello!", 6);
	run_input_close(run);
	go_on((const char(*)[RUN_ID_SIZE + 1]) hex);
	CHECK_EQ(heard(buf, sizeof(buf)), 5);
	CHECK_STR(buf, "hello");
	CHECK(sample_job(0)->stdin_is_closed);
	AUTO_FREE char *frames = end_and_read(&m, run);
	CHECK(sample_in_order(frames, "\"start\"", "stdin_frame_cap", NULL));
	sample_remove(&m);
}

/* The limit of all that is typed holds there as well. */
TEST(what_is_kept_for_a_run_of_before_is_limited)
{
	SAMPLE(m);
	char hex[1][RUN_ID_SIZE + 1];
	struct run *run = left_over(&m, ",\"stdin_max_bytes\":4", hex);
	char buf[64];

	for (int i = 0; i < 10; i++)
		run_input_write(run, "abc", 3);
	CHECK_EQ(run->input.n_pending, 4);
	go_on((const char(*)[RUN_ID_SIZE + 1]) hex);
	CHECK_EQ(heard(buf, sizeof(buf)), 4);
	CHECK(sample_job(0)->stdin_is_closed);
	free(end_and_read(&m, run));
	sample_remove(&m);
}

TEST(one_of_before_that_nobody_types_into_takes_nothing)
{
	SAMPLE(m);
	char id[UUID_SIZE + 1];

	sample_use_sqlite(&m);
	sample_open(&m);
	memcpy(id, sample_run(&m, SAMPLE_BODY)->row.id, sizeof(id));
	job_started(sample_job(0));
	job_running(sample_job(0));
	sample_settle(&m);
	sample_restart(&m);
	CHECK(!run_input_is_typed(run_find(m.service, id, NULL)));
	sample_remove(&m);
}

TESTS(UNIT(what_is_typed_before_the_keeper_tells_of_a_run_is_kept),
	UNIT(what_is_kept_for_a_run_of_before_is_limited),
	UNIT(one_of_before_that_nobody_types_into_takes_nothing),
	UNIT(what_the_request_has_is_given_and_then_it_ends), UNIT(none_at_all_is_given_as_well),
	UNIT(more_than_a_pipe_holds_is_given_as_it_is_taken),
	UNIT(what_is_typed_arrives_and_the_end_as_well),
	UNIT(what_is_typed_too_early_waits_and_so_does_the_end), UNIT(an_end_alone_waits_as_well),
	UNIT(limits_that_were_passed_too_early_are_told_after_the_start),
	UNIT(to_wait_for_the_start_is_not_to_be_idle),
	UNIT(a_run_that_never_begins_forgets_what_was_typed),
	UNIT(limits_are_applied_in_order_and_told), UNIT(what_comes_too_fast_is_dropped_whole),
	UNIT(the_frames_about_it_are_limited), UNIT(what_the_guest_does_not_read_waits),
	UNIT(a_guest_that_hangs_up_is_not_written_to), UNIT(it_is_closed_when_nobody_types),
	UNIT(a_run_may_end_with_input_pending))
