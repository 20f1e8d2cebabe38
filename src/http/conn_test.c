/* Requests over real connections: what is read, in which order, and where it ends. */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "http/handlers_sample.h"

static atomic_int n_logged;

static void handle_echo(struct exchange *x)
{
	size_t size = 0;
	const char *body = exchange_body(x, &size);

	exchange_reply_bytes(x, 200, "text/plain", body, size);
}

static void handle_spool(struct exchange *x)
{
	uint64_t size = 0;
	int fd = exchange_body_fd(x, &size);
	struct stat st = { 0 };
	char text[64];

	(void)fstat(fd, &st);
	int n = snprintf(text, sizeof(text), "%ju %ju %ju", (uintmax_t)size, (uintmax_t)st.st_size,
		(uintmax_t)st.st_nlink);
	exchange_reply_bytes(x, 200, "text/plain", text, (size_t)n);
}

static void answer(struct sample *s)
{
	(void)s;
	n_waiting--;
	exchange_reply_bytes(waiting[0], 200, "text/plain", "later", 5);
}

static void handle_ws(struct exchange *x)
{
	exchange_reply_bytes(x, 403, NULL, NULL, 0);
}

static const struct route routes[] = {
	{ .method = "POST",
		.pattern = "/echo",
		.body = BODY_MEMORY,
		.max_body = 1000,
		.handle = handle_echo },
	{ .method = "GET", .pattern = "/tell/{id}", .handle = handle_tell },
	{ .method = "POST", .pattern = "/tell/{id}", .handle = handle_tell },
	{ .method = "PUT",
		.pattern = "/spool",
		.body = BODY_FILE,
		.max_body = 10 << 20,
		.handle = handle_spool },
	{ .method = "PUT", .pattern = "/asked", .body = BODY_FILE, .handle = handle_spool },
	{ .method = "GET", .pattern = "/wait", .handle = handle_wait },
	{ .method = "POST",
		.pattern = "/closed",
		.access = 1,
		.body = BODY_MEMORY,
		.max_body = 1 << 20,
		.handle = handle_echo },
	{ .method = "WS", .pattern = "/ws", .handle = handle_ws },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

static int gate(struct exchange *x, const struct route *route)
{
	if (route->access == 0)
		return 0;
	exchange_reply_bytes(x, 401, "text/plain", "no", 2);
	return -EACCES;
}

static void on_error(struct exchange *x, int status, const char *code, const char *message)
{
	char text[200];
	int n = snprintf(text, sizeof(text), "%s: %s", code, message);

	exchange_reply_bytes(x, status, "text/plain", text, (size_t)n);
}

static void on_log(const struct exchange *x, int status, uint64_t bytes, uint64_t took_ns)
{
	(void)x;
	(void)bytes;
	CHECK(status >= 200 && took_ns > 0);
	n_logged++;
}

static uint64_t limit_of(const struct exchange *x)
{
	(void)x;
	return 7;
}

#define SERVER(name, ...)                                                                          \
	SAMPLE(name, .routes = tables, .gate = gate, .error = on_error, .log = on_log,             \
		.limit_of = limit_of, __VA_ARGS__)

TEST(a_connection_is_kept)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	n_logged = 0;
	for (int i = 0; i < 3; i++) {
		client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
		client_read_response(fd, true, &r);
		CHECK_EQ(r.status, 200);
		CHECK_STR(r.body, "hello");
		CHECK(!response_find(&r, "Connection"));
		CHECK(response_find(&r, "\r\nDate"));
	}
	client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
	client_read_response(fd, true, &r);
	CHECK(strstr(r.head, "Connection: close\r\n"));
	CHECK(client_is_closed(fd));
	CHECK_EQ(n_logged, 4);
}

