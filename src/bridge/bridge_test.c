/* The bridge between a client that writes all at once and a server of ours whose only path does
 * what the session needs. */
#include "bridge/bridge.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/json.h"
#include "http/sample.h"
#include "lib/test.h"

static int n_opened; /* sessions */
static int n_ended;
static int n_posts;
static int n_single;
static bool forgets; /* the session, once */
static int n_strays; /* who wants the rest of a stream that another session had */
static bool is_held; /* the answer to initialize comes only when nothing else can have come */

static void reply(struct exchange *x, json_t *id, const char *what)
{
	exchange_reply_json(x, 200,
		json_pack("{s:s, s:O, s:{s:s, s:s, s:s}}", "jsonrpc", "2.0", "id", id, "result",
			"protocolVersion", "2025-06-18", "said", what, "version",
			exchange_header(x, "mcp-protocol-version")
				? exchange_header(x, "mcp-protocol-version")
				: "none"));
}

static void open_session(struct exchange *x, json_t *id)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "s%d", ++n_opened);
	exchange_set_header(x, "Mcp-Session-Id", name);
	if (is_held)
		(void)usleep(50000);
	reply(x, id, name);
}

static void on_gone(struct exchange *x, void *ctx)
{
	(void)ctx;
	exchange_reply_bytes(x, 200, NULL, NULL, 0);
}

/* Of one that needs no session. */
static void reply_single(struct exchange *x, json_t *id, const char *method)
{
	const char *name = exchange_header(x, "mcp-name");

	CHECK_STR(exchange_header(x, "mcp-method"), method);
	if (streq(method, "none"))
		exchange_reply_json(x, 404,
			json_pack("{s:s, s:O, s:{s:i}}", "jsonrpc", "2.0", "id", id, "error",
				"code", -32601));
	else if (streq(method, "subscriptions/listen"))
		exchange_on_gone(x, on_gone, NULL);
	else
		reply(x, id, name ? name : method);
}

static void handle_post(struct exchange *x)
{
	size_t size = 0;
	const char *body = exchange_body(x, &size);
	AUTO_JSON *json = json_loadb(body, size, 0, NULL);
	const char *method = json_string_value(json_object_get(json, "method"));
	const char *session = exchange_header(x, "mcp-session-id");
	json_t *id = json_object_get(json, "id");

	n_posts++;
	if (exchange_header(x, "mcp-method")) {
		CHECK(!session);
		n_single++;
		reply_single(x, id, method);
	} else if (streq(method, "initialize")) {
		open_session(x, id);
	} else if (!session || forgets) {
		forgets = false;
		exchange_reply_json(x, 404, json_pack("{s:s}", "detail", "no such session"));
	} else if (!id) {
		exchange_reply_bytes(x, 202, NULL, NULL, 0);
	} else if (streq(method, "cut")) {
		static const char text[] = "id: 1-1\nretry: 100\ndata: {\"method\":\"note\"}\n\n";

		forgets = true;
		exchange_reply_bytes(x, 200, "text/event-stream", text, strlen(text));
	} else if (streq(method, "stream")) {
		static const char text[] = "id: 1\ndata: {\"method\":\"note\"}\n\n"
					   "id: 2\ndata: {\"id\":9,\"result\":{}}\n\n";

		exchange_reply_bytes(x, 200, "text/event-stream", text, strlen(text));
	} else {
		reply(x, id, method);
	}
}

static void handle_delete(struct exchange *x)
{
	n_ended++;
	exchange_reply_bytes(x, 204, NULL, NULL, 0);
}

static void handle_get(struct exchange *x)
{
	const char *session = exchange_header(x, "mcp-session-id");

	n_strays += exchange_header(x, "last-event-id") && (!session || !streq(session, "s1"));
	exchange_reply_bytes(x, 405, NULL, NULL, 0);
}

