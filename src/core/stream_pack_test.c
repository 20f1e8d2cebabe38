#include <sys/stat.h>

#include "base/base64.h"
#include "lib/stream_sample.h"

/* One that is over and printed this. */
static void make(struct sample *m, const void *output, size_t size)
{
	sample_start(m);
	CHECK_EQ(stream_event(m->stream, "start", "{}"), 1);
	sample_write(m, 0, output, size);
	sample_write(m, 1, "warning\n", 8);
	sample_drain(m);
	CHECK(stream_event(m->stream, "end", "{\"exit_code\":0}") > 0);
	stream_end(m->stream);
	(void)uv_run(&m->loop, UV_RUN_NOWAIT);
}

/* Whether two streams have the same frames. */
static void check_same(struct stream *a, struct stream *b)
{
	CLEANUP(cursor_closep) struct cursor *x = cursor_open(a, 0, NULL, NULL);
	CLEANUP(cursor_closep) struct cursor *y = cursor_open(b, 0, NULL, NULL);

	CHECK_EQ(stream_last_seq(a), stream_last_seq(b));
	for (;;) {
		CLEANUP(shared_unrefp) struct shared *m = cursor_next(x);
		CLEANUP(shared_unrefp) struct shared *n = cursor_next(y);

		CHECK((m == NULL) == (n == NULL));
		if (!m || !n)
			break;
		CHECK_EQ(m->size, n->size);
		CHECK(memcmp(shared_data(m), shared_data(n), m->size) == 0);
	}
	CHECK(cursor_is_done(x) && cursor_is_done(y));
}

TEST(what_was_packed_is_replayed_the_same)
{
	static const char binary[] = "text\0\xff\xfe and more";
	SAMPLE(m);
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *output = NULL;
	CLEANUP(stream_unrefp) struct stream *again = NULL;
	struct err err = { 0 };
	uint64_t total = 0;
	size_t size = 0;

	make(&m, binary, sizeof(binary));
	CHECK(stream_is_short(m.stream));
	CHECK_EQ(stream_pack(m.stream, &text), 0);
	CHECK(strlen(text) <= STREAM_PACKED_MAX);
	CHECK_EQ(stream_open_packed(text, &again, &err), 0);
	check_same(m.stream, again);
	CHECK_EQ(stream_read_output(again, FRAME_STDOUT, 100, &output, &size, &total), 0);
	CHECK_EQ(size, sizeof(binary));
	CHECK(memcmp(output, binary, size) == 0);
	CHECK(stream_has_ended(again) && stream_is_drained(again));
	CHECK_EQ(stream_event(again, "more", "{}"), -ESHUTDOWN);
}

/* However much it printed: what is called short can be packed, and nothing else is. */
TEST(only_short_ones_are_packed)
{
	char output[2000];

	memset(output, 'x', sizeof(output));
	for (size_t size = 0; size <= sizeof(output); size += 50) {
		SAMPLE(m);
		AUTO_FREE char *text = NULL;

		sample_start(&m);
		sample_write(&m, 0, output, size);
		sample_drain(&m);
		bool is_short = stream_is_short(m.stream);
		CHECK(is_short == (size <= 850) || (size > 850 && size < 950));
		CHECK(stream_event(m.stream, "end", "{}") > 0);
		stream_end(m.stream);
		int r = stream_pack(m.stream, &text);
		CHECK(r == 0 || (r == -EFBIG && !is_short));
		CHECK((r == 0) == (text != NULL));
		CHECK(size < 1500 || r == -EFBIG);
	}
}

TEST(a_text_that_is_none_is_refused)
{
	static const char *const texts[] = { "", "!", "AAAA",
		"AAAAAAAAAAAAAAAAAAAAAA==", "/////wAAAAAAAAAAAAAAAA==" };
	char long_text[STREAM_PACKED_MAX + 5];
	struct stream *s = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_EQ(stream_open_packed(texts[i], &s, &err), -EBADMSG);
	memset(long_text, 'A', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	CHECK_EQ(stream_open_packed(long_text, &s, &err), -EBADMSG);
	CHECK(s == NULL);
}

/* The parts are whole, and a byte follows. */
TEST(what_is_behind_the_last_part_is_noticed)
{
	SAMPLE(m);
	AUTO_FREE char *text = NULL;
	uint8_t bytes[STREAM_PACKED_MAX];
	char longer[STREAM_PACKED_MAX];
	struct stream *s = NULL;
	size_t size = 0;

	make(&m, "x", 1);
	CHECK_EQ(stream_pack(m.stream, &text), 0);
	CHECK_EQ(base64_decode(text, strlen(text), bytes, &size), 0);
	bytes[size] = 0;
	(void)base64_encode(bytes, size + 1, longer);
	CHECK_EQ(stream_open_packed(longer, &s, NULL), -EBADMSG);
	(void)base64_encode(bytes, size - 1, longer);
	CHECK_EQ(stream_open_packed(longer, &s, NULL), -EBADMSG);
}

static ino_t inode_of(int fd)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, 0);
	return st.st_ino;
}

