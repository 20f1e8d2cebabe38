#include "ipc/frame.h"
#include "ipc/message.h"
#include "keeper/boxes.h"
#include "keeper/sample.h"
#include "lib/test.h"

/* How many boxes the next message says that wait; -1 if there is none. */
static int64_t hear_waiting(struct sample *s)
{
	struct frame f;
	struct cur c;
	struct warm_state state;

	if (frame_recv(s->client_fd, s->k.buffer, &f) != 1)
		return -1;
	CHECK_EQ(f.type, MESSAGE_WARMTH);
	cur_init(&c, f.data, f.size);
	warm_state_get(&state, &c);
	CHECK_EQ(cur_end(&c), 0);
	return (int64_t)state.boxes.waiting;
}

/* The first is told at once; those that follow, together, when it is time. */
TEST(what_changes_often_is_told_now_and_then)
{
	struct sample s;

	sample_open(&s, 0);
	s.peer->hears_warmth = true;
	s.k.ready.tally[STOCK_HOST].waiting = 1;
	CHECK_EQ(boxes_news_ms(&s.k), 0);
	boxes_tell(&s.k);
	CHECK_EQ(hear_waiting(&s), 1);
	CHECK_EQ(boxes_news_ms(&s.k), -1);
	s.k.ready.tally[STOCK_HOST].waiting = 2;
	CHECK(boxes_news_ms(&s.k) > 0);
	boxes_tell(&s.k);
	s.k.ready.tally[STOCK_HOST].waiting = 3;
	boxes_tell(&s.k);
	CHECK_EQ(hear_waiting(&s), -1);
	s.k.told_ns -= UINT64_C(1000000000);
	CHECK_EQ(boxes_news_ms(&s.k), 0);
	boxes_tell(&s.k);
	CHECK_EQ(hear_waiting(&s), 3);
	CHECK_EQ(hear_waiting(&s), -1);
	s.k.ready.tally[STOCK_HOST].waiting = 0;
	sample_close(&s);
}

TEST(who_did_not_ask_is_not_told)
{
	struct sample s;

	sample_open(&s, 0);
	s.k.ready.tally[STOCK_HOST].waiting = 1;
	boxes_tell(&s.k);
	CHECK_EQ(hear_waiting(&s), -1);
	s.k.ready.tally[STOCK_HOST].waiting = 0;
	sample_close(&s);
}

TESTS(UNIT(what_changes_often_is_told_now_and_then), UNIT(who_did_not_ask_is_not_told))
