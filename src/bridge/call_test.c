#include "bridge/call.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/str.h"
#include "lib/test.h"

static char events[256];

static void on_event(void *ctx, const struct sse *sse)
{
	(void)ctx;
	(void)strncat(events, sse->data, sizeof(events) - strlen(events) - 1);
}

/* A call on one end of a socket pair; the other is the server's. */
static struct call *start(int *ret_server, const char *body)
{
	int ends[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	*ret_server = ends[1];
	struct call *c =
		call_new(ends[0], xstrdup("POST /mcp HTTP/1.1\r\n\r\n"), body, strlen(body));
	c->on_event = on_event;
	return c;
}

static void answer(int fd, const char *text)
{
	CHECK_EQ(send(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

TEST(an_answer_comes_in_pieces_and_the_connection_stays)
{
	AUTO_FD server = -1;
	struct call *c = start(&server, "{}");
	char got[64] = "";

	CHECK_EQ(call_events(c), POLLIN | POLLOUT);
	CHECK_EQ(call_step(c), 0);
	CHECK_EQ(call_events(c), POLLIN);
	CHECK_EQ(recv(server, got, sizeof(got), 0), 24);
	CHECK_STR(got, "POST /mcp HTTP/1.1\r\n\r\n{}");
	answer(server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
	CHECK_EQ(call_step(c), 0);
	answer(server, "llo");
	CHECK_EQ(call_step(c), 1);
	CHECK_STR(c->text, "hello");
	CHECK(!c->is_stream);
	AUTO_FD again = call_take_fd(c);
	CHECK(again >= 0);
	call_free(c);
}

TEST(events_come_as_they_are)
{
	AUTO_FD server = -1;
	struct call *c = start(&server, "");

	CHECK_EQ(call_step(c), 0);
	answer(server, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
		       "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n");
	CHECK_EQ(call_step(c), 0);
	CHECK_STR(events, "a");
	answer(server, "9\r\ndata: b\n\n\r\n0\r\n\r\n");
	CHECK_EQ(call_step(c), 1);
	CHECK_STR(events, "ab");
	CHECK(c->is_stream);
	call_free(c);
}

TEST(a_server_that_hangs_up_is_noticed)
{
	AUTO_FD server = -1;
	struct call *c = start(&server, "");

	CHECK_EQ(call_step(c), 0);
	answer(server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
	close_fdp(&server);
	CHECK_EQ(call_step(c), -ECONNRESET);
	CHECK_EQ(call_take_fd(c), -1);
	call_free(c);
}

TESTS(UNIT(an_answer_comes_in_pieces_and_the_connection_stays), UNIT(events_come_as_they_are),
	UNIT(a_server_that_hangs_up_is_noticed))
