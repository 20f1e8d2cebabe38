/* What a loss of power may leave in the files of a stream. */
#include "core/index.h"
#include "lib/stream_sample.h"

static uint32_t boot = 1;

uint32_t __wrap_boot_tag(void);
uint32_t __wrap_boot_tag(void)
{
	return boot;
}

/* Another run had these files: it printed `output` and ended well. */
static void write_others(struct sample *m, const char *output)
{
	m->options.id = "another";
	sample_start(m);
	CHECK_EQ(stream_event(m->stream, "start", "{\"of\":\"another\"}"), 1);
	sample_write(m, 0, output, strlen(output));
	sample_drain(m);
	CHECK(stream_event(m->stream, "end", "{\"exit_code\":0,\"reason\":\"exit_code_0\"}") > 0);
	sample_close(m);
	m->options.id = "sample";
	m->n_drained = 0;
}

/* Ours, which goes on. */
static void write_ours(struct sample *m, const char *output)
{
	sample_start(m);
	CHECK_EQ(stream_event(m->stream, "start", "{\"of\":\"ours\"}"), 1);
	sample_write(m, 0, output, strlen(output));
	sample_drain(m);
	sample_close(m);
	m->n_drained = 0;
}

/* All frames as text, one per line; the caller frees it. */
static char *frames_of(struct stream *s)
{
	struct sample_bytes text = { 0 };
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(s, 0, NULL, NULL);

	sample_add(&text, "", 0);
	for (struct shared *f; (f = cursor_next(c)); shared_unref(f)) {
		sample_add(&text, shared_data(f), f->size);
		sample_add(&text, "\n", 1);
	}
	return text.data;
}

static void check_frames(struct sample *m, const char *text)
{
	AUTO_FREE char *frames = frames_of(m->stream);

	CHECK_STR(frames, text);
}

static int read_stdout(struct sample *m, char **ret)
{
	uint64_t total = 0;
	size_t size = 0;

	return stream_read_output(m->stream, FRAME_STDOUT, 100, ret, &size, &total);
}

static void check_stdout(struct sample *m, const char *text)
{
	AUTO_FREE char *data = NULL;

	CHECK_EQ(read_stdout(m, &data), 0);
	CHECK_STR(data, text);
}

