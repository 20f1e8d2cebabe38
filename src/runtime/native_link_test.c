#include "runtime/native_sample.h"

/* The keeper died, and another one answers. */
TEST(another_keeper_has_none_of_the_jobs)
{
	struct stage s;
	struct heard a, b, over;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	CHECK_EQ(start(&s, RUN_B, &b), 0);
	a.releases = true;
	CHECK_EQ(start(&s, RUN_C, &over), 0);
	say_ended(&s, RUN_C);
	UNTIL(&s, streq(over.words, "E"));
	close_fdp(&s.fd);
	UNTIL(&s, s.n_down == 1);
	CHECK(!runtime_native.is_up(s.host));
	CHECK_STR(b.words, ""); /* it is not yet known which keeper comes back */
	struct heard c;
	CHECK_EQ(start(&s, RUN_A, &c), -EAGAIN);
	s.instance = "8899aabbccddeeff";
	greet(&s, NULL, NULL);
	CHECK_STR(a.words, "L");
	CHECK_STR(b.words, "L");
	CHECK_STR(over.words, "E"); /* it is told nothing more */
	runtime_native.cancel(b.job);
	runtime_native.release(b.job);
	CHECK(is_silent(&s)); /* the new one never heard of it */
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	runtime_native.release(over.job);
	expect_id(&s, MESSAGE_ACK, RUN_C);
	stage_remove(&s);
}

/* Only the connection broke: what runs goes on, what was said meanwhile is said again. */
TEST(the_same_keeper_still_has_the_jobs)
{
	struct stage s;
	struct heard a, b;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	say_running(&s, RUN_A);
	UNTIL(&s, streq(a.words, "sr"));
	CHECK_EQ(start(&s, RUN_B, &b), 0); /* which it does not read any more */
	close_fdp(&s.fd);
	UNTIL(&s, s.n_down == 1);
	runtime_native.cancel(a.job);
	greet(&s, RUN_A, NULL);
	expect_id(&s, MESSAGE_ATTACH, RUN_B);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	say_refused(&s, RUN_B, ENOENT, REASON_INFRASTRUCTURE_ERROR);
	say_started(&s, RUN_A, 0, NULL, 0);
	expect_id(&s, MESSAGE_CANCEL, RUN_A);
	say_running(&s, RUN_A);
	say_ended(&s, RUN_A);
	UNTIL(&s, streq(b.words, "R"));
	UNTIL(&s, a.words[strlen(a.words) - 1] == 'E');
	CHECK(strchr(a.words, 's') == strrchr(a.words, 's')); /* started once */
	CHECK(strchr(a.words, 'L') == NULL);
	stage_remove(&s);
}

/* Else an execution would wait in a frozen box until its time is over. */
TEST(a_box_that_was_to_be_thawed_meanwhile_is_thawed)
{
	struct stage s;
	struct heard a;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &a), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	runtime_native.freeze(a.job);
	expect_id(&s, MESSAGE_FREEZE, RUN_A);
	close_fdp(&s.fd);
	UNTIL(&s, s.n_down == 1);
	runtime_native.thaw(a.job);
	greet(&s, RUN_A, NULL);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	say_started(&s, RUN_A, 0, NULL, 0);
	expect_id(&s, MESSAGE_THAW, RUN_A);
	stage_remove(&s);
}

/* Each is answered with several messages, and a keeper hangs up on who does not read them. */
TEST(a_few_runs_are_attached_at_a_time)
{
	struct stage s;
	struct heard h[40] = { 0 };
	char asked[40][RUN_ID_SIZE + 1];
	char id[RUN_ID_SIZE + 1];

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (unsigned i = 0; i < 40; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		CHECK_EQ(runtime_native.adopt(s.host, id, &events, &h[i], &h[i].job), 0);
	}
	for (unsigned i = 0; i < 16; i++)
		expect(&s, MESSAGE_ATTACH, asked[i], sizeof(asked[i]));
	CHECK(is_silent(&s));
	for (unsigned i = 0; i < 40; i++) {
		say_started(&s, asked[i], 0, NULL, 0);
		if (i + 16 < 40)
			expect(&s, MESSAGE_ATTACH, asked[i + 16], sizeof(asked[i]));
	}
	for (unsigned i = 0; i < 40; i++)
		UNTIL(&s, streq(h[i].words, "s"));
	stage_remove(&s);
}

