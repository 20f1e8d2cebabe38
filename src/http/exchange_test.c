/* What a handler can ask of a request, and when its client leaves. */
#include <stdatomic.h>

#include "http/sample.h"
#include "lib/test.h"

#define HOST "Host: x\r\n"

static atomic_int n_gone;
static atomic_int n_released;

/* Everything that a request says about itself. */
static void handle_tell(struct exchange *x)
{
	const char *custom = exchange_header(x, "x-custom");
	const char *q = exchange_query(x, "q");
	const char *name = "";
	const char *value = "";
	bool has_second = exchange_query_at(x, 1, &name, &value);

	exchange_reply_json(x, 200,
		json_pack("{s:s, s:s, s:s, s:s, s:s*, s:s*, s:s*, s:s}", "method",
			exchange_method(x), "path", exchange_path(x), "id", exchange_param(x, "id"),
			"raw", exchange_param_raw(x, "id"), "custom", custom, "q", q, "second",
			has_second ? value : NULL, "peer", exchange_peer(x)));
}

/* Those who are answered later wait here, in the order they came. */
static struct exchange *waiting[8];
static size_t n_waiting;

static void on_gone(struct exchange *x, void *ctx)
{
	(void)ctx;
	n_gone++;
	CHECK(exchange_is_gone(x));
	for (size_t i = 0; i < n_waiting; i++)
		if (waiting[i] == x)
			waiting[i] = waiting[--n_waiting];
	exchange_reply_bytes(x, 200, NULL, NULL, 0); /* goes nowhere */
}

static void on_release(void *data)
{
	(void)data;
	n_released++;
}

static void handle_wait(struct exchange *x)
{
	exchange_on_gone(x, on_gone, NULL);
	exchange_set_data(x, waiting, on_release);
	waiting[n_waiting++] = x;
}

static void wait_for(struct sample *s, size_t n)
{
	for (int i = 0; i < 1000 && *(volatile size_t *)&n_waiting != n; i++)
		(void)usleep(5000);
	(void)s;
	CHECK_EQ(n_waiting, n);
}

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
