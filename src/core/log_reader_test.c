#include "core/log_reader.h"

#include "lib/stream_sample.h"

/* A piece per call, behind one another; `*ret_state` is why there is no more. */
static char *read_all(struct log_reader *r, enum log_state *ret_state)
{
	struct sample_bytes b = { 0 };

	sample_add(&b, "", 0);
	do {
		CLEANUP(shared_unrefp) struct shared *m = log_reader_next(r, ret_state);

		if (m)
			sample_add(&b, shared_data(m), m->size);
	} while (*ret_state == LOG_READY);
	return b.data;
}

static void check_log(struct sample *m, const struct log_options *options, const char *expected)
{
	enum log_state why = LOG_READY;
	CLEANUP(log_reader_freep)
	struct log_reader *r = log_reader_new(m->stream, options, NULL, NULL);
	AUTO_FREE char *text = read_all(r, &why);

	CHECK_STR(text, expected);
	CHECK_EQ(why, LOG_OVER);
}

/* Frames: 1 start, 2 "one\n", 3 "bad\n" of stderr, 4 "two\n", 5 end. */
static void write_sample(struct sample *m)
{
	sample_start(m);
	CHECK_EQ(stream_event(m->stream, "start", "{}"), 1);
	sample_write(m, 0, "one\n", 4);
	sample_idle(m, 40);
	sample_write(m, 1, "bad\n", 4);
	sample_idle(m, 40);
	sample_write(m, 0, "two\n", 4);
	sample_drain(m);
	CHECK_EQ(stream_event(m->stream, "end", "{}"), 5);
	stream_end(m->stream);
}

TEST(text_is_what_the_guest_wrote)
{
	SAMPLE(m);

	write_sample(&m);
	check_log(&m, &(struct log_options){ .size = UINT64_MAX }, "one\nbad\ntwo\n");
	check_log(
		&m, &(struct log_options){ .which = LOG_STDOUT, .size = UINT64_MAX }, "one\ntwo\n");
	check_log(&m, &(struct log_options){ .which = LOG_STDERR, .size = UINT64_MAX }, "bad\n");
	check_log(&m, &(struct log_options){ .from_seq = 3, .size = UINT64_MAX }, "bad\ntwo\n");
	check_log(&m, &(struct log_options){ .from_seq = 6, .size = UINT64_MAX }, "");
	CHECK_EQ(log_reader_total(m.stream, LOG_BOTH), 12);
	CHECK_EQ(log_reader_total(m.stream, LOG_STDOUT), 8);
	CHECK_EQ(log_reader_total(m.stream, LOG_STDERR), 4);
}

TEST(a_part_begins_and_ends_within_frames)
{
	static const char whole[] = "one\nbad\ntwo\n";
	SAMPLE(m);

	write_sample(&m);
	for (uint64_t offset = 0; offset <= 12; offset++) {
		for (uint64_t size = 0; offset + size <= 12; size++) {
			char expected[16];

			(void)snprintf(
				expected, sizeof(expected), "%.*s", (int)size, whole + offset);
			check_log(&m, &(struct log_options){ .offset = offset, .size = size },
				expected);
		}
	}
}

#define LINE(kind, data, seq)                                                                      \
	"{\"type\":\"" kind "\",\"encoding\":\"utf8\",\"data\":\"" data "\\n\",\"seq\":" seq "}\n"
#define EVENT(name, seq) "{\"type\":\"event\",\"event\":\"" name "\",\"data\":{},\"seq\":" seq "}\n"

TEST(lines_are_the_messages_of_the_stream)
{
	const struct log_options all = { .is_json = true, .size = UINT64_MAX };
	const struct log_options out = { .is_json = true, .which = LOG_STDOUT, .size = UINT64_MAX };
	const struct log_options err = { .is_json = true, .which = LOG_STDERR, .size = UINT64_MAX };
	SAMPLE(m);

	write_sample(&m);
	check_log(&m, &all,
		EVENT("start", "1") LINE("stdout", "one", "2") LINE("stderr", "bad", "3")
			LINE("stdout", "two", "4") EVENT("end", "5"));
	check_log(&m, &out,
		EVENT("start", "1") LINE("stdout", "one", "2") LINE("stdout", "two", "4")
			EVENT("end", "5"));
	check_log(&m, &err, EVENT("start", "1") LINE("stderr", "bad", "3") EVENT("end", "5"));
}

static void note_wake(void *ctx)
{
	++*(unsigned *)ctx;
}

TEST(a_follower_waits_for_the_end)
{
	SAMPLE(m);
	enum log_state why = LOG_READY;
	unsigned n_wakes = 0;

	sample_start(&m);
	CLEANUP(log_reader_freep)
	struct log_reader *r = log_reader_new(m.stream,
		&(struct log_options){ .follows = true, .size = UINT64_MAX }, note_wake, &n_wakes);
	CHECK(log_reader_next(r, &why) == NULL && why == LOG_WAITS);
	sample_write(&m, 0, "late\n", 5);
	sample_drain(&m);
	CHECK(n_wakes > 0);
	AUTO_FREE char *text = read_all(r, &why);
	CHECK_STR(text, "late\n");
	CHECK_EQ(why, LOG_WAITS);
	stream_end(m.stream);
	CHECK(log_reader_next(r, &why) == NULL && why == LOG_OVER);
}

TEST(a_damaged_file_is_no_end)
{
	SAMPLE(m);
	enum log_state why = LOG_READY;

	write_sample(&m);
	sample_close(&m);
	scratch_write(m.dir.fd, "stdout", "one\nXXX\n");
	sample_open_ended(&m);
	CLEANUP(log_reader_freep)
	struct log_reader *r =
		log_reader_new(m.stream, &(struct log_options){ .size = UINT64_MAX }, NULL, NULL);
	AUTO_FREE char *text = read_all(r, &why);
	CHECK_STR(text, "one\nbad\n");
	CHECK_EQ(why, LOG_BROKEN);
}

TESTS(UNIT(text_is_what_the_guest_wrote), UNIT(a_part_begins_and_ends_within_frames),
	UNIT(lines_are_the_messages_of_the_stream), UNIT(a_follower_waits_for_the_end),
	UNIT(a_damaged_file_is_no_end))
