/* The server as a whole: how many it takes, and how it ends. */
#include "http/handlers_sample.h"

static const struct route routes[] = {
	{ .method = "GET", .pattern = "/tell/{id}", .handle = handle_tell },
	{ .method = "GET", .pattern = "/wait", .handle = handle_wait },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

#define SERVER(name, ...) SAMPLE(name, .routes = tables, __VA_ARGS__)

static int connect_and_wait(struct sample *s, size_t n)
{
	int fd = client_connect(s);

	client_send(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	wait_for(s, n);
	return fd;
}

TEST(there_is_a_limit_to_connections)
{
	SERVER(s, .idle_sec = 9, .max_connections = 2);
	AUTO_FD a = connect_and_wait(&s, 1);
	CLEANUP(close_fdp) int b __attribute__((unused)) = connect_and_wait(&s, 2);
	RESPONSE(r);

	client_ask(&s, "GET /tell/1 HTTP/1.1\r\n" HOST "\r\n", &r);
	CHECK_EQ(r.status, 503);
	close_fdp(&a);
	/* The place is free a moment later. */
	for (int i = 0; i < 100 && r.status != 200; i++) {
		(void)usleep(10000);
		client_ask(&s, "GET /tell/1 HTTP/1.1\r\n" HOST "\r\n", &r);
	}
	CHECK_EQ(r.status, 200);
}

TEST(who_waits_longest_with_a_request_makes_room)
{
	SERVER(s, .idle_sec = 9, .max_connections = 3);
	AUTO_FD busy = connect_and_wait(&s, 1);
	AUTO_FD idle = client_connect(&s);
	(void)usleep(20000);
	AUTO_FD slow = client_connect(&s);
	RESPONSE(r);

	client_send(slow, "GET /tell/1 HTTP/1.1\r\nHost:");
	(void)usleep(20000);
	client_ask(&s, "GET /tell/1 HTTP/1.1\r\n" HOST "\r\n", &r);
	CHECK_EQ(r.status, 200);
	CHECK(client_is_closed(idle));
	client_send(slow, " x\r\n\r\n");
	client_read_response(slow, true, &r);
	CHECK_EQ(r.status, 200);
	CHECK_EQ(n_waiting, 1);
	close_fdp(&busy);
	wait_for(&s, 0);
}

static void stop_listening(struct sample *s)
{
	http_stop_listening(s->server);
}

TEST(those_who_are_here_may_stay_when_listening_stops)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(http_port(s.server)) };
	AUTO_FD late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	RESPONSE(r);

	client_send(fd, "GET /tell/1 HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, true, &r);
	sample_call(&s, stop_listening);
	client_send(fd, "GET /tell/2 HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 200);
	(void)inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	CHECK(connect(late, (const struct sockaddr *)&to, sizeof(to)) < 0);
}

TEST(closing_tells_those_who_work_on_an_answer)
{
	AUTO_FD fd = -1;

	n_gone = 0;
	{
		SERVER(s, .idle_sec = 9);
		fd = client_connect(&s);
		client_send(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
		wait_for(&s, 1);
	}
	CHECK_EQ(n_gone, 1);
	CHECK(client_is_closed(fd));
}

TESTS(UNIT(there_is_a_limit_to_connections), UNIT(who_waits_longest_with_a_request_makes_room),
	UNIT(those_who_are_here_may_stay_when_listening_stops),
	UNIT(closing_tells_those_who_work_on_an_answer))
