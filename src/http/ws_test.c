/* WebSockets over real connections. */
#include <stdatomic.h>

#include "base/shared.h"
#include "base/str.h"
#include "http/sample.h"
#include "lib/test.h"

#define QUEUE_MAX 64u

/* Says back what it hears, and whatever everybody is told. */
struct echo {
	struct ws *ws;
	struct shared *queue[QUEUE_MAX];
	size_t n;
	struct echo *next;
};

static struct echo *all;
static atomic_int n_closed;
static atomic_int n_live;

static struct shared *on_next(void *ctx)
{
	struct echo *e = ctx;

	if (e->n == 0)
		return NULL;
	struct shared *m = e->queue[0];
	memmove(e->queue, e->queue + 1, --e->n * sizeof(m));
	return m;
}

static void push(struct echo *e, struct shared *m)
{
	if (e->n < QUEUE_MAX)
		e->queue[e->n++] = m;
	else
		shared_unref(m);
	ws_want_write(e->ws);
}

static void on_message(void *ctx, const char *data, size_t size, bool is_text)
{
	struct echo *e = ctx;

	if (size == 3 && memcmp(data, "bye", 3) == 0) {
		ws_close(e->ws, 4001, "as you wish");
		return;
	}
	struct shared *m = shared_new(size + 1);
	shared_data(m)[0] = is_text ? 't' : 'b';
	memcpy(shared_data(m) + 1, data, size);
	push(e, m);
}

static void on_closed(void *ctx)
{
	struct echo *e = ctx;

	for (struct echo **at = &all; *at; at = &(*at)->next) {
		if (*at == e) {
			*at = e->next;
			break;
		}
	}
	while (e->n > 0)
		shared_unref(e->queue[--e->n]);
	free(e);
	n_closed++;
	n_live--;
}

static const struct ws_ops ops = { .next = on_next, .message = on_message, .closed = on_closed };

#define LARGE_MAX (3u * WS_MESSAGE_MAX)
#define HUGE_MAX  (WS_HELD_MAX / 8)

static void handle_ws(struct exchange *x)
{
	struct echo *e = xnew(struct echo);
	bool is_large = exchange_query(x, "large");
	bool is_huge = exchange_query(x, "huge");

	if (exchange_query(x, "protocol"))
		exchange_set_header(x, "Sec-WebSocket-Protocol", exchange_query(x, "protocol"));
	e->next = all;
	all = e;
	e->ws = exchange_accept_ws(x, &ops, e);
	if (is_large)
		ws_set_message_max(e->ws, LARGE_MAX);
	if (is_huge)
		ws_set_message_max(e->ws, HUGE_MAX);
	n_live++;
}

static void handle_refuse(struct exchange *x)
{
	exchange_reply_json(x, 429, json_pack("{s:s}", "error", "too many"));
}

static struct exchange *undecided;
static atomic_int n_undecided;

static void handle_later(struct exchange *x)
{
	undecided = x;
	n_undecided++;
}

static const struct route routes[] = {
	{ .method = "WS", .pattern = "/later", .handle = handle_later },
	{ .method = "WS", .pattern = "/ws", .handle = handle_ws },
	{ .method = "WS", .pattern = "/refuse", .handle = handle_refuse },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

TEST(messages_go_both_ways)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect_ws(&s, "/ws");

	client_send_text(fd, "hello");
	client_expect_text(fd, "thello");
	client_send_text(fd, "");
	client_expect_text(fd, "t");
	client_send_frame(fd, 0x82, "\xff", 1);
	client_expect_text(fd, "b\xff");
	for (int i = 0; i < 50; i++)
		client_send_text(fd, "quick");
	for (int i = 0; i < 50; i++)
		client_expect_text(fd, "tquick");
}

