#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/index.h"
#include "lib/random.h"
#include "lib/stream_sample.h"

#define N_ROUNDS     100
#define N_ROUNDS_MAX 1000 /* on a machine that is so slow that little is written in one */

/* --- a server that is killed --- */

/* What the writer tells us it gave to a subscriber: seq, size, and the text. */
struct seen {
	uint64_t seq;
	uint32_t size;
};

struct writer {
	struct cursor *cursor;
	int seen_fd;
	bool is_drained;
};

static void tell_seen(void *ctx)
{
	struct writer *w = ctx;
	struct shared *message;
	static char record[sizeof(struct seen) + STREAM_MESSAGE_MAX];

	while ((message = cursor_next(w->cursor))) {
		AUTO_FREE char *text = strndup(shared_data(message), message->size);
		const char *seq = strstr(text + message->size - 30, "\"seq\":");
		struct seen seen = { strtoull(seq + 6, NULL, 10), (uint32_t)message->size };

		memcpy(record, &seen, sizeof(seen));
		memcpy(record + sizeof(seen), text, message->size);
		(void)fd_write_full(w->seen_fd, record, sizeof(seen) + message->size);
		shared_unref(message);
	}
}

static void on_drained(void *ctx)
{
	((struct writer *)ctx)->is_drained = true;
}

/* A kill may tear the last record of such a file, so each writer has its own. */
static int open_seen(struct sample *m, unsigned round, int flags)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "seen.%u", round);
	return openat(m->dir.fd, name, flags | O_CLOEXEC, 0600);
}

/* The server, in a process of its own: until it is killed, or all is drained. */
static _Noreturn void write_stream(struct sample *m, const int fds[2], unsigned round)
{
	struct writer w = { 0 };
	struct stream *s;
	uv_loop_t loop;

	(void)alarm(60);
	m->options.drained = on_drained;
	m->options.ctx = &w;
	w.seen_fd = open_seen(m, round, O_WRONLY | O_CREAT);
	if (uv_loop_init(&loop) < 0 || stream_open(&loop, m->dir.fd, &m->options, &s, NULL) < 0)
		_exit(1);
	w.cursor = cursor_open(s, round % 10 ? STREAM_TAIL : 0, tell_seen, &w);
	tell_seen(&w);
	if (stream_attach(s, dup(fds[0]), dup(fds[1]), NULL) < 0)
		_exit(2);
	while (!w.is_drained)
		(void)uv_run(&loop, UV_RUN_ONCE);
	tell_seen(&w);
	_exit(0);
}

/* Any kind of output: lines, characters of all lengths, bytes. */
static size_t make_output(uint64_t *dice, char *data, size_t max)
{
	static const char *const words[] = { "word ", "line\n", "\xc3\xa9", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\xff", "\t\x01", "\"\\" };
	size_t size = 0;
	bool is_binary = random_below(dice, 4) == 0;

	max = random_between(dice, 8, max);
	while (size + 8 <= max) {
		const char *word = words[random_below(dice, is_binary ? 8 : 5)];

		memcpy(data + size, word, strlen(word));
		size += strlen(word);
	}
	return size;
}

/* Write for some `us` to both pipes without ever waiting, and remember what went in. */
static void feed(const int fds[2], struct sample_bytes sent[2], uint64_t *dice, uint64_t us)
{
	static char data[70000];
	uint64_t end = clock_monotonic_ns() + us * 1000;

	while (clock_monotonic_ns() < end) {
		size_t which = random_below(dice, 2);
		size_t size = make_output(dice, data, random_below(dice, 8) ? 200 : 60000);
		ssize_t n = write(fds[which], data, size);

		if (n > 0)
			sample_add(&sent[which], data, (size_t)n);
		if (random_below(dice, 4) == 0)
			(void)usleep(random_below(dice, 500));
	}
}

static void check_message(struct sample *m, uint64_t seq, const char *text, size_t size)
{
	struct cursor *c = cursor_open(m->stream, seq, NULL, NULL);
	CLEANUP(shared_unrefp) struct shared *message = cursor_next(c);

	cursor_close(c);
	CHECK(message != NULL);
	if (!message)
		return; /* not reached, but for the analyzer */
	CHECK_EQ(message->size, size);
	CHECK_MEM(shared_data(message), text, size);
}

