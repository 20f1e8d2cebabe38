/* One connection: requests one after the other. Input is taken by the present state, which
 * says how many bytes it wants; what nobody wants yet is kept, and when that is something, the
 * wire is paused. An exchange that is answered is ended by settle(), never below a handler's
 * feet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/doing.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "http/http_private.h"

#define TOO_LARGE_SIZE 80

static const struct head_fault no_chunk = { 400, "bad_request", "the chunked body is malformed" };
static const struct head_fault no_room = { 507, "insufficient_storage",
	"there is no room for the body" };
static const struct head_fault head_too_large = { 431, "headers_too_large",
	"the head of the request is too large" };
static const struct head_fault is_tls = { 400, "bad_request",
	"this port speaks HTTP without TLS: use http:// in place of https://" };
static const struct head_fault too_slow = { 408, "request_timeout",
	"the request did not come in time" };

static void enter(struct conn *c, enum conn_state state)
{
	c->state = state;
	c->since_ms = uv_now(c->server->tick.loop);
}

/* --- the end of an exchange, and of a connection --- */

static void begin_linger(struct conn *c)
{
	enter(c, CONN_LINGER);
	if (wire_is_blocked(c->wire))
		return;
	c->is_shut = true;
	wire_shutdown(c->wire);
}

/* What is next after an answer. */
static enum conn_state next_state(const struct conn *c)
{
	if (c->ws)
		return CONN_WS;
	if (!c->x->keeps_alive)
		return CONN_LINGER;
	return c->x->is_dispatched || c->left == 0 ? CONN_HEAD : CONN_DROP;
}

static void settle(struct conn *c)
{
	if (!c->is_answered)
		return;
	enum conn_state next = next_state(c);
	struct exchange *x = TAKE(c->x);
	c->is_answered = false;
	c->scanned = 0;
	exchange_end(x);
	if (next == CONN_LINGER)
		begin_linger(c);
	else
		enter(c, next);
}

/* The connection is no good for another request. */
static void fail(struct conn *c, const struct head_fault *fault)
{
	c->x->keeps_alive = false;
	exchange_fail(c->x, fault);
}

/* --- a request, step by step --- */

static void dispatch(struct exchange *x)
{
	x->is_dispatched = true;
	enter(x->conn, CONN_BUSY);
	const char *before = doing_begin(x->route->pattern);
	if (streq(x->route->method, "WS"))
		ws_dispatch(x);
	else
		x->route->handle(x);
	doing_end(before);
}

static uint64_t max_body_of(const struct exchange *x)
{
	const struct route *r = x->route;

	if (r->body == BODY_NONE)
		return HTTP_DROP_MAX;
	if (r->body == BODY_MEMORY)
		return r->max_body < HTTP_BODY_MAX ? r->max_body : HTTP_BODY_MAX;
	if (r->max_body == 0 && x->server->options.limit_of)
		return x->server->options.limit_of(x);
	return r->max_body;
}

/* Who is told the limit can keep it. */
/* The body is, or turns out to be, larger than its path allows; `buf` has the text. */
static struct head_fault too_large(const struct exchange *x, char buf[TOO_LARGE_SIZE])
{
	(void)snprintf(buf, TOO_LARGE_SIZE, "the body is larger than this path allows: %llu bytes",
		(unsigned long long)x->body.max);
	return (struct head_fault){ 413, "payload_too_large", buf };
}

static int open_body(struct exchange *x)
{
	char text[TOO_LARGE_SIZE];
	struct err err = { 0 };

	body_init(&x->body, x->route->body, max_body_of(x));
	if (x->head.length > x->body.max) {
		const struct head_fault fault = too_large(x, text);

		exchange_fail(x, &fault);
		return -EFBIG;
	}
	int r = body_open(&x->body, x->server->options.spool_dir, &err);
	if (r < 0) {
		log_warn("%s", err.text);
		exchange_fail(x, &no_room);
	}
	return r;
}

