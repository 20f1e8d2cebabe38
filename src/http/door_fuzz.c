/* The whole door without a network: this file stands in for lws.c, and brings bytes to the
 * state machine of a connection in pieces that the input chooses, with a peer that is now and
 * then slow to read. Two bytes choose; the rest is what the client sends. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/shared.h"
#include "http/http.h"
#include "http/wire.h"
#include "lib/random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the wire --- */

struct hub {
	const struct wire_ops *ops;
	void *ctx;
	void (*done)(void *ctx);
	void *done_ctx;
};

struct wire {
	bool is_closing;
	bool is_paused;
	bool is_blocked;
	bool wants_write;
};

static struct hub hub;
static struct wire wire;
static uint64_t chance;

int hub_start(uv_loop_t *loop, const struct hub_options *options, struct hub **ret, struct err *err)
{
	(void)loop;
	(void)err;
	hub = (struct hub){ .ops = options->ops, .ctx = options->ctx };
	*ret = &hub;
	return 0;
}

int hub_listen_local(struct hub *h, const char *path, struct err *err)
{
	(void)h;
	(void)path;
	(void)err;
	return -ENOSYS;
}

uint16_t hub_port(const struct hub *h)
{
	return h->ops ? 1 : 0;
}

void hub_stop_listening(struct hub *h)
{
	(void)h;
}

void hub_close(struct hub *h, void (*done)(void *ctx), void *ctx)
{
	h->done = done;
	h->done_ctx = ctx;
}

const char *wire_peer(const struct wire *w)
{
	(void)w;
	return "fuzz";
}

bool wire_is_local(const struct wire *w)
{
	(void)w;
	return false;
}

bool wire_is_tls(const struct wire *w)
{
	(void)w;
	return false;
}

/* Reads all of it, so that a sanitizer sees what is not there. */
bool wire_write(struct wire *w, const void *data, size_t size)
{
	static char sent[1 << 20];

	memcpy(sent, data, size < sizeof(sent) ? size : sizeof(sent));
	if (!w->is_closing && random_below(&chance, 4) == 0)
		w->is_blocked = true;
	return !w->is_blocked;
}

void wire_want_write(struct wire *w)
{
	w->wants_write = true;
}

bool wire_is_blocked(const struct wire *w)
{
	return !w->is_closing && w->is_blocked;
}

void wire_pause(struct wire *w, bool on)
{
	w->is_paused = on;
}

void wire_acknowledge(struct wire *w)
{
	(void)w;
}

void wire_shutdown(struct wire *w)
{
	(void)w;
}

void wire_close(struct wire *w)
{
	w->is_closing = true;
}

/* --- the doors --- */

static struct exchange *later;

static void handle_echo(struct exchange *x)
{
	size_t size = 0;
	const char *body = exchange_body(x, &size);

	exchange_reply_bytes(x, 200, "text/plain", body, size);
}

static void handle_tell(struct exchange *x)
{
	const char *name = NULL;
	const char *value = NULL;

	for (size_t i = 0; exchange_query_at(x, i, &name, &value); i++)
		if (!exchange_query(x, name))
			abort();
	if (strlen(exchange_param(x, "rest")) > strlen(exchange_param_raw(x, "rest")) ||
		exchange_param(x, "id")[0] == '\0')
		abort();
	exchange_set_header(x, "X-Id", exchange_header(x, "x-id") ? "given" : "none");
	exchange_reply_json(x, 200, json_object());
}

static void handle_file(struct exchange *x)
{
	exchange_reply_file(
		x, 200, "text/plain", open("/dev/zero", O_RDONLY | O_CLOEXEC), 0, 200000);
}

static void handle_gzip(struct exchange *x)
{
	exchange_reply_gzip(x, 200, "text/plain", open("/dev/zero", O_RDONLY | O_CLOEXEC), 70000);
}

static void handle_spool(struct exchange *x)
{
	uint64_t size = 0;

	if (lseek(exchange_body_fd(x, &size), 0, SEEK_END) != (off_t)size)
		abort();
	exchange_reply_bytes(x, 204, NULL, NULL, 0);
}

static void on_gone(struct exchange *x, void *ctx)
{
	(void)ctx;
	if (later != x)
		abort();
	later = NULL;
	exchange_reply_bytes(x, 200, NULL, NULL, 0);
}

static void handle_later(struct exchange *x)
{
	if (later)
		abort(); /* one connection has one request at a time */
	later = x;
	exchange_on_gone(x, on_gone, NULL);
}

