#include "core/index.h"
#include "lib/stream_sample.h"

#define BEAT_MS 30u

/* Events e1, e2, ... */
static void add_events(struct sample *m, unsigned n)
{
	for (unsigned i = 1; i <= n; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "e%u", i);
		CHECK(stream_event(m->stream, name, "{}") > 0);
	}
}

static void count_wake(void *ctx)
{
	++*(unsigned *)ctx;
}

TEST(a_cursor_begins_where_it_was_told)
{
	SAMPLE(m);
	unsigned n_wakes = 0;

	sample_open(&m);
	add_events(&m, 10);
	struct cursor *oldest = cursor_open(m.stream, 0, NULL, NULL);
	struct cursor *middle = cursor_open(m.stream, 7, NULL, NULL);
	struct cursor *tail = cursor_open(m.stream, STREAM_TAIL, count_wake, &n_wakes);
	struct cursor *later = cursor_open(m.stream, 12, count_wake, &n_wakes);
	CHECK_NEXT(oldest, "{\"type\":\"event\",\"event\":\"e1\",\"data\":{},\"seq\":1}");
	CHECK_NEXT(middle, "{\"type\":\"event\",\"event\":\"e7\",\"data\":{},\"seq\":7}");
	CHECK(cursor_next(tail) == NULL && cursor_next(later) == NULL);
	CHECK_EQ(stream_event(m.stream, "x", "{}"), 11);
	CHECK_EQ(stream_event(m.stream, "y", "{}"), 12);
	CHECK_EQ(n_wakes, 0); /* not from inside a call */
	sample_idle(&m, 1);
	CHECK_EQ(n_wakes, 2);
	CHECK_NEXT(tail, "{\"type\":\"event\",\"event\":\"x\",\"data\":{},\"seq\":11}");
	CHECK_NEXT(later, "{\"type\":\"event\",\"event\":\"y\",\"data\":{},\"seq\":12}");
	cursor_close(oldest);
	cursor_close(middle);
	cursor_close(tail);
	cursor_close(later);
	cursor_close(NULL);
}

TEST(who_has_not_asked_is_not_woken)
{
	SAMPLE(m);
	unsigned n_wakes = 0;

	sample_open(&m);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 0, count_wake, &n_wakes);
	add_events(&m, 1);
	sample_idle(&m, 1);
	CHECK_EQ(n_wakes, 0);
	AUTO_FREE char *text = sample_next(c);
	CHECK(text && cursor_next(c) == NULL && cursor_next(c) == NULL);
	add_events(&m, 3);
	sample_idle(&m, 1);
	CHECK_EQ(n_wakes, 1); /* once for all three */
}

TEST(the_end_wakes_and_is_the_end)
{
	SAMPLE(m);
	unsigned n_wakes = 0;

	sample_open(&m);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 0, count_wake, &n_wakes);
	CHECK(cursor_next(c) == NULL && !cursor_is_done(c));
	add_events(&m, 1);
	stream_end(m.stream);
	sample_idle(&m, 1);
	CHECK_EQ(n_wakes, 1);
	CHECK(!cursor_is_done(c));
	AUTO_FREE char *text = sample_next(c);
	CHECK(text && cursor_is_done(c));
	CHECK(cursor_next(c) == NULL);
}

static struct stream_frame taken;

static bool takes(struct cursor *c, enum frame_kind kind, const char *data)
{
	return cursor_next_frame(c, &taken) && taken.kind == kind && taken.size == strlen(data) &&
	       memcmp(taken.data, data, taken.size) == 0;
}