static const struct route routes[] = {
	{ "POST", "/mcp", 0, BODY_MEMORY, 1 << 20, handle_post },
	{ "DELETE", "/mcp", 0, BODY_NONE, 0, handle_delete },
	{ "GET", "/mcp", 0, BODY_NONE, 0, handle_get },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

static int connect_sample(void *ctx, bool may_start, struct bridge_place *place, struct err *err)
{
	(void)may_start;
	if (!ctx)
		return err_set(err, -ECONNREFUSED, "nobody is there");
	int fd = client_connect(ctx);
	(void)snprintf(place->host, sizeof(place->host), "127.0.0.1");
	CHECK_EQ(fd_set_nonblock(fd, true), 0);
	return fd;
}

/* What comes out when `input` goes in. */
static const char *carry(struct sample *s, const char *input, size_t line_max)
{
	static char got[8192];
	AUTO_FD read_fd = -1;
	AUTO_FD write_fd = -1;
	AUTO_FD out = memfd_create("out", MFD_CLOEXEC);
	struct err err = { 0 };

	n_opened = n_ended = n_posts = n_strays = n_single = 0;
	CHECK_EQ(fd_pipe(&read_fd, &write_fd), 0);
	CHECK_EQ(fd_write_full(write_fd, input, strlen(input)), 0);
	close_fdp(&write_fd);
	const struct bridge_options options = { .in_fd = read_fd,
		.out_fd = out,
		.signal_fd = -1,
		.line_max = line_max,
		.connect = connect_sample,
		.ctx = s };
	CHECK_EQ(bridge_run(&options, &err), 0);
	ssize_t n = fd_pread_full(out, got, sizeof(got) - 1, 0);
	got[n < 0 ? 0 : n] = '\0';
	return got;
}

#define OPEN  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n"
#define READY "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"

TEST(what_follows_initialize_waits_for_the_session)
{
	SAMPLE(s, .routes = tables);
	is_held = true;
	const char *got = carry(&s,
		OPEN READY "{\"id\":2,\"method\":\"one\"}\n"
			   "{\"id\":\"b\",\"method\":\"two\"}",
		0);
	is_held = false;

	CHECK_EQ(n_opened, 1);
	CHECK_EQ(n_ended, 1);
	CHECK_EQ(n_posts, 4);
	CHECK(strstr(got, "\"said\":\"s1\""));
	CHECK(strstr(got, "\"id\":2") && strstr(got, "\"said\":\"one\""));
	CHECK(strstr(got, "\"id\":\"b\"") && strstr(got, "\"said\":\"two\""));
	CHECK(strstr(got, "\"version\":\"2025-06-18\""));
}

TEST(a_session_that_was_forgotten_is_begun_anew)
{
	SAMPLE(s, .routes = tables);
	forgets = false;
	(void)carry(&s, OPEN READY, 0);
	forgets = true; /* at the next message that is no initialize */
	const char *got = carry(&s, OPEN READY "{\"id\":2,\"method\":\"one\"}\n", 0);

	CHECK_EQ(n_opened, 2);
	CHECK(!strstr(got, "s2")); /* the client hears of one */
	CHECK(strstr(got, "\"said\":\"one\""));
	CHECK(!strstr(got, "error"));
}

TEST(events_become_lines)
{
	SAMPLE(s, .routes = tables);
	const char *got = carry(&s, OPEN "{\"id\":9,\"method\":\"stream\"}\n", 0);

	CHECK(strstr(got, "\n{\"method\":\"note\"}\n{\"id\":9,\"result\":{}}\n"));
}

TEST(the_rest_of_a_stream_is_not_asked_of_another_session)
{
	SAMPLE(s, .routes = tables);
	const char *got = carry(&s,
		OPEN READY "{\"id\":9,\"method\":\"cut\"}\n{\"id\":10,\"method\":\"one\"}\n", 0);

	CHECK_EQ(n_opened, 2);
	CHECK_EQ(n_strays, 0);
	CHECK(strstr(got, "\"id\":9,\"error\""));
	CHECK(strstr(got, "\"said\":\"one\""));
}

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"
#define SINGLE(id, method, more)                                                                   \
	"{\"id\":" id ",\"method\":\"" method "\",\"params\":{" META more "}}\n"

TEST(a_request_that_names_its_version_needs_no_session)
{
	SAMPLE(s, .routes = tables);
	const char *got = carry(&s,
		SINGLE("1", "tools/call", ",\"name\":\"\u00e4\"") SINGLE("2", "none", "")
			SINGLE("3", "resources/read", ",\"uri\":\"x://a b\""),
		0);

	CHECK_EQ(n_single, 3);
	CHECK_EQ(n_opened + n_ended, 0);
	CHECK(strstr(got, "\"said\":\"=?base64?w6Q=?=\",\"version\":\"2026-07-28\""));
	CHECK(strstr(got, "\"id\":2,\"error\":{\"code\":-32601}"));
	CHECK(strstr(got, "\"said\":\"x://a b\""));
}

TEST(beside_a_session_it_is_not_part_of_it)
{
	SAMPLE(s, .routes = tables);
	const char *got =
		carry(&s, OPEN READY SINGLE("2", "none", "") "{\"id\":3,\"method\":\"one\"}\n", 0);

	CHECK_EQ(n_opened, 1); /* that a method is not found does not end it */
	CHECK_EQ(n_single, 1);
	CHECK(strstr(got, "\"said\":\"one\""));
}

TEST(a_head_says_nothing_that_a_client_slipped_in)
{
	SAMPLE(s, .routes = tables);
	(void)carry(&s, SINGLE("1", "a\\r\\nX-API-KEY: b", ""), 0);

	CHECK_EQ(n_posts, 1);
	CHECK_EQ(n_single, 0); /* the method is not said at all */
}

TEST(who_only_listens_is_not_waited_for)
{
	SAMPLE(s, .routes = tables);
	const char *got =
		carry(&s, SINGLE("1", "subscriptions/listen", "") SINGLE("2", "one", ""), 0);

	CHECK(strstr(got, "\"id\":2,\"result\"") && !strstr(got, "\"id\":1"));
}

TEST(what_is_no_message_is_answered)
{
	SAMPLE(s, .routes = tables);
	const char *got = carry(&s,
		"\nnonsense\n{\"id\":4}\n" OPEN
		"{\"id\":5,\"method\":\"long\",\"text\":\"01234567890123456789\"}\n",
		50);

	CHECK(strstr(got, "\"id\":null,\"error\":{\"code\":-32700"));
	CHECK(strstr(got, "\"id\":4,\"error\":{\"code\":-32600"));
	CHECK(strstr(got, "a message of more than 50 bytes"));
	CHECK(strstr(got, "\"said\":\"s1\""));
	CHECK_EQ(n_posts, 1);
}

TEST(without_a_server_requests_are_answered_with_why)
{
	const char *got = carry(NULL, OPEN READY "{\"id\":2,\"method\":\"one\"}\n", 0);

	CHECK(strstr(got, "\"id\":1,\"error\":{\"code\":-32000,\"message\":\"nobody is there\""));
	CHECK(strstr(got, "\"id\":2,\"error\""));
}

TESTS(UNIT(what_follows_initialize_waits_for_the_session),
	UNIT(a_session_that_was_forgotten_is_begun_anew), UNIT(events_become_lines),
	UNIT(the_rest_of_a_stream_is_not_asked_of_another_session),
	UNIT(a_request_that_names_its_version_needs_no_session),
	UNIT(beside_a_session_it_is_not_part_of_it),
	UNIT(a_head_says_nothing_that_a_client_slipped_in),
	UNIT(who_only_listens_is_not_waited_for), UNIT(what_is_no_message_is_answered),
	UNIT(without_a_server_requests_are_answered_with_why))
