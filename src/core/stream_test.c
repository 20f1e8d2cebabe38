#include "core/stream.h"

#include "lib/stream_sample.h"

TEST(a_run_from_start_to_end)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	CHECK_EQ(stream_last_seq(m.stream), 0);
	CHECK_EQ(stream_event(m.stream, "start", "{\"ts\":\"now\"}"), 1);
	sample_write(&m, 0, "out\n", 4);
	sample_write(&m, 1, "err\n", 4);
	CHECK(!stream_is_drained(m.stream));
	sample_drain(&m);
	CHECK(stream_is_drained(m.stream));
	CHECK_EQ(stream_event(m.stream, "end", "{\"exit_code\":0}"), 4);
	CHECK(!stream_has_ended(m.stream));
	stream_end(m.stream);
	stream_end(m.stream);
	CHECK(stream_has_ended(m.stream));
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "out\n");
	CHECK_STR(view.output[1].data, "err\n");
	CHECK_EQ(view.n_frames, 4);
	CHECK_EQ(stream_log_bytes(m.stream), 8);
	CHECK_EQ(m.n_drained, 1);
	CHECK_EQ(m.n_failed, 0);
}

TEST(what_has_ended_takes_no_more)
{
	SAMPLE(m);
	struct err err = { 0 };

	sample_open(&m);
	stream_end(m.stream);
	CHECK_EQ(stream_event(m.stream, "start", "{}"), -ESHUTDOWN);
	CHECK_EQ(stream_truncated(m.stream, "stdin_cap"), -ESHUTDOWN);
	CHECK_EQ(stream_attach(m.stream, -1, -1, &err), -ESHUTDOWN);
	CHECK_EQ(stream_last_seq(m.stream), 0);
}

TEST(bad_events_are_refused_and_leave_nothing)
{
	SAMPLE(m);

	sample_open(&m);
	CHECK_EQ(stream_event(m.stream, "start", "{"), -EINVAL);
	CHECK_EQ(stream_event(m.stream, "two words", "{}"), -EINVAL);
	CHECK_EQ(stream_truncated(m.stream, "a\"b"), -EINVAL);
	CHECK_EQ(stream_last_seq(m.stream), 0);
	CHECK_EQ(stream_truncated(m.stream, "stdin_cap"), 1);
	CHECK(!stream_was_truncated(m.stream));
}

TEST(without_pipes_it_is_drained_but_not_at_once)
{
	SAMPLE(m);
	struct err err = { 0 };

	sample_open(&m);
	CHECK_EQ(stream_attach(m.stream, -1, -1, &err), 0);
	CHECK_EQ(m.n_drained, 0);
	sample_drain(&m);
	CHECK_EQ(stream_attach(m.stream, -1, -1, &err), -EALREADY);
}

TEST(nobody_is_called_after_the_end)
{
	SAMPLE(m);
	struct err err = { 0 };

	sample_open(&m);
	CHECK_EQ(stream_attach(m.stream, -1, -1, &err), 0);
	stream_end(m.stream);
	sample_idle(&m, 5);
	CHECK_EQ(m.n_drained, 0);
}

TEST(the_output_can_be_had_as_a_whole)
{
	SAMPLE(m);
	AUTO_FREE char *first = NULL;
	AUTO_FREE char *all = NULL;
	AUTO_FREE char *none = NULL;
	size_t size;
	uint64_t total;

	sample_start(&m);
	sample_write(&m, 0, "hello world", 11);
	sample_drain(&m);
	CHECK_EQ(stream_read_output(m.stream, FRAME_STDOUT, 5, &first, &size, &total), 0);
	CHECK_STR(first, "hello");
	CHECK_EQ(size, 5);
	CHECK_EQ(total, 11);
	CHECK_EQ(stream_read_output(m.stream, FRAME_STDOUT, 100, &all, &size, &total), 0);
	CHECK_STR(all, "hello world");
	CHECK_EQ(stream_read_output(m.stream, FRAME_STDERR, 100, &none, &size, &total), 0);
	CHECK_STR(none, "");
	CHECK_EQ(total, 0);
	CHECK_EQ(stream_read_output(m.stream, FRAME_EVENT, 100, &none, &size, &total), -EINVAL);
}

TEST(one_that_is_over_is_read_and_not_written)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);
	struct err err = { 0 };

	CHECK_EQ(stream_open_ended(&m.loop, m.dir.fd, "sample", &m.stream, &err), -ENOENT);
	CHECK(m.stream == NULL && !scratch_has(m.dir.fd, "index"));
	sample_start(&m);
	sample_write(&m, 0, "out\n", 4);
	sample_drain(&m);
	sample_close(&m);
	sample_open_ended(&m);
	CHECK(stream_has_ended(m.stream) && stream_is_drained(m.stream));
	CHECK_EQ(stream_event(m.stream, "start", "{}"), -ESHUTDOWN);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "out\n");
	CHECK_EQ(stream_log_bytes(m.stream), 4);
	CHECK(!scratch_has(m.dir.fd, "events") && !scratch_has(m.dir.fd, "stderr"));
}

TEST(descriptors_are_opened_when_they_are_needed)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	sample_write(&m, 0, "out\n", 4);
	sample_drain(&m);
	sample_close(&m);
	size_t before = scratch_count_fds();
	sample_open_ended(&m);
	CHECK_EQ(scratch_count_fds(), before + 2); /* the directory and the index */
	sample_replay(&m, &view);
	CHECK_EQ(scratch_count_fds(), before + 3); /* and stdout */
	sample_close(&m);
	CHECK_EQ(scratch_count_fds(), before);
}

TEST(a_strange_file_is_refused)
{
	SAMPLE(m);
	struct err err = { 0 };
	size_t before = scratch_count_fds();

	CHECK_EQ(symlinkat("/etc/passwd", m.dir.fd, "stdout"), 0);
	CHECK_EQ(stream_open(&m.loop, m.dir.fd, &m.options, &m.stream, &err), -EBADMSG);
	CHECK(strstr(err.text, "stdout"));
	CHECK(m.stream == NULL);
	CHECK_EQ(scratch_count_fds(), before);
}

TESTS(UNIT(a_run_from_start_to_end), UNIT(what_has_ended_takes_no_more),
	UNIT(bad_events_are_refused_and_leave_nothing),
	UNIT(without_pipes_it_is_drained_but_not_at_once), UNIT(nobody_is_called_after_the_end),
	UNIT(the_output_can_be_had_as_a_whole), UNIT(one_that_is_over_is_read_and_not_written),
	UNIT(descriptors_are_opened_when_they_are_needed), UNIT(a_strange_file_is_refused))