TEST(frames_can_be_had_as_they_are_kept)
{
	SAMPLE(m);
	unsigned n_wakes = 0;

	sample_start(&m);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 0, count_wake, &n_wakes);
	sample_write(&m, 1, "\xff\xfe\"", 3);
	sample_wait(&m, 1);
	CHECK_EQ(stream_event(m.stream, "x", "{}"), 2);
	CHECK_EQ(stream_truncated(m.stream, "y"), 3);
	CHECK(takes(c, FRAME_STDERR, "\xff\xfe\""));
	CHECK(takes(c, FRAME_EVENT, "{\"event\":\"x\",\"data\":{}}"));
	CHECK(takes(c, FRAME_TRUNCATED, "y"));
	CHECK(!cursor_next_frame(c, &taken) && !cursor_is_done(c));
	stream_end(m.stream);
	sample_idle(&m, 1);
	CHECK_EQ(n_wakes, 1);
	CHECK(!cursor_next_frame(c, &taken) && cursor_is_done(c));
}

struct closer {
	struct cursor *own;
	struct cursor *other;
	unsigned n;
};

static void close_both(void *ctx)
{
	struct closer *k = ctx;

	k->n++;
	cursor_close(TAKE(k->own));
	cursor_close(TAKE(k->other));
}

TEST(a_callback_may_close_any_cursor)
{
	SAMPLE(m);
	struct closer k = { 0 };

	sample_open(&m);
	k.own = cursor_open(m.stream, 0, close_both, &k);
	k.other = cursor_open(m.stream, 0, close_both, &k);
	CHECK(cursor_next(k.own) == NULL && cursor_next(k.other) == NULL);
	add_events(&m, 1);
	stream_unref(TAKE(m.stream)); /* the cursors were the last */
	sample_idle(&m, 1);
	CHECK_EQ(k.n, 1);
}

/* A cursor that begins at the first of many frames reads blocks, one that follows does not:
 * both must see the same. */
TEST(all_cursors_see_the_same_however_far_behind)
{
	SAMPLE(m);
	SAMPLE_VIEW(late);
	SAMPLE_VIEW(live);
	SAMPLE_VIEW(second);

	sample_start(&m);
	struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	struct cursor *d = cursor_open(m.stream, 0, NULL, NULL);
	for (unsigned i = 0; i < 500; i++) {
		char line[64];
		int n = snprintf(line, sizeof(line), "line %u \xe2\x82\xac\n", i);

		sample_write(&m, 0, line, (size_t)n);
		sample_wait(&m, i + 1);
		sample_pull(&live, c);
		if (i % 50 == 0)
			sample_pull(&second, d);
	}
	sample_drain(&m);
	sample_pull(&live, c);
	sample_pull(&second, d);
	sample_replay(&m, &late);
	CHECK(live.n_frames >= 500);
	CHECK_EQ(live.n_frames, late.n_frames);
	CHECK_EQ(second.n_frames, late.n_frames);
	CHECK_STR(live.output[0].data, late.output[0].data);
	CHECK_STR(second.output[0].data, late.output[0].data);
	cursor_close(c);
	cursor_close(d);
}

TEST(those_at_the_tail_share_one_message)
{
	SAMPLE(m);

	sample_open(&m);
	struct cursor *a = cursor_open(m.stream, 0, NULL, NULL);
	struct cursor *b = cursor_open(m.stream, 0, NULL, NULL);
	add_events(&m, 1);
	CLEANUP(shared_unrefp) struct shared *first = cursor_next(a);
	CLEANUP(shared_unrefp) struct shared *second = cursor_next(b);
	CHECK(first && first == second);
	CHECK_EQ(first->n_refs, 3); /* these two and the cache */
	cursor_close(a);
	CHECK_EQ(first->n_refs, 2); /* one subscriber has no use for a cache */
	cursor_close(b);
}

/* --- heartbeats --- */

TEST(heartbeats_come_while_somebody_listens)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);

	m.options.heartbeat_ms = BEAT_MS;
	sample_open(&m);
	sample_idle(&m, 3 * BEAT_MS);
	CHECK_EQ(stream_last_seq(m.stream), 0);
	struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	for (int i = 0; i < 20 && view.n_heartbeats < 3; i++) {
		sample_idle(&m, BEAT_MS / 2);
		sample_pull(&view, c);
	}
	CHECK_EQ(view.n_heartbeats, 3);
	cursor_close(c);
	uint64_t last = stream_last_seq(m.stream);
	sample_idle(&m, 3 * BEAT_MS);
	CHECK_EQ(stream_last_seq(m.stream), last);
}