/* The same of one that may have zeros. */
static ino_t inode_of_blank(int fd)
{
	char bytes[4096];
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	CHECK(st.st_size <= (off_t)sizeof(bytes));
	CHECK_EQ(pread(fd, bytes, sizeof(bytes), 0), st.st_size);
	for (off_t i = 0; i < st.st_size; i++)
		CHECK_EQ(bytes[i], 0);
	return st.st_ino;
}

/* What the first printed is nowhere in what the second has. */
TEST(files_serve_another_stream)
{
	SAMPLE(m);
	struct stream_files files = STREAM_FILES_NONE;
	struct err err = { 0 };

	make(&m, "secret of the first\n", 20);
	CHECK(stream_take_files(m.stream, &files));
	CHECK(files.dir_fd >= 0 && files.index_fd >= 0 && files.spool_fds[0] >= 0);
	ino_t index = inode_of_blank(files.index_fd);
	(void)inode_of_blank(files.spool_fds[2]);
	ino_t output = inode_of(files.spool_fds[0]);
	sample_close(&m);
	m.n_drained = 0;
	CHECK_EQ(stream_open_in(&m.loop, &files, &m.options, &m.stream, &err), 0);
	CHECK_EQ(files.index_fd, -1);
	CHECK_EQ(stream_last_seq(m.stream), 0);
	sample_attach(&m);
	sample_write(&m, 0, "second\n", 7);
	sample_drain(&m);
	stream_end(m.stream);
	SAMPLE_VIEW(view);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "second\n");
	CHECK_EQ(view.output[1].size, 0);
	CHECK(stream_take_files(m.stream, &files));
	CHECK_EQ(inode_of_blank(files.index_fd), index);
	CHECK_EQ(inode_of(files.spool_fds[0]), output);
	stream_files_close(&files);
}

/* Bytes that could not be cut off are not counted any more, but still there. */
TEST(what_is_left_behind_the_end_goes_as_well)
{
	SAMPLE(m);
	struct stream_files files = STREAM_FILES_NONE;
	struct err err = { 0 };

	make(&m, "first\n", 6);
	CHECK(stream_take_files(m.stream, &files));
	sample_close(&m);
	CHECK_EQ(stream_open_in(&m.loop, &files, &m.options, &m.stream, &err), 0);
	stream_end(m.stream);
	scratch_write(m.dir.fd, "stdout", "secret");
	CHECK(stream_take_files(m.stream, &files));
	(void)inode_of(files.spool_fds[0]);
	stream_files_close(&files);
}

/* The second has fewer frames than the first had. Who opens its files finds these, and cuts off
 * what was left. */
TEST(a_successor_finds_no_frame_of_the_first)
{
	SAMPLE(m);
	struct stream_files files = STREAM_FILES_NONE;
	struct err err = { 0 };
	struct stat st;

	sample_open(&m);
	for (int i = 0; i < 9; i++)
		CHECK(stream_event(m.stream, "start", "{\"of\":\"the first\"}") > 0);
	stream_finish(m.stream);
	stream_end(m.stream);
	CHECK(stream_take_files(m.stream, &files));
	sample_close(&m);
	CHECK_EQ(stream_open_in(&m.loop, &files, &m.options, &m.stream, &err), 0);
	CHECK_EQ(stream_event(m.stream, "start", "{}"), 1);
	sample_close(&m);
	sample_open(&m);
	CHECK_EQ(stream_last_seq(m.stream), 1);
	CHECK(!stream_has_ended(m.stream));
	CHECK_EQ(fstatat(m.dir.fd, "index", &st, 0), 0);
	CHECK_EQ(st.st_size, 64);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 2);
}

/* Too many to be overwritten. */
TEST(a_long_index_is_cut)
{
	SAMPLE(m);
	struct stream_files files = STREAM_FILES_NONE;

	sample_open(&m);
	for (int i = 0; i < 200; i++)
		CHECK(stream_event(m.stream, "start", "{}") > 0);
	stream_finish(m.stream);
	stream_end(m.stream);
	CHECK(stream_take_files(m.stream, &files));
	(void)inode_of(files.index_fd);
	(void)inode_of(files.spool_fds[2]);
	stream_files_close(&files);
}

TEST(files_that_somebody_reads_stay)
{
	SAMPLE(m);
	struct stream_files files = STREAM_FILES_NONE;

	sample_open(&m);
	CHECK(!stream_take_files(m.stream, &files)); /* nor those of one that goes on */
	sample_close(&m);
	make(&m, "x\n", 2);
	struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	CHECK(!stream_take_files(m.stream, &files));
	CLEANUP(shared_unrefp) struct shared *frame = cursor_next(c);
	CHECK(frame != NULL);
	cursor_close(c);
	CHECK(stream_take_files(m.stream, &files));
	stream_files_close(&files);
}

TESTS(UNIT(what_was_packed_is_replayed_the_same), UNIT(only_short_ones_are_packed),
	UNIT(a_text_that_is_none_is_refused), UNIT(what_is_behind_the_last_part_is_noticed),
	UNIT(files_serve_another_stream), UNIT(what_is_left_behind_the_end_goes_as_well),
	UNIT(files_that_somebody_reads_stay), UNIT(a_successor_finds_no_frame_of_the_first),
	UNIT(a_long_index_is_cut))