TEST(pipelined_requests_are_answered_in_order)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "GET /tell/1 HTTP/1.1\r\n" HOST "\r\nGET /wait HTTP/1.1\r\n" HOST
			"\r\nPOST /echo HTTP/1.1\r\n" HOST
			"Content-Length: 2\r\n\r\nabGET /wait HTTP/1.1\r\n" HOST
			"\r\n\r\nGET /tell/2 HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, true, &r);
	CHECK(strstr(r.body, "\"id\":\"1\""));
	for (int i = 0; i < 2; i++) {
		wait_for(&s, 1);
		sample_call(&s, answer);
		client_read_response(fd, true, &r);
		CHECK_STR(r.body, "later");
		client_read_response(fd, true, &r);
		CHECK(strstr(r.body, i == 0 ? "ab" : "\"id\":\"2\""));
	}
}

TEST(a_request_may_come_byte_by_byte)
{
	static const char request[] =
		"\r\nPOST /echo HTTP/1.1\r\n" HOST
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	for (size_t i = 0; i < sizeof(request) - 1; i++) {
		client_send_bytes(fd, request + i, 1);
		(void)usleep(500);
	}
	client_read_response(fd, true, &r);
	CHECK_STR(r.body, "abcde");
}

TEST(a_head_request_gets_no_body)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(
		fd, "HEAD /tell/1 HTTP/1.1\r\n" HOST "\r\nGET /tell/1 HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, false, &r);
	CHECK_EQ(r.status, 200);
	CHECK(response_number(&r, "\r\nContent-Length") > 10);
	client_read_response(fd, true, &r);
	CHECK(strstr(r.body, "GET"));
}

static const struct {
	const char *request;
	int status;
	const char *body;
	const char *head;
} refused[] = {
	{ "GET /nothing HTTP/1.1\r\n" HOST "\r\n", 404, "not_found: ", "" },
	{ "GET /tell/ HTTP/1.1\r\n" HOST "\r\n", 404, "not_found: ", "" },
	{ "PUT /tell/1 HTTP/1.1\r\n" HOST "\r\n", 405,
		"method_not_allowed: ", "Allow: GET, HEAD, POST\r\n" },
	{ "GET /ws HTTP/1.1\r\n" HOST "\r\n", 426, "upgrade_required: ", "Upgrade: websocket\r\n" },
	{ "GET /ws HTTP/1.1\r\n" CLIENT_UPGRADE, 403, "", "" },
	{ "GET /tell/%00 HTTP/1.1\r\n" HOST "\r\n", 400, "bad_request: ", "Connection: close\r\n" },
	{ "GET /tell/%2 HTTP/1.1\r\n" HOST "\r\n", 400, "bad_request: ", "" },
	{ "GET /tell/1?a=%zz HTTP/1.1\r\n" HOST "\r\n", 400, "bad_request: ", "" },
	{ "GET /tell/1 HTTP/1.1\r\n" HOST "Authorization: a\r\nAuthorization: b\r\n\r\n", 400,
		"bad_request: ", "" },
	{ "GET /tell/1 HTTP/1.1\r\n\r\n", 400, "bad_request: ", "" },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n", 400, "bad_request: ", "" },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\n\r\n", 413,
		"payload_too_large: the body is larger than this path allows: 1000 bytes",
		"" }, /* so little is dropped, and the connection kept */
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999\r\n\r\n", 413,
		"payload_too_large: ", "Connection: close\r\n" },
	{ "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
		413, "payload_too_large: ", "Connection: close\r\n" },
	{ "POST /closed HTTP/1.1\r\n" HOST "Content-Length: 9999\r\nExpect: 100-continue\r\n\r\n",
		401, "no", "Connection: close\r\n" },
	{ "PUT /asked HTTP/1.1\r\n" HOST "Content-Length: 8\r\n\r\n12345678", 413,
		"payload_too_large: ", "" },
	{ "PUT /asked HTTP/1.1\r\n" HOST
	  "Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n4\r\n5678\r\n",
		413, "payload_too_large: the body is larger than this path allows: ", "" },
	{ "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nzz", 400,
		"bad_request: ", "" },
	{ "POST /tell/1 HTTP/1.1\r\n" HOST "Content-Length: 65537\r\n\r\n", 413,
		"payload_too_large: ", "" },
	{ "\x16\x03\x01\x02\r\n\r\n", 400, "bad_request: ", "" },
};