TEST(a_replay_leaves_old_heartbeats_out)
{
	SAMPLE(m);
	SAMPLE_VIEW(view);
	SAMPLE_VIEW(ended);

	m.options.heartbeat_ms = BEAT_MS;
	sample_open(&m);
	struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	sample_wait(&m, 2);
	cursor_close(c);
	add_events(&m, 1);
	uint64_t last = stream_last_seq(m.stream);
	sample_idle(&m, 2 * BEAT_MS);
	view.allows_gaps = ended.allows_gaps = true;
	sample_replay(&m, &view);
	CHECK_EQ(view.n_heartbeats, 0);
	CHECK_EQ(view.n_frames, 1);
	CHECK_EQ(view.last_seq, last);
	sample_close(&m);
	sample_open_ended(&m);
	sample_replay(&m, &ended);
	CHECK_EQ(ended.n_heartbeats, 0);
	CHECK_EQ(ended.last_seq, last);
}

TEST(there_are_none_after_the_end)
{
	SAMPLE(m);

	m.options.heartbeat_ms = BEAT_MS;
	sample_open(&m);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	stream_end(m.stream);
	sample_idle(&m, 3 * BEAT_MS);
	CHECK_EQ(stream_last_seq(m.stream), 0);
	CHECK(cursor_next(c) == NULL && cursor_is_done(c));
}

/* --- what retention removed --- */

/* The stream as it is after its first frames were removed: the index begins with seq 5, and
 * the spool keeps its offsets. */
static void write_trimmed(struct sample *m)
{
	static const uint8_t head[] = "BJINDEX1\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
				      "\x58\x7f\x15\xb7\x34\xd7\xc4\x5a";
	struct index x = { .fd = -1, .first_seq = 5, .is_old = true };
	struct index_record records[] = {
		{ .kind = FRAME_STDOUT, .flags = INDEX_IS_TEXT, .size = 3, .offset = 4 },
		{ .kind = FRAME_STDOUT, .flags = INDEX_IS_TEXT, .size = 3, .offset = 7 },
	};

	scratch_write(m->dir.fd, "stdout", "goneabcdef");
	x.fd = openat(m->dir.fd, "index", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(fd_write_full(x.fd, head, INDEX_RECORD_SIZE), 0);
	CHECK_EQ(index_write(&x, 5, records, ARRAY_SIZE(records)), 0);
	index_fini(&x);
}

#define RESUME(wanted, lost)                                                                       \
	"{\"type\":\"event\",\"event\":\"resume\",\"data\":{\"requested_from_seq\":" wanted        \
	",\"delivered_from_seq\":5,\"lost_count\":" lost "},\"seq\":5}"
#define FRAME_5 "{\"type\":\"stdout\",\"encoding\":\"utf8\",\"data\":\"abc\",\"seq\":5}"
#define FRAME_6 "{\"type\":\"stdout\",\"encoding\":\"utf8\",\"data\":\"def\",\"seq\":6}"

struct trimmed {
	uint64_t from_seq;
	const char *texts[3];
};

static void check_cases(struct sample *m, const struct trimmed *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cursor *c = cursor_open(m->stream, cases[i].from_seq, NULL, NULL);

		for (size_t k = 0; k < 3 && cases[i].texts[k]; k++)
			CHECK_NEXT(c, cases[i].texts[k]);
		CHECK(cursor_next(c) == NULL);
		CHECK_EQ(cursor_is_done(c), stream_has_ended(m->stream));
		cursor_close(c);
	}
}