TEST(fragments_are_joined_and_pings_answered_between)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect_ws(&s, "/ws");
	unsigned opcode = 0;
	size_t size = 0;

	client_send_frame(fd, 0x01, "one ", 4);
	client_send_frame(fd, 0x89, "ping!", 5);
	client_send_frame(fd, 0x00, "two \xc3", 5); /* half a character */
	client_send_frame(fd, 0x80, "\xa9", 1);
	AUTO_FREE char *pong = client_read_frame(fd, &opcode, &size);
	CHECK_EQ(opcode, FRAME_PONG);
	CHECK_STR(pong, "ping!");
	client_expect_text(fd, "tone two \xc3\xa9");
}

/* One of `max` bytes is echoed, and a byte more is too much. */
static void check_largest(int fd, const char *data, size_t max)
{
	unsigned opcode = 0;
	size_t size = 0;

	client_send_frame(fd, 0x81, data, max);
	free(client_read_frame(fd, &opcode, &size));
	CHECK_EQ(size, max + 1);
	client_send_frame(fd, 0x81, data, max + 1);
	client_expect_close(fd, 1009, NULL);
}

static char *many(size_t size)
{
	char *data = xcalloc(1, size);

	memset(data, 'x', size);
	return data;
}

TEST(the_largest_message_fits_and_no_larger)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect_ws(&s, "/ws");
	AUTO_FD in_parts = client_connect_ws(&s, "/ws");
	AUTO_FREE char *data = many(WS_MESSAGE_MAX + 1);

	check_largest(fd, data, WS_MESSAGE_MAX);
	client_send_frame(in_parts, 0x01, data, WS_MESSAGE_MAX);
	client_send_frame(in_parts, 0x80, data, 1);
	client_expect_close(in_parts, 1009, NULL);
}

TEST(a_door_may_take_larger_ones)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect_ws(&s, "/ws?large=1");
	AUTO_FREE char *data = many(LARGE_MAX + 1);

	check_largest(fd, data, LARGE_MAX);
}

/* The end of a message of HUGE_MAX bytes, all but one of which came before. */
static void check_rest(int fd)
{
	unsigned opcode = 0;
	size_t size = 0;

	client_send_frame(fd, 0x80, "x", 1);
	free(client_read_frame(fd, &opcode, &size));
	CHECK_EQ(size, HUGE_MAX + 1);
}

/* All of a message of HUGE_MAX bytes but the last. */
static void send_most(int fd, const char *data)
{
	client_send_frame(fd, 0x01, data, HUGE_MAX - 1);
	client_send_frame(fd, 0x89, "", 0);
	free(client_read_frame(fd, &(unsigned){ 0 }, &(size_t){ 0 })); /* it is there */
}

/* Whoever has been at it for longest is told, and whoever has a small one is not concerned. */
TEST(unfinished_messages_have_a_limit_together)
{
	SAMPLE(s, .routes = tables);
	AUTO_FREE char *data = many(HUGE_MAX);
	AUTO_FD small = client_connect_ws(&s, "/ws");
	int fds[WS_HELD_MAX / HUGE_MAX + 2];

	client_send_frame(small, 0x01, data, WS_MESSAGE_MAX - 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client_connect_ws(&s, "/ws?huge=1");
		send_most(fds[i], data);
		(void)usleep(2000); /* so that there is an order */
	}
	for (size_t i = 0; i < 2; i++) {
		client_expect_close(fds[i], 1013, "the message took too long");
		(void)close(fds[i]);
	}
	for (size_t i = 2; i < ARRAY_SIZE(fds); i++)
		check_rest(fds[i]);
	client_send_frame(small, 0x80, "x", 1);
	free(client_read_frame(small, &(unsigned){ 0 }, &(size_t){ 0 }));
	/* The places of those that are whole are free again, and so are those of who left. */
	for (size_t i = 2; i < ARRAY_SIZE(fds); i++)
		send_most(fds[i], data);
	(void)close(fds[2]);
	for (int i = 0; i < 5000 && n_live > (int)ARRAY_SIZE(fds) - 2; i++)
		(void)usleep(1000);
	fds[2] = client_connect_ws(&s, "/ws?huge=1");
	send_most(fds[2], data);
	for (size_t i = 2; i < ARRAY_SIZE(fds); i++) {
		check_rest(fds[i]);
		(void)close(fds[i]);
	}
}