/* A predecessor asked for it, died, and was heard after we had asked what there is. */
TEST(a_start_of_what_is_there_already_attaches)
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	expect_id(&s, MESSAGE_START, RUN_A);
	say_refused(&s, RUN_A, EEXIST, REASON_INFRASTRUCTURE_ERROR);
	expect_id(&s, MESSAGE_ATTACH, RUN_A);
	CHECK_STR(h.words, "");
	say_started(&s, RUN_A, 0, NULL, 0);
	UNTIL(&s, streq(h.words, "s"));
	stage_remove(&s);
}

TEST(a_keeper_that_comes_later_is_found)
{
	struct stage s;

	stage_make(&s);
	for (int i = 0; i < 300; i++)
		turn(&s);
	listen_at(&s);
	take_connection(&s);
	close_fdp(&s.fd); /* and one that hangs up before it has said anything */
	greet(&s, NULL, NULL);
	CHECK_EQ(s.n_down, 0);
	stage_remove(&s);
}

/* --- nonsense --- */

static void send_nothing(struct stage *s, uint32_t type)
{
	struct put p;

	put_init(&p, 16);
	send_put(s, type, &p);
}

static void unknown_type(struct stage *s)
{
	send_nothing(s, 99);
}

static void a_clients_word(struct stage *s)
{
	say_id(s, MESSAGE_ACK, RUN_A);
}

static void welcome_twice(struct stage *s)
{
	send_welcome(s, INSTANCE);
}

static void list_twice(struct stage *s)
{
	send_ids(s, MESSAGE_RUNS, RUN_A);
}

static void workspaces_twice(struct stage *s)
{
	send_ids(s, MESSAGE_WORKSPACES, NULL);
}

static void short_result(struct stage *s)
{
	say_id(s, MESSAGE_ENDED, RUN_A);
}

static void long_id(struct stage *s)
{
	say_running(s, RUN_A RUN_B);
}

static void unknown_reason(struct stage *s)
{
	say_refused(s, RUN_A, 5, REASON_COUNT);
}

static void impossible_error(struct stage *s)
{
	say_refused(s, RUN_A, 0x80000000u, REASON_PROVISION_FAILED);
}

static void bytes_left_over(struct stage *s)
{
	struct put p;

	put_init(&p, 100);
	put_str(&p, RUN_A);
	put_u64(&p, 1);
	put_u8(&p, 1);
	send_put(s, MESSAGE_RUNNING, &p);
}

static void another_version(struct stage *s)
{
	uint32_t header[2] = { 0xffffffff, MESSAGE_RUNNING };

	CHECK_EQ(send(s->fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
}

static void an_empty_message(struct stage *s)
{
	(void)send(s->fd, "x", 1, MSG_NOSIGNAL);
}

static void check_connection_dropped_by(void (*say_nonsense)(struct stage *s))
{
	struct stage s;
	struct heard h;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	CHECK_EQ(start(&s, RUN_A, &h), 0);
	say_nonsense(&s);
	UNTIL(&s, s.n_down == 1);
	CHECK_STR(h.words, "");
	stage_remove(&s);
}

TEST(nonsense_drops_the_connection)
{
	static void (*const cases[])(struct stage * s) = { unknown_type, a_clients_word,
		welcome_twice, list_twice, workspaces_twice, short_result, long_id, unknown_reason,
		impossible_error, bytes_left_over, another_version, an_empty_message };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_connection_dropped_by(cases[i]);
}

TEST(too_many_runs_are_nonsense)
{
	struct stage s;
	struct put p;

	stage_make(&s);
	listen_at(&s);
	take_connection(&s);
	expect(&s, MESSAGE_HELLO, NULL, 0);
	send_welcome(&s, INSTANCE);
	put_init(&p, 16);
	put_u32(&p, 0xffffffff);
	send_put(&s, MESSAGE_RUNS, &p);
	close_fdp(&s.fd);
	take_connection(&s); /* it tries again */
	CHECK_EQ(s.n_up, 0);
	stage_remove(&s);
}

/* --- a keeper that does not read --- */

TEST(messages_wait_in_order_for_a_keeper_that_does_not_read)
{
	struct stage s;
	char id[RUN_ID_SIZE + 1];
	enum { N = 3000 };

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		runtime_native.drop_workspace(s.host, id);
	}
	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(id, sizeof(id), "%032x", i);
		expect_id(&s, MESSAGE_DROP_WORKSPACE, id);
	}
	CHECK_EQ(s.n_down, 0);
	stage_remove(&s);
}