static void check_trimmed(struct sample *m)
{
	static const struct trimmed cases[] = {
		{ 0, { FRAME_5, FRAME_6 } },
		{ 1, { RESUME("1", "4"), FRAME_5, FRAME_6 } },
		{ 4, { RESUME("4", "1"), FRAME_5, FRAME_6 } },
		{ 5, { FRAME_5, FRAME_6 } },
		{ 6, { FRAME_6 } },
		{ STREAM_TAIL, { 0 } },
	};

	check_cases(m, cases, ARRAY_SIZE(cases));
}

/* What is not there yet may come; of an ended stream it will not, and nothing is. */
static void check_beyond(struct sample *m)
{
	static const struct trimmed cases[] = { { 7, { 0 } }, { 9, { 0 } } };

	check_cases(m, cases, ARRAY_SIZE(cases));
}

TEST(who_asks_for_what_was_removed_is_told)
{
	SAMPLE(m);
	AUTO_FREE char *text = NULL;
	size_t size;
	uint64_t total;

	write_trimmed(&m);
	sample_open_ended(&m);
	check_trimmed(&m);
	check_beyond(&m);
	sample_close(&m);
	sample_open(&m);
	check_trimmed(&m);
	check_beyond(&m);
	CHECK_EQ(stream_log_bytes(m.stream), 6);
	CHECK_EQ(stream_read_output(m.stream, FRAME_STDOUT, 100, &text, &size, &total), 0);
	CHECK_STR(text, "abcdef");
	CHECK_EQ(stream_event(m.stream, "more", "{}"), 7);
}

TEST(who_waits_for_what_never_comes_gets_the_end)
{
	SAMPLE(m);

	sample_open(&m);
	add_events(&m, 1);
	struct cursor *next = cursor_open(m.stream, 2, NULL, NULL);
	struct cursor *never = cursor_open(m.stream, 7, NULL, NULL);
	CHECK(cursor_next(next) == NULL && cursor_next(never) == NULL);
	CHECK_EQ(stream_event(m.stream, "end", "{}"), 2);
	stream_end(m.stream);
	sample_idle(&m, 1);
	CHECK_NEXT(next, "{\"type\":\"event\",\"event\":\"end\",\"data\":{},\"seq\":2}");
	CHECK_NEXT(never, "{\"type\":\"event\",\"event\":\"end\",\"data\":{},\"seq\":2}");
	CHECK(cursor_next(next) == NULL && cursor_next(never) == NULL);
	CHECK(cursor_is_done(next) && cursor_is_done(never));
	cursor_close(next);
	cursor_close(never);
}

/* --- damage while it is open --- */

TEST(a_file_that_shrinks_ends_the_cursor_and_nothing_else)
{
	SAMPLE(m);

	sample_start(&m);
	sample_write(&m, 0, "hello", 5);
	sample_drain(&m);
	AUTO_FD fd = openat(m.dir.fd, "stdout", O_WRONLY | O_CLOEXEC);
	CHECK_EQ(ftruncate(fd, 2), 0);
	CLEANUP(cursor_closep) struct cursor *c = cursor_open(m.stream, 0, NULL, NULL);
	CHECK(cursor_next(c) == NULL && cursor_is_done(c));
	CHECK(stream_event(m.stream, "more", "{}") > 0);
}

TESTS(UNIT(frames_can_be_had_as_they_are_kept), UNIT(a_cursor_begins_where_it_was_told),
	UNIT(who_has_not_asked_is_not_woken), UNIT(the_end_wakes_and_is_the_end),
	UNIT(a_callback_may_close_any_cursor), UNIT(all_cursors_see_the_same_however_far_behind),
	UNIT(those_at_the_tail_share_one_message), UNIT(heartbeats_come_while_somebody_listens),
	UNIT(a_replay_leaves_old_heartbeats_out), UNIT(there_are_none_after_the_end),
	UNIT(who_asks_for_what_was_removed_is_told),
	UNIT(who_waits_for_what_never_comes_gets_the_end),
	UNIT(a_file_that_shrinks_ends_the_cursor_and_nothing_else))