static void begin_body(struct exchange *x, bool has_begun)
{
	struct conn *c = x->conn;

	if (c->left == 0 && !x->head.is_chunked) {
		dispatch(x);
		return;
	}
	enter(c, CONN_BODY);
	c->body_ms = c->since_ms;
	if (x->head.expects_continue && !has_begun)
		(void)wire_write(c->wire, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	x->head.expects_continue = false; /* it was told, so the body comes */
	if (!has_begun)
		wire_acknowledge(c->wire);
}

/* Everything up to the body. `has_begun` says that some of it is here already. */
static void begin(struct exchange *x, bool has_begun)
{
	struct http_server *s = x->server;
	struct head_fault fault;

	exchange_route_it(x, &fault);
	if (fault.status != 0) {
		exchange_fail(x, &fault);
		return;
	}
	if (s->options.gate && s->options.gate(x, x->route) < 0)
		return;
	if (open_body(x) == 0)
		begin_body(x, has_begun);
}

/* --- input, by state --- */

/* A head that is none: say so, and take no more from this client. */
static size_t refuse(struct conn *c, size_t size, const struct head_fault *fault)
{
	struct head_fault none;

	if (!c->x)
		c->x = exchange_new(c, NULL, 0, &none);
	enter(c, CONN_BUSY);
	fail(c, fault);
	return size;
}

static size_t skip_empty_lines(const char *data, size_t size)
{
	size_t n = 0;

	while (n < size && (data[n] == '\r' || data[n] == '\n'))
		n++;
	return n;
}

/* The first byte of a TLS handshake: no line ever ends it, so it would be waited for in vain. */
static bool begins_tls(const char *data)
{
	return *data == 0x16;
}

static size_t take_head(struct conn *c, const char *data, size_t size)
{
	struct head_fault fault;
	size_t n = c->scanned == 0 ? skip_empty_lines(data, size) : 0;

	if (n > 0)
		return n;
	if (begins_tls(data)) {
		log_warn("%s speaks TLS (https://) to a port that is for http://",
			wire_peer(c->wire));
		return refuse(c, size, &is_tls);
	}
	n = head_find_end(data, size, &c->scanned);
	if (n > HTTP_HEADERS_MAX || (n == 0 && size >= HTTP_HEADERS_MAX))
		return refuse(c, size, &head_too_large);
	if (n == 0)
		return 0;
	c->x = exchange_new(c, data, n, &fault);
	if (fault.status != 0)
		return refuse(c, size, &fault);
	c->left = c->x->head.length;
	c->chunk = (struct chunk){ 0 };
	enter(c, CONN_BUSY);
	begin(c->x, size > n);
	return n;
}

/* Take a piece of the body from `data`: what of it is content, and how much was taken; or
 * -EBADMSG. */
static int next_piece(
	struct conn *c, const char *data, size_t size, const char **ret_piece, size_t *ret_size)
{
	if (c->x && c->x->head.is_chunked)
		return chunk_read(&c->chunk, data, size, ret_piece, ret_size);
	*ret_piece = data;
	*ret_size = c->left < size ? (size_t)c->left : size;
	c->left -= *ret_size;
	return (int)*ret_size;
}

static bool is_body_over(const struct conn *c)
{
	return c->x->head.is_chunked ? chunk_is_over(&c->chunk) : c->left == 0;
}

static size_t take_body(struct conn *c, const char *data, size_t size)
{
	const char *piece = NULL;
	size_t n_piece = 0;
	int n = next_piece(c, data, size, &piece, &n_piece);

	if (n < 0)
		return refuse(c, size, &no_chunk);
	c->since_ms = uv_now(c->server->tick.loop);
	int r = body_add(&c->x->body, piece, n_piece);
	if (r < 0) {
		char text[TOO_LARGE_SIZE];
		const struct head_fault fault = r == -EFBIG ? too_large(c->x, text) : no_room;

		return refuse(c, size, &fault);
	}
	if (is_body_over(c))
		dispatch(c->x);
	return (size_t)n;
}

static size_t take_nothing(struct conn *c, const char *data, size_t size)
{
	(void)c;
	(void)data;
	(void)size;
	return 0;
}

static size_t take_dropped(struct conn *c, const char *data, size_t size)
{
	size_t n = c->left < size ? (size_t)c->left : size;

	(void)data;
	c->left -= n;
	if (c->left == 0)
		enter(c, CONN_HEAD);
	return n;
}

static size_t take_all(struct conn *c, const char *data, size_t size)
{
	(void)c;
	(void)data;
	return size;
}

static size_t take_frames(struct conn *c, const char *data, size_t size)
{
	return ws_take(c->ws, data, size);
}

static size_t (*const take[])(struct conn *c, const char *data, size_t size) = {
	[CONN_HEAD] = take_head,
	[CONN_BODY] = take_body,
	[CONN_BUSY] = take_nothing,
	[CONN_SENDING] = take_nothing,
	[CONN_DROP] = take_dropped,
	[CONN_LINGER] = take_all,
	[CONN_WS] = take_frames,
};

/* As much of the input as is wanted now. */
static size_t conn_take(struct conn *c, const char *data, size_t size)
{
	size_t at = 0;

	c->is_taking = true;
	for (;;) {
		settle(c);
		if (at == size)
			break;
		size_t n = take[c->state](c, data + at, size - at);
		if (n == 0)
			break;
		at += n;
	}
	c->is_taking = false;
	return at;
}

/* --- input that waits --- */

static void keep(struct conn *c, const char *data, size_t size)
{
	if (c->in_size + size > c->in_room) {
		/* At most a head that is not whole, and one read behind it. */
		c->in_room = c->in_size + size;
		c->in = realloc(c->in, c->in_room);
		if (!c->in)
			abort();
	}
	memcpy(c->in + c->in_size, data, size);
	c->in_size += size;
}

static void forget(struct conn *c, size_t size)
{
	if (size == 0)
		return;
	c->in_size -= size;
	if (c->in_size > 0) {
		memmove(c->in, c->in + size, c->in_size);
		return;
	}
	free(TAKE(c->in));
	c->in_room = 0;
}

/* Input waits because the request before it does: the client can wait as well. */
static void update_pause(struct conn *c)
{
	wire_pause(c->wire, c->in_size > 0 && take[c->state] == take_nothing);
}

static void on_input(void *conn, const char *data, size_t size)
{
	struct conn *c = conn;

	if (c->in_size > 0) {
		keep(c, data, size);
		forget(c, conn_take(c, c->in, c->in_size));
	} else {
		if (c->state == CONN_HEAD)
			enter(c, CONN_HEAD); /* from its first byte on, a head has its time */
		size_t n = conn_take(c, data, size);
		if (n < size)
			keep(c, data + n, size - n);
	}
	update_pause(c);
}

/* The next request, if it is here already, has its turn later: who just gave an answer does
 * not expect to be asked something else before that call returns. */
static void settle_now(struct conn *c)
{
	settle(c);
	if (c->in_size > 0)
		wire_want_write(c->wire);
}

void conn_answered(struct conn *c)
{
	c->is_answered = true;
	if (!c->is_taking)
		settle_now(c);
}

/* --- the other events --- */

static void *on_opened(void *ctx, struct wire *w)
{
	struct conn *c = xnew(struct conn);

	c->server = ctx;
	c->wire = w;
	enter(c, CONN_HEAD);
	server_conn_opened(c->server, c);
	return c;
}

static void on_writable(void *conn)
{
	struct conn *c = conn;

	if (c->state == CONN_SENDING)
		reply_continue(c->x);
	else if (c->state == CONN_LINGER && !c->is_shut)
		begin_linger(c);
	else if (c->state == CONN_WS)
		ws_writable(c->ws);
	if (c->in_size > 0) {
		forget(c, conn_take(c, c->in, c->in_size));
		update_pause(c);
	}
}

static void lose_exchange(struct exchange *x)
{
	x->conn = NULL;
	if (x->is_answered || !x->is_dispatched) {
		/* Its handler has nothing more to say, or never heard of it. */
		exchange_end(x);
		return;
	}
	if (x->gone)
		x->gone(x, x->gone_ctx);
}

static void on_closed(void *conn)
{
	struct conn *c = conn;
	struct http_server *s = c->server;

	if (c->x)
		lose_exchange(TAKE(c->x));
	ws_free(c->ws);
	free(c->in);
	server_conn_closed(s, c);
	free(c);
}

/* Whoever has sent nothing, or only part of a head, for longest: somebody slow on purpose can
 * not keep others out for more than a moment, and who was just idle connects again. */
static bool on_full(void *ctx)
{
	struct http_server *s = ctx;
	struct conn *oldest = NULL;

	for (struct conn *c = LIST_FIRST(&s->conns); c; c = LIST_NEXT(c, all)) {
		if (c->state == CONN_HEAD && !c->is_evicted &&
			(!oldest || c->since_ms < oldest->since_ms))
			oldest = c;
	}
	if (!oldest)
		return false;
	oldest->is_evicted = true;
	wire_close(oldest->wire);
	return true;
}

const struct wire_ops conn_ops = {
	.opened = on_opened,
	.input = on_input,
	.writable = on_writable,
	.closed = on_closed,
	.make_room = on_full,
};

/* --- time --- */

/* Too slow: a word to a client that was in the middle of something. */
static void time_out(struct conn *c)
{
	if (c->state == CONN_BODY || (c->state == CONN_HEAD && c->in_size > 0)) {
		c->is_taking = true; /* so that the exchange is there until we return */
		(void)refuse(c, 0, &too_slow);
		c->is_taking = false;
		settle_now(c);
		return;
	}
	wire_close(c->wire);
}

static bool is_trickle(const struct conn *c, uint64_t now_ms)
{
	uint64_t earned_ms = c->state == CONN_BODY ? c->x->body.size * 1000 / HTTP_BODY_RATE : 0;

	return c->state == CONN_BODY && now_ms - c->body_ms >= c->server->idle_ms + earned_ms;
}

/* Nothing waits for the client: there is just nothing to say. */
static bool is_flowing(const struct conn *c)
{
	return c->state == CONN_SENDING && c->x->sending.flow && !wire_is_blocked(c->wire);
}

void conn_tick(struct conn *c, uint64_t now_ms)
{
	uint64_t waited = now_ms - c->since_ms;

	if (is_flowing(c))
		return;
	if (c->state == CONN_WS)
		ws_tick(c->ws, now_ms);
	else if (c->state == CONN_LINGER && waited >= HTTP_LINGER_MS)
		wire_close(c->wire);
	else if (c->state != CONN_BUSY && (waited >= c->server->idle_ms || is_trickle(c, now_ms)))
		time_out(c);
}

void conn_end(struct conn *c)
{
	if (c->state == CONN_WS)
		ws_close(c->ws, FRAME_CODE_RESTART, "service restart");
	else
		wire_close(c->wire);
}