static void overwrite(struct sample *m, const char *name, const char *text)
{
	AUTO_FD fd = openat(m->dir.fd, name, O_WRONLY | O_CLOEXEC);

	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void append(struct sample *m, const char *name, const char *text)
{
	AUTO_FD fd = openat(m->dir.fd, name, O_WRONLY | O_APPEND | O_CLOEXEC);

	CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

#define START "{\"type\":\"event\",\"event\":\"start\",\"data\":{\"of\":\"ours\"},\"seq\":1}\n"
#define SEVEN "{\"type\":\"stdout\",\"encoding\":\"utf8\",\"data\":\"7 bytes\",\"seq\":2}\n"
#define LOST_1                                                                                     \
	"{\"type\":\"event\",\"event\":\"output_lost\",\"data\":{\"reason\":\"damaged\"},\"seq\":1}\n"
#define LOST_2                                                                                     \
	"{\"type\":\"event\",\"event\":\"output_lost\",\"data\":{\"reason\":\"damaged\"},\"seq\":2}\n"
#define LOST_3                                                                                     \
	"{\"type\":\"event\",\"event\":\"output_lost\",\"data\":{\"reason\":\"damaged\"},\"seq\":3}\n"

TEST(files_of_another_run_are_as_if_they_were_not)
{
	for (unsigned n_boots = 0; n_boots < 2; n_boots++) {
		SAMPLE(m);

		write_others(&m, "secret");
		boot += n_boots;
		sample_open(&m);
		CHECK(!stream_has_ended(m.stream) && !stream_is_drained(m.stream));
		CHECK_EQ(stream_log_bytes(m.stream), 0);
		check_frames(&m, LOST_1);
		check_stdout(&m, "");
		CHECK(scratch_holds(m.dir.fd, "stdout", ""));
		sample_close(&m);
		sample_open(&m);
		check_frames(&m, LOST_1);
	}
}

TEST(files_of_another_run_are_not_replayed)
{
	SAMPLE(m);

	write_others(&m, "secret");
	sample_open_ended(&m);
	check_frames(&m, "");
	check_stdout(&m, "");
	CHECK_EQ(stream_last_seq(m.stream), 0);
	CHECK_EQ(stream_log_bytes(m.stream), 0);
}

/* The header got to the disk, and what follows it did not. */
TEST(records_of_another_run_behind_our_header_do_not_count)
{
	static const char *const names[] = { "stdout", "stderr", "events", "index" };
	SAMPLE(m);
	uint8_t head[INDEX_RECORD_SIZE];

	write_ours(&m, "7 bytes");
	AUTO_FD fd = openat(m.dir.fd, "index", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(pread(fd, head, sizeof(head), 0), sizeof(head));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(m.dir.fd, names[i], 0);
	write_others(&m, "secret");
	AUTO_FD other = openat(m.dir.fd, "index", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(other, head, sizeof(head), 0), sizeof(head));
	boot++;
	sample_open_ended(&m);
	check_frames(&m, "");
	sample_close(&m);
	sample_open(&m);
	CHECK(!stream_has_ended(m.stream));
	check_frames(&m, LOST_1);
}

/* The index got to the disk, and the events did not: they are as long, and another run's. */
TEST(an_event_of_another_run_is_not_ours)
{
	for (unsigned n_boots = 0; n_boots < 2; n_boots++) {
		SAMPLE(m);

		write_ours(&m, "");
		sample_open(&m);
		CHECK_EQ(stream_event(m.stream, "end", "{\"exit_code\":7}"), 2);
		sample_close(&m);
		overwrite(&m, "events",
			"{\"event\":\"start\",\"data\":{\"of\":\"ours\"}}"
			"{\"event\":\"end\",\"data\":{\"exit_code\":0}}");
		boot += n_boots;
		sample_open_ended(&m);
		check_frames(&m, START);
		sample_close(&m);
		sample_open(&m);
		CHECK(!stream_has_ended(m.stream));
		check_frames(&m, START);
		CHECK_EQ(stream_event(m.stream, "end", "{\"exit_code\":1}"), 2);
	}
}

TEST(our_own_end_counts_in_another_boot)
{
	SAMPLE(m);

	write_ours(&m, "7 bytes");
	sample_open(&m);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 3);
	sample_close(&m);
	boot++;
	sample_open(&m);
	CHECK(stream_has_ended(m.stream));
	check_frames(
		&m, START SEVEN "{\"type\":\"event\",\"event\":\"end\",\"data\":{},\"seq\":3}\n");
	check_stdout(&m, "7 bytes");
}

/* A file is as long as it was, with other bytes in it. */
TEST(output_that_is_not_what_was_written_is_dropped)
{
	SAMPLE(m);
	AUTO_FREE char *data = NULL;

	write_ours(&m, "7 bytes");
	overwrite(&m, "stdout", "secrets");
	boot++;
	sample_open_ended(&m);
	check_frames(&m, START);
	CHECK_EQ(read_stdout(&m, &data), -EBADMSG);
	CHECK(data == NULL);
	sample_close(&m);
	sample_open(&m);
	check_frames(&m, START LOST_2);
	check_stdout(&m, "");
	CHECK(scratch_holds(m.dir.fd, "stdout", ""));
}

/* Only the parts that are asked for are looked at, wherever they begin. */
TEST(a_part_is_compared_with_the_frames_it_is_of)
{
	SAMPLE(m);
	uint64_t total = 0;
	size_t size = 0;

	sample_start(&m);
	for (uint64_t i = 0; i < 200; i++) {
		sample_write(&m, 0, "word ", 5);
		sample_wait(&m, i + 1);
	}
	sample_drain(&m);
	sample_close(&m);
	AUTO_FD fd = openat(m.dir.fd, "stdout", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(pwrite(fd, "W", 1, 900), 1);
	boot++;
	sample_open_ended(&m);
	for (uint64_t at = 0; at < 1000; at++) {
		struct stream_part part = { .which = FRAME_STDOUT, .offset = at, .max = 3 };
		AUTO_FREE char *data = NULL;
		int r = stream_read_part(m.stream, &part, &data, &size, &total);

		CHECK_EQ(r, at >= 898 && at < 905 ? -EBADMSG : 0);
	}
}

/* After a kill they are ours; after a loss of power nobody knows whose. */
TEST(bytes_without_a_frame_are_ours_only_in_the_same_boot)
{
	SAMPLE(m);

	write_ours(&m, "7 bytes");
	append(&m, "stdout", "!");
	sample_open(&m);
	check_stdout(&m, "7 bytes!");
	sample_close(&m);
	append(&m, "stdout", "secret");
	boot++;
	sample_open(&m);
	check_stdout(&m, "7 bytes!");
	CHECK_EQ(stream_last_seq(m.stream), 4); /* one says that some was lost */
	sample_close(&m);
	/* From now on all is known again. */
	append(&m, "stdout", "?");
	sample_open(&m);
	check_stdout(&m, "7 bytes!?");
}

TEST(a_kernel_that_does_not_say_is_another_one)
{
	SAMPLE(m);
	uint32_t before = boot;

	boot = 0;
	write_ours(&m, "7 bytes");
	append(&m, "stdout", "secret");
	sample_open(&m);
	check_frames(&m, START SEVEN LOST_3);
	boot = before;
}

/* Without its header nothing says whose the bytes are. */
TEST(bytes_without_an_index_are_nobodys)
{
	SAMPLE(m);

	write_ours(&m, "7 bytes");
	CHECK_EQ(unlinkat(m.dir.fd, "index", 0), 0);
	sample_open(&m);
	check_frames(&m, LOST_1);
	check_stdout(&m, "");
}

TESTS(UNIT(files_of_another_run_are_as_if_they_were_not),
	UNIT(files_of_another_run_are_not_replayed),
	UNIT(records_of_another_run_behind_our_header_do_not_count),
	UNIT(an_event_of_another_run_is_not_ours), UNIT(our_own_end_counts_in_another_boot),
	UNIT(output_that_is_not_what_was_written_is_dropped),
	UNIT(a_part_is_compared_with_the_frames_it_is_of),
	UNIT(bytes_without_a_frame_are_ours_only_in_the_same_boot),
	UNIT(a_kernel_that_does_not_say_is_another_one), UNIT(bytes_without_an_index_are_nobodys))