TEST(what_can_not_be_is_refused)
{
	SERVER(s, .idle_sec = 9);

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		RESPONSE(r);

		print_message("%s", refused[i].request);
		client_ask(&s, refused[i].request, &r);
		CHECK_EQ(r.status, refused[i].status);
		CHECK(strstr(r.body, refused[i].body) == r.body);
		CHECK(strstr(r.head, refused[i].head));
	}
}

TEST(a_head_that_is_too_large_is_refused)
{
	SERVER(s, .idle_sec = 9);
	static char request[HTTP_HEADERS_MAX + 100];
	RESPONSE(r);

	char *at = stpcpy(request, "GET /tell/1 HTTP/1.1\r\n" HOST "X: ");
	memset(at, 'x', HTTP_HEADERS_MAX);
	client_ask(&s, request, &r); /* its end never came */
	CHECK_EQ(r.status, 431);
	(void)stpcpy(at + HTTP_HEADERS_MAX, "\r\n\r\n");
	client_ask(&s, request, &r);
	CHECK_EQ(r.status, 431);
}

TEST(a_body_is_asked_for_when_it_is_waited_for)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd,
		"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n");
	client_read_response(fd, false, &r);
	CHECK_EQ(r.status, 100);
	client_send(fd, "ok");
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 200);
	CHECK_STR(r.body, "ok");
}

TEST(a_body_nobody_wants_is_dropped)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "POST /nothing HTTP/1.1\r\n" HOST
			"Content-Length: 5\r\n\r\nhelloPOST /tell/2 HTTP/1.1\r\n" HOST
			"Content-Length: 3\r\n\r\nabcGET /tell/3 HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 404);
	client_read_response(fd, true, &r);
	CHECK(strstr(r.body, "\"id\":\"2\""));
	client_read_response(fd, true, &r);
	CHECK(strstr(r.body, "\"id\":\"3\""));
}

TEST(a_large_body_is_spooled)
{
	SERVER(s, .idle_sec = 9);
	AUTO_FD fd = client_connect(&s);
	AUTO_FREE char *data = calloc(1, 5 << 20);
	RESPONSE(r);

	client_send(fd, "PUT /spool HTTP/1.1\r\n" HOST "Content-Length: 5242880\r\n\r\n");
	client_send_bytes(fd, data, 5 << 20);
	client_read_response(fd, true, &r);
	CHECK_STR(r.body, "5242880 5242880 0");
	client_send(fd, "PUT /spool HTTP/1.1\r\n" HOST "\r\n");
	client_read_response(fd, true, &r);
	CHECK_STR(r.body, "0 0 0");
}

TEST(who_is_slow_is_told)
{
	SERVER(s, .idle_sec = 1);
	AUTO_FD idle = client_connect(&s);
	AUTO_FD head = client_connect(&s);
	AUTO_FD body = client_connect(&s);
	RESPONSE(r);

	client_send(head, "GET /tell");
	client_send(body, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nab");
	client_read_response(head, true, &r);
	CHECK_EQ(r.status, 408);
	client_read_response(body, true, &r);
	CHECK_EQ(r.status, 408);
	CHECK(client_is_closed(idle));
	CHECK(client_is_closed(head));
	CHECK(client_is_closed(body));
}

/* A byte now and then is as slow as none. */
TEST(who_trickles_is_told)
{
	SERVER(s, .idle_sec = 1);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);
	int n = 0;

	client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
	while (n < 50 && send(fd, "x", 1, MSG_NOSIGNAL) == 1) {
		(void)usleep(100000);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (poll(&p, 1, 0) > 0)
			break;
		n++;
	}
	CHECK(n >= 5 && n < 50);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 408);
}

TESTS(UNIT(a_connection_is_kept), UNIT(pipelined_requests_are_answered_in_order),
	UNIT(a_request_may_come_byte_by_byte), UNIT(a_head_request_gets_no_body),
	UNIT(what_can_not_be_is_refused), UNIT(a_head_that_is_too_large_is_refused),
	UNIT(a_body_is_asked_for_when_it_is_waited_for), UNIT(a_body_nobody_wants_is_dropped),
	UNIT(a_large_body_is_spooled), UNIT(who_is_slow_is_told), UNIT(who_trickles_is_told))
