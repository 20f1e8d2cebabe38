/* Answers over real connections: files, compression, and clients that do not read. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include "http/http_private.h"
#include "http/sample.h"
#include "lib/random.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define HOST      "Host: x\r\n"
#define BIG       ((size_t)7 << 20)
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

/* What is sent as a file; made once, and looked at by the tests. */
static char *content;
static int content_fd = -1;

static void make_content(void)
{
	uint64_t seed = 1;

	content = malloc(BIG);
	content_fd = memfd_create("content", MFD_CLOEXEC);
	for (size_t i = 0; i < BIG; i++)
		content[i] = (char)('a' + random_below(&seed, 4));
	CHECK_EQ(fd_write_full(content_fd, content, BIG), 0);
}

static int dup_content(void)
{
	return fcntl(content_fd, F_DUPFD_CLOEXEC, 3);
}

static void handle_file(struct exchange *x)
{
	exchange_reply_file(x, 200, "application/x-test", dup_content(), 0, BIG);
}

static void handle_part(struct exchange *x)
{
	exchange_reply_file(x, 206, "application/x-test", dup_content(), 5, 70000);
}

static void handle_empty(struct exchange *x)
{
	exchange_reply_file(x, 200, "application/x-test", dup_content(), 0, 0);
}

/* More than there is. */
static void handle_short(struct exchange *x)
{
	exchange_reply_file(x, 200, "application/x-test", dup_content(), BIG - 10, 100);
}

static void handle_gzip(struct exchange *x)
{
	exchange_set_header(x, "Vary", "Accept-Encoding");
	exchange_reply_gzip(x, 200, "text/plain", dup_content(), BIG);
}

static void handle_small_gzip(struct exchange *x)
{
	exchange_reply_gzip(x, 200, "text/plain", dup_content(), 0);
}

static void handle_bytes(struct exchange *x)
{
	exchange_reply_bytes(x, 200, "text/plain", content, 3 << 20);
}

static void handle_nothing(struct exchange *x)
{
	exchange_set_header(x, "X-One", "a");
	exchange_set_header(x, "X-Two", "b\r\nX-Evil: c\x01");
	exchange_reply_bytes(x, 204, NULL, NULL, 0);
}

static const struct route routes[] = {
	{ .method = "GET", .pattern = "/file", .handle = handle_file },
	{ .method = "GET", .pattern = "/part", .handle = handle_part },
	{ .method = "GET", .pattern = "/empty", .handle = handle_empty },
	{ .method = "GET", .pattern = "/short", .handle = handle_short },
	{ .method = "GET", .pattern = "/gzip", .handle = handle_gzip },
	{ .method = "GET", .pattern = "/small", .handle = handle_small_gzip },
	{ .method = "GET", .pattern = "/bytes", .handle = handle_bytes },
	{ .method = "GET", .pattern = "/nothing", .handle = handle_nothing },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

TEST(a_file_is_sent_as_it_is)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	/* Each on the same connection, so what follows a file is seen as well. */
	client_send(fd, GET("/file") GET("/part") GET("/empty") GET("/bytes"));
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 200);
	CHECK(strstr(r.head, "Content-Type: application/x-test\r\n"));
	CHECK_EQ(r.size, BIG);
	CHECK_MEM(r.body, content, BIG);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 206);
	CHECK_EQ(r.size, 70000);
	CHECK_MEM(r.body, content + 5, 70000);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.size, 0);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.size, 3 << 20);
	CHECK_MEM(r.body, content, 3 << 20);
}

TEST(a_head_request_gets_the_size_of_a_file)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);

	client_send(fd, "HEAD /file HTTP/1.1\r\n" HOST "\r\nHEAD /gzip HTTP/1.1\r\n" HOST
			"\r\n" GET("/empty"));
	client_read_response(fd, false, &r);
	CHECK_EQ(response_number(&r, "\r\nContent-Length"), BIG);
	client_read_response(fd, false, &r);
	CHECK(strstr(r.head, "Content-Encoding: gzip\r\n"));
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 200);
}

TEST(a_file_that_became_shorter_is_seen_to_be_cut)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);
	char rest[100];

	client_send(fd, GET("/short"));
	client_read_head(fd, &r);
	CHECK_EQ(recv(fd, rest, sizeof(rest), MSG_WAITALL), 10);
	CHECK(client_is_closed(fd));
}

static void inflate_all(const struct response *r, char *to, size_t room, size_t *ret_size)
{
	z_stream z = { .next_in = (unsigned char *)r->body, .avail_in = (unsigned)r->size };

	CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_out = (unsigned char *)to;
	z.avail_out = (unsigned)room;
	CHECK_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
	*ret_size = z.total_out;
	CHECK_EQ(inflateEnd(&z), Z_OK);
}

