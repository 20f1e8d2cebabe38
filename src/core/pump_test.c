#include <pthread.h>
#include <pty.h>
#include <sys/stat.h>

#include "lib/random.h"
#include "lib/stream_sample.h"

static off_t size_of(struct sample *m, const char *name)
{
	struct stat st = { 0 };

	(void)fstatat(m->dir.fd, name, &st, 0);
	return st.st_size;
}

TEST(a_character_in_two_writes_is_one)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	sample_write(&m, 0, "a\xe2", 2);
	sample_wait(&m, 1);
	sample_write(&m, 0, "\x82\xac z", 4);
	(void)usleep(30000); /* even when the loop comes late */
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "a\xe2\x82\xac z");
	CHECK_EQ(view.n_base64, 0);
	CHECK_EQ(view.n_frames, 2);
}

/* Programs write their buffers whenever these are full, and that is anywhere in a text. */
TEST(half_a_character_waits_for_its_rest)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	sample_write(&m, 0, "a\xe2\x82", 3);
	sample_wait(&m, 1);
	(void)usleep(60000);
	sample_write(&m, 1, "other", 5);
	sample_wait(&m, 2);
	CHECK_EQ(stream_log_bytes(m.stream), 6);
	sample_write(&m, 0, "\xac", 1);
	sample_wait(&m, 3);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "a\xe2\x82\xac");
	CHECK_EQ(view.n_base64, 0);
	CHECK_EQ(m.n_drained, 0);
}

TEST(the_end_judges_what_waits)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	sample_write(&m, 0, "\xe2\x82", 2);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "\xe2\x82");
}

TEST(one_end_alone_is_not_drained)
{
	SAMPLE(m);

	sample_start(&m);
	close_fdp(&m.guest[0]);
	sample_idle(&m, 10);
	CHECK_EQ(m.n_drained, 0);
	sample_drain(&m);
	CHECK_EQ(m.n_drained, 1);
}

TEST(a_terminal_works_as_well)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);
	struct err err = { 0 };
	int master, slave;

	if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
		SKIP("no terminals here");
	sample_open(&m);
	CHECK_EQ(stream_attach(m.stream, master, -1, &err), 0);
	CHECK_EQ(fd_write_full(slave, "hi", 2), 0);
	sample_wait(&m, 1);
	(void)close(slave);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "hi");
}

TEST(what_can_not_be_watched_is_an_error_and_closed)
{
	SAMPLE(m);
	struct err err = { 0 };
	int ends[2];

	sample_open(&m);
	size_t before = scratch_count_fds();
	scratch_write(m.dir.fd, "plain", "x");
	CHECK_EQ(fd_pipe(&ends[0], &ends[1]), 0);
	int plain = openat(m.dir.fd, "plain", O_RDONLY | O_CLOEXEC);
	CHECK(stream_attach(m.stream, ends[0], plain, &err) < 0);
	CHECK(strstr(err.text, "output"));
	(void)close(ends[1]);
	CHECK_EQ(scratch_count_fds(), before);
}

/* --- the cap --- */

static void write_all(struct sample *m, int which, const char *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		size_t n = size - at < 4096 ? size - at : 4096;

		sample_write(m, which, data + at, n);
		sample_idle(m, 0);
		(void)uv_run(&m->loop, UV_RUN_NOWAIT);
		at += n;
	}
}

static void check_cap(const char *data, size_t size, uint64_t cap, size_t kept)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	m.options.log_cap = cap;
	sample_start(&m);
	write_all(&m, 0, data, size);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_EQ(view.output[0].size, kept);
	if (kept > 0)
		CHECK_MEM(view.output[0].data, data, kept);
	CHECK_EQ(view.n_truncated, kept < size ? 1 : 0);
	CHECK_EQ(stream_was_truncated(m.stream), kept < size);
	CHECK_EQ(m.n_capped, kept < size ? 1 : 0);
	CHECK_EQ(stream_log_bytes(m.stream), kept);
	CHECK_EQ(size_of(&m, "stdout"), (off_t)kept);
}

TEST(output_up_to_the_cap_is_kept)
{
	static char many[100000];

	memset(many, 'x', sizeof(many));
	check_cap("hello", 5, 5, 5);
	check_cap("hello", 5, 4, 4);
	check_cap("hello", 5, 0, 0);
	check_cap(many, sizeof(many), 50000, 50000);
	check_cap(many, sizeof(many), sizeof(many), sizeof(many));
	check_cap("ab\xe2\x82\xac", 5, 5, 5);
	check_cap("ab\xe2\x82\xac", 5, 4, 2); /* not inside a character */
	check_cap("ab\xe2\x82\xac", 5, 3, 2);
}

TEST(the_cap_is_for_both_and_said_once)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	m.options.log_cap = 10;
	sample_start(&m);
	sample_write(&m, 0, "123456", 6);
	sample_wait(&m, 1);
	sample_write(&m, 1, "abcdefgh", 8);
	sample_wait(&m, 3);
	sample_write(&m, 0, "lost", 4);
	sample_idle(&m, 5);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 4);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "123456");
	CHECK_STR(view.output[1].data, "abcd");
	CHECK_EQ(view.n_truncated, 1);
	CHECK_EQ(view.n_frames, 4);
}

static void *write_much(void *arg)
{
	static char data[1 << 16];
	int fd = *(int *)arg;

	for (size_t i = 0; i < (64 << 20) / sizeof(data); i++) {
		if (fd_write_full(fd, data, sizeof(data)) < 0)
			break;
	}
	(void)close(fd);
	return NULL;
}

