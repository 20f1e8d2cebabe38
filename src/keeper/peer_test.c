#include <errno.h>

#include "keeper/sample.h"
#include "lib/test.h"

static uint8_t buffer[FRAME_SIZE_MAX];

static void sample_closep(struct sample *s)
{
	sample_close(s);
}

#define SAMPLE(name)                                                                               \
	CLEANUP(sample_closep) struct sample name;                                                 \
	sample_open(&name, 1000)

TEST(a_client_that_hangs_up_is_forgotten)
{
	SAMPLE(s);

	CHECK_EQ(s.k.n_peers, 1);
	close_fdp(&s.client_fd);
	sample_turn(&s, 0);
	CHECK_EQ(s.k.n_peers, 0);
	CHECK(s.k.peers == NULL && s.k.dead_peers == NULL);
}

TEST(a_client_that_sends_no_message_is_dropped)
{
	SAMPLE(s);
	struct frame f;

	CHECK_EQ(send(s.client_fd, "hello", 5, 0), 5);
	sample_turn(&s, 0);
	CHECK_EQ(s.k.n_peers, 0);
	CHECK_EQ(frame_recv(s.client_fd, buffer, &f), 0);
}

TEST(a_client_that_does_not_read_is_dropped_and_nobody_waits)
{
	SAMPLE(s);
	AUTO_FD other = sample_connect(&s, 1000);
	struct peer *p = s.peer;

	for (int i = 0; i < 100000 && !p->closed; i++)
		peer_send(&s.k, p, MESSAGE_RUNNING, NULL, NULL, 0);
	CHECK(p->closed);
	CHECK_EQ(s.k.n_peers, 1);
	peer_send(&s.k, p, MESSAGE_RUNNING, NULL, NULL, 0); /* allowed, and does nothing */
	peer_close(&s.k, p);
	CHECK_EQ(s.k.n_peers, 1);
}

static struct ward *add_run(struct sample *s, bool lingers)
{
	char id[RUN_ID_SIZE + 1];

	spec_make_id(id);
	struct ward *r = sample_run(s, id, RUN_ENDED);
	r->lingers = lingers;
	r->peer = s->peer;
	return r;
}

TEST(runs_that_do_not_linger_go_with_their_client)
{
	SAMPLE(s);
	struct ward *stays = add_run(&s, true);

	for (int i = 0; i < 5; i++)
		(void)add_run(&s, false);
	CHECK_EQ(s.k.n_runs, 6);
	close_fdp(&s.client_fd);
	sample_turn(&s, 0);
	CHECK_EQ(s.k.n_runs, 1);
	CHECK(s.k.runs == stays && !stays->peer);
}

TESTS(UNIT(a_client_that_hangs_up_is_forgotten), UNIT(a_client_that_sends_no_message_is_dropped),
	UNIT(a_client_that_does_not_read_is_dropped_and_nobody_waits),
	UNIT(runs_that_do_not_linger_go_with_their_client))