struct socket {
	struct ws *ws;
	unsigned n_owed;
};

static struct shared *on_next(void *ctx)
{
	struct socket *s = ctx;

	if (s->n_owed == 0)
		return NULL;
	s->n_owed--;
	struct shared *m = shared_new(200);
	memset(shared_data(m), 'x', 200);
	return m;
}

static void on_message(void *ctx, const char *data, size_t size, bool is_text)
{
	struct socket *s = ctx;

	if (size > WS_MESSAGE_MAX)
		abort();
	if (is_text && size > 0 && data[0] == 'q')
		ws_close(s->ws, 4000, "quit");
	s->n_owed++;
	ws_want_write(s->ws);
}

static void on_closed(void *ctx)
{
	free(ctx);
}

static const struct ws_ops ops = { .next = on_next, .message = on_message, .closed = on_closed };

static void handle_ws(struct exchange *x)
{
	if (exchange_query(x, "no")) {
		exchange_reply_bytes(x, 403, NULL, NULL, 0);
		return;
	}
	struct socket *s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->ws = exchange_accept_ws(x, &ops, s);
}

static const struct route routes[] = {
	{ .method = "POST",
		.pattern = "/e",
		.body = BODY_MEMORY,
		.max_body = 100,
		.handle = handle_echo },
	{ .method = "GET", .pattern = "/t/{id}/{rest*}", .handle = handle_tell },
	{ .method = "GET", .pattern = "/f", .handle = handle_file },
	{ .method = "GET", .pattern = "/g", .handle = handle_gzip },
	{ .method = "PUT",
		.pattern = "/s",
		.body = BODY_FILE,
		.max_body = 1000,
		.handle = handle_spool },
	{ .method = "GET", .pattern = "/l", .handle = handle_later },
	{ .method = "POST", .pattern = "/no", .access = 1, .handle = handle_later },
	{ .method = "WS", .pattern = "/w", .handle = handle_ws },
	{ 0 },
};
static const struct route *const tables[] = { routes, NULL };

static int gate(struct exchange *x, const struct route *route)
{
	if (route->access == 0)
		return 0;
	exchange_reply_bytes(x, 401, NULL, NULL, 0);
	return -EACCES;
}

/* --- one connection --- */

static uv_loop_t loop;
static struct http_server *server;

static void start(void)
{
	const struct http_options options = { .routes = tables, .gate = gate, .spool_dir = "/tmp" };

	log_set_level(LOG_LEVEL_ERROR);
	(void)uv_loop_init(&loop);
	if (http_start(&loop, &options, &server, NULL) < 0)
		abort();
}

static void let_write(void *conn)
{
	if (!wire.wants_write && !wire.is_blocked)
		return;
	wire.wants_write = wire.is_blocked = false;
	hub.ops->writable(conn);
}

static void answer_later(void)
{
	struct exchange *x = later;

	later = NULL;
	if (x)
		exchange_reply_bytes(x, 200, "text/plain", "later", 5);
}

/* What the loop would do, in an order of chance. */
static size_t turn(void *conn, const char *data, size_t size, size_t piece)
{
	uint64_t what = random_below(&chance, 8);
	size_t n = size < piece ? size : piece;

	if (what == 0)
		answer_later();
	if (what <= 2)
		let_write(conn);
	if (wire.is_closing || wire.is_paused || wire.is_blocked) {
		answer_later();
		let_write(conn);
	}
	if (wire.is_closing || wire.is_paused || wire.is_blocked)
		return 0;
	hub.ops->input(conn, data, n);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!server)
		start();
	if (size < 2)
		return 0;
	chance = data[0];
	size_t piece = data[1] ? data[1] : size;
	wire = (struct wire){ 0 };
	void *conn = hub.ops->opened(hub.ctx, &wire);
	for (size_t at = 2, n_idle = 0; at < size && !wire.is_closing && n_idle < 100;) {
		char *copy = malloc(piece); /* of its own, to see who reads beyond it */
		size_t n = size - at < piece ? size - at : piece;

		if (!copy)
			abort();
		memcpy(copy, data + at, n);
		n = turn(conn, copy, n, piece);
		free(copy);
		at += n;
		n_idle = n > 0 ? 0 : n_idle + 1;
	}
	hub.ops->closed(conn);
	if (later)
		abort();
	return 0;
}
