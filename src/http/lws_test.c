/* Where a server listens, and how it does not start. */
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "http/listen.h"
#include "http/sample.h"
#include "lib/scratch.h"
#include "lib/shell.h"
#include "lib/test.h"

static void handle_hello(struct exchange *x)
{
	char text[100];
	int n = snprintf(text, sizeof(text), "%s %d", exchange_peer(x), exchange_is_tls(x));

	exchange_reply_bytes(x, 200, "text/plain", text, (size_t)n);
}

static const struct route routes[] = {
	{ .method = "GET", .pattern = "/hello", .handle = handle_hello },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

static int connect_unix(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)strncpy(to.sun_path, path, sizeof(to.sun_path) - 1);
	client_set_deadline(fd);
	CHECK_EQ(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

TEST(a_unix_socket_is_served_and_replaced_when_dead)
{
	SCRATCH(dir);
	char path[100];
	struct stat st;
	RESPONSE(r);

	(void)snprintf(path, sizeof(path), "%s/http.sock", dir.path);
	for (int i = 0; i < 2; i++) {
		SAMPLE(s, .routes = tables, .socket = path);
		AUTO_FD fd = connect_unix(path);
		struct err err = { 0 };

		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_mode & 0777, 0660);
		CHECK_EQ(http_port(s.server), 0);
		CHECK_EQ(listen_open(NULL, 0, path, &err), -EADDRINUSE);
		client_send(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
		client_read_response(fd, true, &r);
		CHECK_STR(r.body, "unix 0");
	}
}

static char local_path[100];

static void listen_local(struct sample *s)
{
	MUST(http_listen_local(s->server, local_path, &s->err) == 0);
	s->started = (int)http_count_connections(s->server);
}

static void handle_local(struct exchange *x)
{
	const char *text = exchange_is_local(x) ? "local" : "other";

	exchange_reply_bytes(x, 200, "text/plain", text, strlen(text));
}

TEST(a_local_socket_is_for_the_owner_alone)
{
	static const struct route rows[] = {
		{ .method = "GET", .pattern = "/hello", .handle = handle_local }, { 0 }
	};
	static const struct route *const both[] = { rows, NULL };
	SCRATCH(dir);
	struct stat st;
	RESPONSE(r);

	(void)snprintf(local_path, sizeof(local_path), "%s/local.sock", dir.path);
	SAMPLE(s, .routes = both);
	sample_call(&s, listen_local);
	CHECK_EQ(s.started, 0);
	CHECK_EQ(stat(local_path, &st), 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	AUTO_FD local = connect_unix(local_path);
	client_send(local, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	client_read_response(local, true, &r);
	CHECK_STR(r.body, "local");
	client_ask(&s, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", &r);
	CHECK_STR(r.body, "other");
}

/* A start that fails says why, and leaves nothing on the loop. */
static void check_failure(struct http_options options, int want, const char *word)
{
	CLEANUP(sample_stop) struct sample s = { .options = options };

	sample_start(&s);
	print_message("%s\n", s.err.text);
	CHECK_EQ(s.started, want);
	CHECK(strstr(s.err.text, word));
}

TEST(a_server_that_can_not_start_says_why)
{
	SAMPLE(s, .routes = tables);
	static const struct route bad[] = { { .method = "GET", .pattern = "x" }, { 0 } };
	static const struct route *const bad_tables[] = { bad, NULL };
	struct http_options o = { .routes = tables, .host = "127.0.0.1" };

	o.port = http_port(s.server);
	check_failure(o, -EADDRINUSE, "127.0.0.1");
	o.port = 0;
	o.host = "nowhere";
	check_failure(o, -EINVAL, "nowhere");
	o.host = "127.0.0.1";
	o.tls_cert = "/nonexistent/cert";
	o.tls_key = "/nonexistent/key";
	check_failure(o, -EINVAL, "/nonexistent/cert");
	o.tls_cert = o.tls_key = NULL;
	o.routes = bad_tables;
	check_failure(o, -EINVAL, "'x'");
}

TEST(tls_is_served)
{
	SCRATCH(dir);
	char cert[100];
	char key[100];
	char command[512];
	char out[1000];

	(void)snprintf(cert, sizeof(cert), "%s/cert.pem", dir.path);
	(void)snprintf(key, sizeof(key), "%s/key.pem", dir.path);
	(void)snprintf(command, sizeof(command),
		"openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -keyout %s "
		"-out %s 2>&1",
		key, cert);
	if (shell_run(command, out, sizeof(out)) != 0)
		SKIP("the openssl command is not installed");
	SAMPLE(s, .routes = tables, .tls_cert = cert, .tls_key = key);
	(void)snprintf(command, sizeof(command),
		"(printf 'GET /hello HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'; sleep 1) | "
		"openssl s_client -quiet -CAfile %s -verify_return_error -connect 127.0.0.1:%u "
		"2>/dev/null",
		cert, http_port(s.server));
	(void)shell_run(command, out, sizeof(out));
	CHECK(strstr(out, "HTTP/1.1 200 OK\r\n"));
	CHECK(strstr(out, "127.0.0.1 1"));
}

TEST(many_connections_are_served_at_once)
{
	SAMPLE(s, .routes = tables);
	int fds[400];
	RESPONSE(r);

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = client_connect(&s);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		client_send(fds[i], "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		client_read_response(fds[i], true, &r);
		CHECK_STR(r.body, "127.0.0.1 0");
		(void)close(fds[i]);
	}
}

TESTS(UNIT(a_unix_socket_is_served_and_replaced_when_dead),
	UNIT(a_local_socket_is_for_the_owner_alone), UNIT(a_server_that_can_not_start_says_why),
	UNIT(tls_is_served), UNIT(many_connections_are_served_at_once))