/* Messages that somebody got before a kill are the ones that are there now. How many. */
static size_t check_seen(struct sample *m, unsigned round)
{
	AUTO_FREE char *log = NULL;
	size_t size = 0;
	size_t n_seen = 0;
	AUTO_FD fd = open_seen(m, round, O_RDONLY);

	if (fd < 0)
		return 0; /* killed before it had one */
	CHECK_EQ(fd_read_all(fd, 1 << 30, &log, &size), 0);
	for (size_t at = 0; at + sizeof(struct seen) <= size; n_seen++) {
		struct seen seen;

		memcpy(&seen, log + at, sizeof(seen));
		at += sizeof(seen);
		if (seen.size > size - at)
			break;
		check_message(m, seen.seq, log + at, seen.size);
		at += seen.size;
	}
	return n_seen;
}

static void kill_one_writer(struct sample *m, const int ends[4], struct sample_bytes sent[2],
	uint64_t *dice, unsigned round)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		write_stream(m, ends, round);
	feed(ends + 2, sent, dice, random_between(dice, 0, 12000));
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static void finish_writer(struct sample *m, const int ends[4], unsigned round)
{
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(ends[2]);
		(void)close(ends[3]);
		write_stream(m, ends, round);
	}
	(void)close(ends[2]);
	(void)close(ends[3]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static bool is_enough(const struct sample_bytes sent[2])
{
	return sent[0].size > 100000 && sent[1].size > 100000;
}

TEST(a_server_killed_at_any_instant_loses_and_repeats_nothing)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);
	struct sample_bytes sent[2] = { 0 };
	uint64_t dice = 20;
	int ends[4]; /* to read from: stdout, stderr; to write to */
	unsigned n_rounds = 0;

	for (size_t i = 0; i < 2; i++) {
		CHECK_EQ(fd_pipe(&ends[i], &ends[2 + i]), 0);
		CHECK_EQ(fd_set_nonblock(ends[2 + i], true), 0);
	}
	while (n_rounds < N_ROUNDS || (n_rounds < N_ROUNDS_MAX && !is_enough(sent)))
		kill_one_writer(&m, ends, sent, &dice, n_rounds++);
	finish_writer(&m, ends, n_rounds);
	sample_open(&m);
	sample_replay(&m, &view);
	CHECK_EQ(view.last_seq, view.n_frames);
	CHECK_EQ(view.last_seq, stream_last_seq(m.stream));
	CHECK(is_enough(sent));
	for (size_t i = 0; i < 2; i++) {
		CHECK_EQ(view.output[i].size, sent[i].size);
		CHECK_MEM(view.output[i].data, sent[i].data, sent[i].size);
		free(sent[i].data);
		(void)close(ends[i]);
	}
	size_t n_seen = 0;
	for (unsigned round = 0; round <= n_rounds; round++)
		n_seen += check_seen(&m, round);
	CHECK(n_seen > view.n_frames);
}

/* --- files as a power loss leaves them --- */

static void write_some(struct sample *m)
{
	sample_start(m);
	CHECK_EQ(stream_event(m->stream, "start", "{}"), 1);
	for (uint64_t i = 0; i < 5; i++) {
		sample_write(m, 0, "line\n", 5);
		sample_wait(m, i + 2);
	}
	sample_drain(m);
	sample_close(m);
	m->n_drained = 0;
}

static void resize(struct sample *m, const char *name, off_t size)
{
	AUTO_FD fd = openat(m->dir.fd, name, O_WRONLY | O_CLOEXEC);

	CHECK_EQ(ftruncate(fd, size), 0);
}

static void check_output(struct sample *m, const char *text, uint64_t n_frames)
{
	SAMPLE_VIEW(view);

	sample_replay(m, &view);
	CHECK_STR(view.output[0].data, text);
	CHECK_EQ(view.n_frames, n_frames);
	CHECK_EQ(stream_last_seq(m->stream), n_frames);
	CHECK_EQ(stream_log_bytes(m->stream), strlen(text));
}

#define FIVE_LINES "line\nline\nline\nline\nline\n"

TEST(a_torn_index_is_made_whole)
{
	for (off_t size = 2 * INDEX_RECORD_SIZE; size <= 7 * INDEX_RECORD_SIZE; size++) {
		SAMPLE(m);

		write_some(&m);
		resize(&m, "index", size);
		sample_open(&m);
		/* what lost its frame is one frame now */
		uint64_t n_left = (uint64_t)size / INDEX_RECORD_SIZE - 1;
		check_output(&m, FIVE_LINES, n_left < 6 ? n_left + 1 : 6);
		sample_close(&m);
		sample_open(&m);
		check_output(&m, FIVE_LINES, n_left < 6 ? n_left + 1 : 6);
	}
}

