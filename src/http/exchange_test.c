/* What a handler can ask of a request, and when its client leaves. */
#include "http/handlers_sample.h"

static const struct route routes[] = {
	{ .method = "GET", .pattern = "/tell/{id}", .handle = handle_tell },
	{ .method = "GET", .pattern = "/wait", .handle = handle_wait },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

#define SERVER(name, ...) SAMPLE(name, .routes = tables, __VA_ARGS__)

TEST(a_request_can_be_asked_for_everything)
{
	SERVER(s, .idle_sec = 9);
	RESPONSE(r);

	client_ask(&s,
		"GET /tell/a%2Fb%20c?q=x%20y&z=1&q=2 HTTP/1.1\r\n" HOST "X-Custom: yes\r\n\r\n",
		&r);
	CHECK_STR(r.body,
		"{\"method\":\"GET\",\"path\":\"/tell/a/b c\",\"id\":\"a/b c\",\"raw\":\"a%2Fb%20c\","
		"\"custom\":\"yes\",\"q\":\"x y\",\"second\":\"1\",\"peer\":\"127.0.0.1\"}");
}

TEST(who_is_gone_is_noticed)
{
	SERVER(s, .idle_sec = 9);
	int fd = client_connect(&s);

	n_gone = n_released = 0;
	client_send(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	wait_for(&s, 1);
	(void)close(fd);
	wait_for(&s, 0);
	CHECK_EQ(n_gone, 1);
	for (int i = 0; i < 1000 && n_released == 0; i++)
		(void)usleep(1000);
	CHECK_EQ(n_released, 1);
}

TESTS(UNIT(a_request_can_be_asked_for_everything), UNIT(who_is_gone_is_noticed))
