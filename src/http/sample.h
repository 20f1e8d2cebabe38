/* For the tests: a server on a loop of its own in a thread of its own, and a client that
 * blocks, with a deadline for everything it waits for. */
#pragma once
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "http/chunk.h"
#include "http/frame.h"
#include "http/head.h"
#include "http/http.h"

#define SAMPLE_WAIT_SEC 10

/* What is checked here is not what a test is about, but what it stands on. */
#define MUST(cond) ((cond) ? (void)0 : sample_give_up(__FILE__, __LINE__, #cond))

static inline _Noreturn void sample_give_up(const char *file, int line, const char *what)
{
	(void)fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

struct sample {
	struct http_options options;
	struct http_server *server;
	uv_loop_t loop;
	uv_async_t stop;
	uv_async_t call; /* runs `task` on the loop */
	void (*task)(struct sample *s);
	pthread_t thread;
	sem_t ready;
	sem_t called;
	int started; /* what http_start() said */
	int ended;   /* what uv_loop_close() said: 0 when nothing was left behind */
	struct err err;
};

static inline void sample_on_closed(void *ctx)
{
	struct sample *s = ctx;

	uv_close((uv_handle_t *)&s->stop, NULL);
	uv_close((uv_handle_t *)&s->call, NULL);
}

static inline void sample_on_stop(uv_async_t *async)
{
	struct sample *s = async->data;

	if (s->started == 0)
		http_close(s->server, sample_on_closed, s);
	else
		sample_on_closed(s);
}

static inline void sample_on_call(uv_async_t *async)
{
	struct sample *s = async->data;

	s->task(s);
	(void)sem_post(&s->called);
}

static inline void *sample_main(void *ctx)
{
	struct sample *s = ctx;

	(void)uv_loop_init(&s->loop);
	(void)uv_async_init(&s->loop, &s->stop, sample_on_stop);
	(void)uv_async_init(&s->loop, &s->call, sample_on_call);
	s->stop.data = s->call.data = s;
	s->started = http_start(&s->loop, &s->options, &s->server, &s->err);
	(void)sem_post(&s->ready);
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	s->ended = uv_loop_close(&s->loop);
	return NULL;
}

static inline void sample_start(struct sample *s)
{
	if (!s->options.spool_dir)
		s->options.spool_dir = "/tmp";
	if (!s->options.host && !s->options.socket)
		s->options.host = "127.0.0.1";
	(void)sem_init(&s->ready, 0, 0);
	(void)sem_init(&s->called, 0, 0);
	if (pthread_create(&s->thread, NULL, sample_main, s) != 0)
		abort();
	(void)sem_wait(&s->ready);
}

/* Run something on the loop, and wait until it is done. */
static inline void sample_call(struct sample *s, void (*task)(struct sample *s))
{
	s->task = task;
	(void)uv_async_send(&s->call);
	(void)sem_wait(&s->called);
}

/* What a test left open is closed by the server. */
static inline void sample_stop(struct sample *s)
{
	(void)uv_async_send(&s->stop);
	(void)pthread_join(s->thread, NULL);
	if (s->ended != 0)
		abort();
}

#define SAMPLE(name, ...)                                                                          \
	CLEANUP(sample_stop) struct sample name = { .options = { __VA_ARGS__ } };                  \
	sample_start(&name);                                                                       \
	if (name.started < 0)                                                                      \
	fail_msg("%s", name.err.text)

/* --- the client --- */

static inline void client_set_deadline(int fd)
{
	struct timeval wait = { .tv_sec = SAMPLE_WAIT_SEC };

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

static inline int client_connect(const struct sample *s)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(http_port(s->server)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	client_set_deadline(fd);
	MUST(connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
	return fd;
}

static inline void client_send_bytes(int fd, const void *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = send(fd, (const char *)data + at, size - at, MSG_NOSIGNAL);
		MUST(n > 0);
		at += (size_t)n;
	}
}

static inline void client_send(int fd, const char *text)
{
	client_send_bytes(fd, text, strlen(text));
}

static inline void client_read(int fd, void *to, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t n = recv(fd, (char *)to + at, size - at, 0);
		MUST(n > 0);
		at += (size_t)n;
	}
}

/* Whether the server closes, rather than say more. */
static inline bool client_is_closed(int fd)
{
	char c = 0;

	return recv(fd, &c, 1, 0) == 0;
}

struct response {
	int status;
	char head[4096]; /* all of it, terminated */
	char *body;      /* terminated; freed with the response */
	size_t size;
};

static inline void response_fini(struct response *r)
{
	free(r->body);
}

#define RESPONSE(name) CLEANUP(response_fini) struct response name = { 0 }

/* The value of a header, as far as its line goes, or NULL. */
static inline const char *response_find(const struct response *r, const char *name)
{
	const char *at = strcasestr(r->head, name);

	return at ? at + strlen(name) + 2 : NULL;
}

static inline long response_number(const struct response *r, const char *name)
{
	const char *text = response_find(r, name);

	return text ? strtol(text, NULL, 10) : -1;
}

static inline void client_read_head(int fd, struct response *ret)
{
	size_t n = 0;

	while (n < 4 || memcmp(ret->head + n - 4, "\r\n\r\n", 4) != 0) {
		MUST(n + 1 < sizeof(ret->head));
		client_read(fd, ret->head + n++, 1);
	}
	ret->head[n] = '\0';
	ret->status = (int)strtol(ret->head + strlen("HTTP/1.1 "), NULL, 10);
}

/* A whole chunk at a time; what is around them byte by byte. */
static inline void client_read_chunks(int fd, struct response *ret)
{
	struct chunk c = { 0 };

	while (!chunk_is_over(&c)) {
		size_t want = c.state == CHUNK_DATA ? (size_t)c.left : 1;
		AUTO_FREE char *data = malloc(want);
		const char *piece = NULL;
		size_t n = 0;

		client_read(fd, data, want);
		MUST(chunk_read(&c, data, want, &piece, &n) >= 0);
		ret->body = realloc(ret->body, ret->size + n + 1);
		memcpy(ret->body + ret->size, piece, n);
		ret->size += n;
	}
}

/* One answer; `has_body` is false for that to a HEAD. */
static inline void client_read_response(int fd, bool has_body, struct response *ret)
{
	response_fini(ret);
	*ret = (struct response){ 0 };
	client_read_head(fd, ret);
	const char *length = response_find(ret, "\r\nContent-Length");
	if (has_body && !length && response_find(ret, "Transfer-Encoding")) {
		client_read_chunks(fd, ret);
		return;
	}
	ret->size = has_body && length ? strtoul(length, NULL, 10) : 0;
	ret->body = calloc(1, ret->size + 1);
	client_read(fd, ret->body, ret->size);
}

/* Ask on a connection of its own. */
static inline void client_ask(const struct sample *s, const char *request, struct response *ret)
{
	AUTO_FD fd = client_connect(s);

	client_send(fd, request);
	client_read_response(fd, true, ret);
}

/* --- WebSockets --- */

#define CLIENT_UPGRADE                                                                             \
	"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"    \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static inline int client_connect_ws(const struct sample *s, const char *path)
{
	RESPONSE(r);
	int fd = client_connect(s);

	client_send(fd, "GET ");
	client_send(fd, path);
	client_send(fd, " HTTP/1.1\r\n" CLIENT_UPGRADE);
	client_read_response(fd, true, &r);
	MUST(r.status == 101);
	MUST(strstr(r.head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
	return fd;
}

/* `first` is the first byte: 0x81 is a whole text. */
static inline void client_send_frame(int fd, unsigned char first, const void *data, size_t size)
{
	static const char mask[4] = { 1, 2, 3, 4 };
	AUTO_FREE char *out = malloc(FRAME_HEAD_MAX + size);
	unsigned char *head = (unsigned char *)out + FRAME_OUT_MAX;
	size_t n = frame_write_head(FRAME_TEXT, size, head);
	char *at = (char *)head - n;

	at[0] = (char)first;
	at[1] = (char)(at[1] | 0x80);
	memcpy(at + n, mask, sizeof(mask));
	for (size_t i = 0; i < size; i++)
		at[n + 4 + i] = (char)(((const char *)data)[i] ^ mask[i & 3]);
	client_send_bytes(fd, at, n + 4 + size);
}

static inline void client_send_text(int fd, const char *text)
{
	client_send_frame(fd, 0x81, text, strlen(text));
}

/* The next frame's payload, terminated, which the caller frees. */
static inline char *client_read_frame(int fd, unsigned *ret_opcode, size_t *ret_size)
{
	unsigned char head[2];
	unsigned char more[8];
	size_t size = 0;

	client_read(fd, head, 2);
	size_t n_more = head[1] < 126 ? 0 : head[1] == 126 ? 2 : 8;
	client_read(fd, more, n_more);
	for (size_t i = 0; i < n_more; i++)
		size = size << 8 | more[i];
	if (n_more == 0)
		size = head[1];
	char *data = calloc(1, size + 1);
	client_read(fd, data, size);
	*ret_opcode = head[0] & 0x0f;
	*ret_size = size;
	return data;
}

static inline void client_expect_text(int fd, const char *text)
{
	unsigned opcode = 0;
	size_t size = 0;
	AUTO_FREE char *data = client_read_frame(fd, &opcode, &size);

	MUST(opcode == FRAME_TEXT);
	MUST(streq(data, text));
}

/* A close frame of this code comes, with `reason` if that is given. */
static inline void client_expect_close(int fd, unsigned code, const char *reason)
{
	unsigned opcode = 0;
	size_t size = 0;
	AUTO_FREE char *data = client_read_frame(fd, &opcode, &size);

	MUST(opcode == FRAME_CLOSE);
	MUST(size >= 2);
	MUST(((unsigned)(unsigned char)data[0] << 8 | (unsigned char)data[1]) == code);
	if (reason)
		MUST(streq(data + 2, reason));
}