TEST(who_breaks_the_rules_is_told)
{
	SAMPLE(s, .routes = tables);
	static const struct {
		unsigned char first;
		const char *data;
		unsigned code;
	} cases[] = {
		{ 0x81, "\xff", 1007 },
		{ 0x80, "x", 1002 },
		{ 0xc1, "x", 1002 },
		{ 0x83, "x", 1002 },
		{ 0x88, "\x03\xe7", 1002 }, /* closes with 999 */
		{ 0x88, "x", 1002 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FD fd = client_connect_ws(&s, "/ws");
		client_send_frame(fd, cases[i].first, cases[i].data, strlen(cases[i].data));
		client_expect_close(fd, cases[i].code, NULL);
	}
	AUTO_FD bare = client_connect_ws(&s, "/ws");
	client_send(bare, "\x81\x01x"); /* no mask */
	client_expect_close(bare, 1002, NULL);
}

TEST(either_side_may_close)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD a = client_connect_ws(&s, "/ws");
	AUTO_FD b = client_connect_ws(&s, "/ws");

	n_closed = 0;
	client_send_frame(a, 0x88, "\x03\xe8 done", 7);
	client_expect_close(a, 1000, "");
	CHECK(client_is_closed(a));
	client_send_text(b, "last");
	client_send_text(b, "bye");
	client_expect_text(b, "tlast");
	client_expect_close(b, 4001, "as you wish");
	client_send_frame(b, 0x88, "\x0f\xa1", 2);
	CHECK(client_is_closed(b));
	for (int i = 0; i < 1000 && n_closed < 2; i++)
		(void)usleep(1000); /* the client hears of it first */
	CHECK_EQ(n_closed, 2);
}

TEST(a_handler_may_refuse)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "GET /refuse HTTP/1.1\r\n" CLIENT_UPGRADE);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 429);
	CHECK_STR(r.body, "{\"error\":\"too many\"}");
	/* It is an ordinary connection still. */
	client_send(fd, "GET /ws?protocol=bell HTTP/1.1\r\n" CLIENT_UPGRADE);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 101);
	CHECK(strstr(r.head, "Sec-WebSocket-Protocol: bell\r\n"));
	client_send_text(fd, "x");
	client_expect_text(fd, "tx");
}

TEST(a_handshake_is_checked)
{
	SAMPLE(s, .routes = tables);
	RESPONSE(r);

	client_ask(&s,
		"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		&r);
	CHECK_EQ(r.status, 426);
	CHECK(strstr(r.head, "Sec-WebSocket-Version: 13\r\n"));
	client_ask(&s,
		"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
		&r);
	CHECK_EQ(r.status, 400);
	client_ask(&s, "GET /ws HTTP/1.1\r\nHost: x\r\n\r\n", &r);
	CHECK_EQ(r.status, 426);
}

TEST(the_first_message_may_come_with_the_handshake)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "GET /ws HTTP/1.1\r\n" CLIENT_UPGRADE
			"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
	client_read_response(fd, true, &r);
	client_expect_text(fd, "tHello");
}

static void accept_undecided(struct sample *s)
{
	(void)s;
	if (exchange_is_gone(undecided))
		handle_refuse(undecided);
	else
		handle_ws(undecided);
}

static void refuse_undecided(struct sample *s)
{
	(void)s;
	handle_refuse(undecided);
}

static int ask_later(struct sample *s, const char *first)
{
	int fd = client_connect(s);

	n_undecided = 0;
	client_send(fd, "GET /later HTTP/1.1\r\n" CLIENT_UPGRADE);
	client_send(fd, first);
	while (n_undecided == 0)
		(void)usleep(1000);
	return fd;
}