TEST(a_guest_over_the_cap_is_not_held_up)
{
	SAMPLE(m);
	pthread_t thread;

	m.options.log_cap = 1000;
	sample_start(&m);
	int fd = take_fd(&m.guest[0]);
	CHECK_EQ(pthread_create(&thread, NULL, write_much, &fd), 0);
	sample_drain(&m);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(size_of(&m, "stdout"), 1000);
	CHECK(stream_last_seq(m.stream) <= 3);
}

TEST(a_restart_over_the_cap_goes_on_dropping)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	m.options.log_cap = 4;
	sample_start(&m);
	sample_write(&m, 0, "hello", 5);
	sample_drain(&m);
	sample_close(&m);
	m.n_drained = 0;
	sample_start(&m);
	CHECK(stream_was_truncated(m.stream));
	sample_write(&m, 0, "more", 4);
	sample_drain(&m);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "hell");
	CHECK_EQ(view.n_truncated, 1);
}

/* --- who writes byte by byte --- */

struct dribble {
	int fd;
	size_t n;
};

static void *write_bytes(void *arg)
{
	const struct dribble *d = arg;

	for (size_t i = 0; i < d->n; i++)
		(void)fd_write_full(d->fd, "x", 1);
	(void)close(d->fd);
	return NULL;
}

TEST(a_guest_that_dribbles_makes_few_frames)
{
	SAMPLE(m);
	pthread_t thread;

	sample_start(&m);
	struct dribble d = { take_fd(&m.guest[0]), 300000 };
	uint64_t before = clock_monotonic_ns();
	CHECK_EQ(pthread_create(&thread, NULL, write_bytes, &d), 0);
	sample_drain(&m);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	uint64_t ms = (clock_monotonic_ns() - before) / 1000000;
	CHECK_EQ(stream_log_bytes(m.stream), d.n);
	if (stream_last_seq(m.stream) > 50 + ms)
		fail_msg("%lu frames in %lu ms", stream_last_seq(m.stream), ms);
}

/* --- orphans --- */

TEST(finishing_takes_what_is_there_and_does_not_wait)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);
	static char data[60000];

	memset(data, 'x', sizeof(data));
	sample_start(&m);
	sample_write(&m, 0, data, sizeof(data));
	sample_write(&m, 1, "a\xe2", 2);
	stream_finish(m.stream);
	stream_finish(m.stream);
	CHECK(stream_is_drained(m.stream));
	CHECK_EQ(m.n_drained, 0);
	sample_idle(&m, 1);
	CHECK_EQ(m.n_drained, 1);
	sample_replay(&m, &view);
	CHECK_EQ(view.output[0].size, sizeof(data));
	CHECK_STR(view.output[1].data, "a\xe2");
}

TEST(pipes_that_somebody_else_holds_are_not_waited_for)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	sample_start(&m);
	AUTO_FD kept = dup(m.guest[0]);
	sample_write(&m, 0, "before", 6);
	stream_finish_pipes(m.stream);
	CHECK(stream_is_drained(m.stream));
	CHECK_EQ(m.n_drained, 0);
	sample_idle(&m, 1);
	CHECK_EQ(m.n_drained, 1);
	CHECK(kept >= 0);
	sample_replay(&m, &view);
	CHECK_STR(view.output[0].data, "before");
}

/* One word, once or very often, into one of the pipes. */
static void write_something(struct sample *m, struct sample_bytes *sent, uint64_t *dice)
{
	static const char *const words[] = { "hello ", "\n", "\xe2\x82\xac", "\xff",
		"\xf0\x9f\x98\x80", "\x01\x02", "\xe2", "\"quoted\\\"" };
	const char *word = words[random_below(dice, ARRAY_SIZE(words))];
	size_t n_times = random_below(dice, 10) ? 1 : 500;
	int which = (int)random_below(dice, 2);

	for (size_t k = 0; k < n_times; k++) {
		sample_add(&sent[which], word, strlen(word));
		sample_write(m, which, word, strlen(word));
	}
	if (random_below(dice, 3) == 0)
		(void)uv_run(&m->loop, UV_RUN_NOWAIT);
}

TEST(any_bytes_in_any_pieces_come_out_whole)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		SAMPLE(m);
		SAMPLE_VIEW(view);
		struct sample_bytes sent[2] = { 0 };
		uint64_t dice = seed;

		sample_start(&m);
		for (int i = 0; i < 200; i++)
			write_something(&m, sent, &dice);
		sample_drain(&m);
		sample_replay(&m, &view);
		for (int which = 0; which < 2; which++) {
			CHECK_EQ(view.output[which].size, sent[which].size);
			CHECK_MEM(view.output[which].data, sent[which].data, sent[which].size);
			free(sent[which].data);
		}
	}
}

TESTS(UNIT(a_character_in_two_writes_is_one), UNIT(half_a_character_waits_for_its_rest),
	UNIT(the_end_judges_what_waits), UNIT(one_end_alone_is_not_drained),
	UNIT(a_terminal_works_as_well), UNIT(what_can_not_be_watched_is_an_error_and_closed),
	UNIT(output_up_to_the_cap_is_kept), UNIT(the_cap_is_for_both_and_said_once),
	UNIT(a_guest_over_the_cap_is_not_held_up), UNIT(a_restart_over_the_cap_goes_on_dropping),
	UNIT(a_guest_that_dribbles_makes_few_frames),
	UNIT(finishing_takes_what_is_there_and_does_not_wait),
	UNIT(pipes_that_somebody_else_holds_are_not_waited_for),
	UNIT(any_bytes_in_any_pieces_come_out_whole))