TEST(a_zeroed_index_is_made_whole)
{
	SAMPLE(m);

	write_some(&m);
	resize(&m, "index", 3 * INDEX_RECORD_SIZE);
	resize(&m, "index", 99 * INDEX_RECORD_SIZE);
	sample_open(&m);
	check_output(&m, FIVE_LINES, 3);
}

TEST(records_without_their_bytes_do_not_count)
{
	SAMPLE(m);

	write_some(&m);
	resize(&m, "stdout", 12);
	sample_open(&m);
	check_output(&m, "line\nline\nli", 4);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 5);
}

TEST(one_that_is_over_is_read_as_far_as_it_is_whole)
{
	SAMPLE(m);
	struct stat before, after;

	write_some(&m);
	resize(&m, "index", 4 * INDEX_RECORD_SIZE + 9);
	CHECK_EQ(fstatat(m.dir.fd, "index", &before, 0), 0);
	sample_open_ended(&m);
	check_output(&m, "line\nline\n", 3);
	CHECK_EQ(fstatat(m.dir.fd, "index", &after, 0), 0);
	CHECK_EQ(before.st_size, after.st_size);
}

TEST(an_event_without_a_record_was_not_made)
{
	SAMPLE(m);

	write_some(&m);
	scratch_write(m.dir.fd, "events", "{\"event\":\"start\",\"data\":{}}{\"event\":\"half");
	sample_open(&m);
	check_output(&m, FIVE_LINES, 6);
	CHECK_EQ(stream_event(m.stream, "next", "{}"), 7);
	CHECK(scratch_holds(m.dir.fd, "events",
		"{\"event\":\"start\",\"data\":{}}{\"event\":\"next\",\"data\":{}}"));
}

TEST(bytes_over_the_cap_do_not_come_back)
{
	SAMPLE(m);

	m.options.log_cap = 7;
	sample_start(&m);
	sample_write(&m, 0, "123456789", 9);
	sample_drain(&m);
	sample_close(&m);
	/* as if it was killed before it could cut them off */
	scratch_write(m.dir.fd, "stdout", "123456789");
	sample_open(&m);
	CHECK(stream_was_truncated(m.stream));
	check_output(&m, "1234567", 2);
	CHECK(scratch_holds(m.dir.fd, "stdout", "1234567"));
}

TEST(half_a_character_waits_for_the_pipe_or_the_next_event)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_open(&m);
	sample_close(&m);
	scratch_write(m.dir.fd, "stdout", "a\xe2\x82");
	sample_start(&m);
	CHECK_EQ(stream_last_seq(m.stream), 1);
	sample_write(&m, 0, "\xac", 1);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "a\xe2\x82\xac");
	CHECK_EQ(view.n_base64, 0);
	sample_close(&m);
	scratch_write(m.dir.fd, "stdout", "a\xe2\x82\xac\xe2\x82");
	sample_open(&m);
	CHECK_EQ(stream_last_seq(m.stream), 2);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 4);
}

TEST(the_end_is_remembered)
{
	SAMPLE(m);
	struct err err = { 0 };

	write_some(&m);
	sample_open(&m);
	CHECK(!stream_has_ended(m.stream));
	CHECK_EQ(stream_event(m.stream, "end", "{\"exit_code\":0}"), 7);
	sample_close(&m); /* killed before stream_end() */
	sample_open(&m);
	CHECK(stream_has_ended(m.stream) && stream_is_drained(m.stream));
	CHECK_EQ(stream_attach(m.stream, -1, -1, &err), -ESHUTDOWN);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), -ESHUTDOWN);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 7, NULL, NULL);
	CHECK_NEXT(
		c, "{\"type\":\"event\",\"event\":\"end\",\"data\":{\"exit_code\":0},\"seq\":7}");
	CHECK(cursor_is_done(c));
}

TESTS(UNIT(a_server_killed_at_any_instant_loses_and_repeats_nothing),
	UNIT(a_torn_index_is_made_whole), UNIT(a_zeroed_index_is_made_whole),
	UNIT(records_without_their_bytes_do_not_count),
	UNIT(one_that_is_over_is_read_as_far_as_it_is_whole),
	UNIT(an_event_without_a_record_was_not_made), UNIT(bytes_over_the_cap_do_not_come_back),
	UNIT(half_a_character_waits_for_the_pipe_or_the_next_event), UNIT(the_end_is_remembered))