TEST(a_file_is_compressed_on_its_way)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	AUTO_FREE char *out = malloc(BIG + 1);
	size_t size = 0;
	RESPONSE(r);

	client_send(fd, GET("/gzip") GET("/small") GET("/empty"));
	client_read_response(fd, true, &r);
	CHECK(strstr(r.head, "Content-Encoding: gzip\r\n"));
	CHECK(strstr(r.head, "Vary: Accept-Encoding\r\n"));
	CHECK(r.size < BIG / 2);
	inflate_all(&r, out, BIG + 1, &size);
	CHECK_EQ(size, BIG);
	CHECK_MEM(out, content, BIG);
	client_read_response(fd, true, &r);
	inflate_all(&r, out, BIG + 1, &size);
	CHECK_EQ(size, 0);
	client_read_response(fd, true, &r);
	CHECK_EQ(r.status, 200);
}

TEST(an_old_client_gets_no_chunks)
{
	SAMPLE(s, .routes = tables);
	AUTO_FD fd = client_connect(&s);
	RESPONSE(r);
	char bytes[2];

	client_send(fd, "GET /gzip HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	client_read_head(fd, &r);
	CHECK(!response_find(&r, "Transfer-Encoding"));
	CHECK(strstr(r.head, "Connection: close\r\n"));
	client_read(fd, bytes, 2);
	CHECK_MEM(bytes, "\x1f\x8b", 2);
}

TEST(a_header_can_not_end_its_line)
{
	SAMPLE(s, .routes = tables);
	RESPONSE(r);

	client_ask(&s, GET("/nothing"), &r);
	CHECK_EQ(r.status, 204);
	CHECK(strstr(r.head, "X-One: a\r\nX-Two: b??X-Evil: c?\r\n\r\n"));
	CHECK(!response_find(&r, "Content-Length"));
}

static size_t memory_kib(void)
{
	char text[2048];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/status", text, sizeof(text));
	const char *at = n > 0 ? strstr(text, "VmRSS:") : NULL;

	CHECK(at);
	if (!at)
		return 0; /* not reached, but for the analyzer */
	return strtoul(at + strlen("VmRSS:"), NULL, 10);
}

/* A hundred who ask for a large file, again and again, and read nothing. */
TEST(who_does_not_read_costs_little)
{
	SAMPLE(s, .routes = tables);
	int fds[100];
	RESPONSE(r);

	client_ask(&s, GET("/file"), &r);
	size_t before = memory_kib();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client_connect(&s);
		client_send(fds[i], GET("/file") GET("/bytes") GET("/gzip"));
	}
	(void)usleep(300000);
	client_ask(&s, GET("/file"), &r); /* the others do not notice */
	CHECK_EQ(r.size, BIG);
	CHECK(memory_kib() < before + 100 * 160);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (i % 10 == 0) {
			client_read_response(fds[i], true, &r);
			CHECK_MEM(r.body, content, BIG);
		}
		(void)close(fds[i]);
	}
}

/* The same with bytes that a handler made, which have no file yet. */
TEST(bytes_that_nobody_reads_cost_no_memory)
{
	SCRATCH(dir);
	SAMPLE(s, .routes = tables, .spool_dir = dir.path);
	int fds[30];
	RESPONSE(r);

	client_ask(&s, GET("/bytes"), &r);
	size_t before = memory_kib();
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = client_connect(&s);
		client_send(fds[i], GET("/bytes"));
	}
	(void)usleep(300000);
	client_ask(&s, GET("/bytes"), &r);
	CHECK_EQ(r.size, 3 << 20);
	CHECK(memory_kib() < before + 30 * 160);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		client_read_response(fds[i], true, &r);
		CHECK_EQ(r.size, 3 << 20);
		CHECK_MEM(r.body, content, r.size);
		(void)close(fds[i]);
	}
}

static void take_gzips(struct sample *s)
{
	s->server->n_gzips += HTTP_GZIPS_MAX;
}

static void give_gzips(struct sample *s)
{
	s->server->n_gzips -= HTTP_GZIPS_MAX;
}

TEST(only_some_are_compressed_at_the_same_time)
{
	SAMPLE(s, .routes = tables);
	RESPONSE(r);

	sample_call(&s, take_gzips);
	client_ask(&s, GET("/gzip"), &r);
	CHECK_EQ(r.status, 200);
	CHECK(!strstr(r.head, "Content-Encoding"));
	CHECK_EQ(r.size, BIG);
	sample_call(&s, give_gzips);
	for (size_t i = 0; i < 2 * HTTP_GZIPS_MAX; i++) { /* those that are out do not count */
		client_ask(&s, GET("/small"), &r);
		CHECK(strstr(r.head, "Content-Encoding: gzip"));
	}
}

static int group_setup(void **state)
{
	(void)state;
	make_content();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { UNIT(a_file_is_sent_as_it_is),
		UNIT(a_head_request_gets_the_size_of_a_file),
		UNIT(a_file_that_became_shorter_is_seen_to_be_cut),
		UNIT(a_file_is_compressed_on_its_way), UNIT(an_old_client_gets_no_chunks),
		UNIT(a_header_can_not_end_its_line), UNIT(who_does_not_read_costs_little),
		UNIT(bytes_that_nobody_reads_cost_no_memory),
		UNIT(only_some_are_compressed_at_the_same_time) };

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