TEST(a_start_is_refused_when_too_much_waits)
{
	struct stage s;
	struct heard h;
	int r = 0;
	unsigned n = 0;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	for (; r == 0 && n < 20000; n++) {
		r = start(&s, RUN_A, &h);
		if (r == 0)
			runtime_native.release(h.job); /* also a message */
	}
	CHECK_EQ(r, -EAGAIN);
	CHECK(n > 1000);
	stage_remove(&s); /* with all of them waiting */
}

TEST(it_may_be_closed_while_it_greets)
{
	struct stage s;

	stage_make(&s);
	listen_at(&s);
	take_connection(&s);
	stage_remove(&s);
}

/* --- a keeper that does not answer --- */

/* It is stopped, say: nothing breaks, and it goes on. */
TEST(a_keeper_that_stands_still_is_noticed)
{
	struct stage s;
	struct frame f;

	stage_make(&s);
	listen_at(&s);
	greet(&s, NULL, NULL);
	s.is_mute = true;
	UNTIL(&s, s.n_silent == 1);
	CHECK(runtime_native.is_up(s.host)); /* so early nothing is refused */
	CHECK_EQ(s.n_heard, 0);
	say_pong(&s, 0, 0, "");
	UNTIL(&s, s.n_heard == 1);
	CHECK(s.heard_ms >= 2000);
	CHECK_STR(s.heard_step, "unknown: it was stopped, or got no processor");
	CHECK_EQ(s.n_down, 0);
	/* What it was at, if it knows; also when we did not wait for it. */
	UNTIL(&s, frame_recv(s.fd, s.buffer, &f) == 1 && f.type == MESSAGE_PING);
	say_pong(&s, 1, 2100, "drop_workspace");
	UNTIL(&s, s.n_heard == 2);
	CHECK_EQ(s.heard_ms, 2100);
	CHECK_STR(s.heard_step, "drop_workspace");
	CHECK_EQ(s.n_silent, 1);
	stage_remove(&s);
}

TEST(a_keeper_that_ends_while_it_is_silent_is_so_no_longer)
{
	struct stage s;

	stage_make(&s);
	listen_at(&s);
	take_connection(&s); /* it does not even greet */
	UNTIL(&s, s.n_silent == 1);
	close_fdp(&s.fd);
	UNTIL(&s, s.n_heard == 1);
	CHECK_EQ(s.n_down, 0); /* it never was up */
	stage_remove(&s);
}

TESTS(UNIT(another_keeper_has_none_of_the_jobs), UNIT(the_same_keeper_still_has_the_jobs),
	UNIT(a_box_that_was_to_be_thawed_meanwhile_is_thawed),
	UNIT(a_few_runs_are_attached_at_a_time), UNIT(a_start_of_what_is_there_already_attaches),
	UNIT(a_keeper_that_comes_later_is_found), UNIT(nonsense_drops_the_connection),
	UNIT(too_many_runs_are_nonsense),
	UNIT(messages_wait_in_order_for_a_keeper_that_does_not_read),
	UNIT(a_start_is_refused_when_too_much_waits), UNIT(it_may_be_closed_while_it_greets),
	UNIT(a_keeper_that_stands_still_is_noticed),
	UNIT(a_keeper_that_ends_while_it_is_silent_is_so_no_longer))