/* What the client said meanwhile is not lost. */
TEST(a_handler_may_decide_later)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = ask_later(&s, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
	RESPONSE(accepted);
	RESPONSE(refused);

	sample_call(&s, accept_undecided);
	client_read_response(fd, true, &accepted);
	CHECK_EQ(accepted.status, 101);
	client_expect_text(fd, "tHello");
	client_send_text(fd, "more");
	client_expect_text(fd, "tmore");
	AUTO_FD other = ask_later(&s, "");
	sample_call(&s, refuse_undecided);
	client_read_response(other, true, &refused);
	CHECK_EQ(refused.status, 429);
}

static atomic_bool is_gone;

static void look_for_client(struct sample *s)
{
	(void)s;
	is_gone = exchange_is_gone(undecided);
}

TEST(who_does_not_wait_for_a_decision_is_refused)
{
	SAMPLE(s, .routes = tables);
	int fd = ask_later(&s, "");
	int before = n_live;

	(void)close(fd);
	do
		sample_call(&s, look_for_client);
	while (!is_gone);
	sample_call(&s, accept_undecided);
	CHECK_EQ(n_live, before);
}

#define LARGE 200000u

static struct shared *told; /* what everybody was told last */

static void tell_all(struct sample *s)
{
	(void)s;
	told = shared_new(LARGE);
	memset(shared_data(told), 'y', LARGE);
	for (struct echo *e = all; e; e = e->next)
		push(e, shared_ref(told));
	shared_unref(told);
}

TEST(a_message_is_shared_and_a_stuck_reader_hurts_nobody)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD stuck = client_connect_ws(&s, "/ws");
	AUTO_FD good = client_connect_ws(&s, "/ws");
	AUTO_FREE char *want = malloc(LARGE);

	memset(want, 'y', LARGE);
	for (int i = 0; i < 40; i++) {
		unsigned opcode = 0;
		size_t size = 0;

		sample_call(&s, tell_all);
		AUTO_FREE char *data = client_read_frame(good, &opcode, &size);
		CHECK_EQ(size, LARGE);
		CHECK_MEM(data, want, LARGE);
	}
	/* And it gets everything in the end. */
	for (int i = 0; i < 40; i++) {
		unsigned opcode = 0;
		size_t size = 0;
		AUTO_FREE char *data = client_read_frame(stuck, &opcode, &size);
		CHECK_EQ(size, LARGE);
		CHECK_MEM(data, want, LARGE);
	}
}

TEST(who_is_silent_is_pinged_and_then_dropped)
{
	/* Half of it is the time a pong has, also on a machine that stands still now and then. */
	SAMPLE(s, .routes = tables, .idle_sec = 8);
	AUTO_FD fd = client_connect_ws(&s, "/ws");
	unsigned opcode = 0;
	size_t size = 0;

	free(client_read_frame(fd, &opcode, &size));
	CHECK_EQ(opcode, FRAME_PING);
	client_send_frame(fd, 0x8a, "", 0);
	free(client_read_frame(fd, &opcode, &size));
	CHECK_EQ(opcode, FRAME_PING);
	CHECK(client_is_closed(fd));
}

TEST(closing_the_server_is_told)
{
	AUTO_FD fd = -1;

	{
		SAMPLE(s, .routes = tables);
		fd = client_connect_ws(&s, "/ws");
	}
	client_expect_close(fd, 1012, "service restart");
	CHECK(client_is_closed(fd));
	CHECK_EQ(n_live, 0);
}

TESTS(UNIT(a_handler_may_decide_later), UNIT(who_does_not_wait_for_a_decision_is_refused),
	UNIT(a_door_may_take_larger_ones), UNIT(unfinished_messages_have_a_limit_together),
	UNIT(messages_go_both_ways), UNIT(fragments_are_joined_and_pings_answered_between),
	UNIT(the_largest_message_fits_and_no_larger), UNIT(who_breaks_the_rules_is_told),
	UNIT(either_side_may_close), UNIT(a_handler_may_refuse), UNIT(a_handshake_is_checked),
	UNIT(the_first_message_may_come_with_the_handshake),
	UNIT(a_message_is_shared_and_a_stuck_reader_hurts_nobody),
	UNIT(who_is_silent_is_pinged_and_then_dropped), UNIT(closing_the_server_is_told))
