/* Answers that go on, over real connections. */
#include <stdatomic.h>

#include "base/shared.h"
#include "http/http_private.h"
#include "http/sample.h"
#include "lib/test.h"

#define HOST "Host: x\r\n"
#define BIG  (300u << 10)

/* What is to be said, and what became of it; one at a time. */
static struct saying {
	struct flow *flow;
	size_t n_left; /* pieces */
	size_t size;   /* of each */
	bool ends;     /* after the last of them */
	atomic_int closed;
	atomic_int asked; /* for pieces that were given */
	atomic_int begun;
} saying;

static struct shared *on_next(void *ctx)
{
	struct saying *s = ctx;

	if (s->n_left == 0)
		return NULL;
	struct shared *m = shared_new(s->size);
	memset(shared_data(m), 'a', s->size);
	s->asked++;
	if (--s->n_left == 0 && s->ends)
		flow_end(s->flow);
	return m;
}

static void on_closed(void *ctx)
{
	struct saying *s = ctx;

	s->closed++;
}

static const struct flow_ops ops = { on_next, on_closed };

static void begin(struct exchange *x, size_t n, size_t size, bool ends)
{
	saying.n_left = n;
	saying.size = size;
	saying.ends = ends;
	saying.closed = saying.asked = 0;
	exchange_set_header(x, "X-Own", "1");
	saying.flow = exchange_reply_flow(x, 200, "text/event-stream", &ops, &saying);
	saying.begun++;
}

static void handle_three(struct exchange *x)
{
	begin(x, 3, 10, true);
}

static void handle_big(struct exchange *x)
{
	begin(x, 40, BIG, true);
}

static void handle_endless(struct exchange *x)
{
	begin(x, 1000000, 60000, false);
}

static void handle_quiet(struct exchange *x)
{
	begin(x, 1, 5, false);
}

static const struct route routes[] = {
	{ .method = "GET", .pattern = "/three", .handle = handle_three },
	{ .method = "GET", .pattern = "/big", .handle = handle_big },
	{ .method = "GET", .pattern = "/endless", .handle = handle_endless },
	{ .method = "GET", .pattern = "/quiet", .handle = handle_quiet },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

/* Until the server has noticed; true when it has. */
static bool is_closed_soon(int n)
{
	for (int i = 0; i < 1000 && saying.closed < n; i++)
		(void)usleep(10000);
	return saying.closed == n;
}

TEST(pieces_are_chunks_and_the_connection_stays)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	for (int i = 0; i < 2; i++) {
		client_send(fd, "GET /three HTTP/1.1\r\n" HOST "\r\n");
		client_read_response(fd, true, &r);
		CHECK_EQ(r.status, 200);
		CHECK(strstr(r.head, "Content-Type: text/event-stream\r\n"));
		CHECK(strstr(r.head, "X-Own: 1\r\n"));
		CHECK_EQ(r.size, 30);
		CHECK(is_closed_soon(1));
	}
}

TEST(large_pieces_arrive_whole)
{
	SAMPLE(s, .routes = tables);
	RESPONSE(r);

	client_ask(&s, "GET /big HTTP/1.1\r\n" HOST "\r\n", &r);
	CHECK_EQ(r.size, 40 * BIG);
	CHECK(is_closed_soon(1));
}

TEST(an_old_client_reads_until_the_end_of_the_connection)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);
	char body[30];

	client_send(fd, "GET /three HTTP/1.0\r\n" HOST "\r\n");
	client_read_head(fd, &r);
	CHECK(!strstr(r.head, "chunked"));
	client_read(fd, body, sizeof(body));
	CHECK(client_is_closed(fd));
}

/* Then nobody follows it. */
TEST(of_a_head_request_only_the_head_is_sent)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	int n = saying.begun;
	RESPONSE(r);

	client_send(fd, "HEAD /three HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, false, &r);
	CHECK_EQ(r.status, 200);
	while (saying.begun == n)
		(void)usleep(1000);
	CHECK(saying.flow == NULL);
	CHECK_EQ(saying.closed, 0);
}

TEST(a_client_that_goes_ends_it)
{
	SAMPLE(s, .routes = tables);
	int fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "GET /quiet HTTP/1.1\r\n" HOST "\r\n");
	client_read_head(fd, &r);
	CHECK_EQ(saying.closed, 0);
	(void)close(fd);
	CHECK(is_closed_soon(1));
}

/* It gets what its buffers hold, and is dropped; quiet ones are not. */
TEST(who_does_not_read_is_dropped_and_who_has_nothing_to_read_is_not)
{
	SAMPLE(s, .routes = tables, .idle_sec = 1);
	AUTO_FD stuck = client_connect(&s);
	RESPONSE(r);

	client_send(stuck, "GET /endless HTTP/1.1\r\n" HOST "\r\n");
	CHECK(is_closed_soon(1));
	CHECK(saying.asked < 1000);
	AUTO_FD quiet = client_connect(&s);
	client_send(quiet, "GET /quiet HTTP/1.1\r\n" HOST "\r\n");
	client_read_head(quiet, &r);
	(void)usleep(3500000);
	CHECK_EQ(saying.closed, 0);
}

TESTS(UNIT(pieces_are_chunks_and_the_connection_stays), UNIT(large_pieces_arrive_whole),
	UNIT(an_old_client_reads_until_the_end_of_the_connection),
	UNIT(of_a_head_request_only_the_head_is_sent), UNIT(a_client_that_goes_ends_it),
	UNIT(who_does_not_read_is_dropped_and_who_has_nothing_to_read_is_not))
