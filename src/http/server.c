/* The server as a whole: options, the list of connections, their clock, and the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"
#include "http/http_private.h"

#define TICK_MS             1000u
#define DEFAULT_CONNECTIONS 4096u
#define DEFAULT_IDLE_SEC    60u

const char *server_date(struct http_server *s)
{
	time_t now = time(NULL);
	struct tm tm;

	if (now != s->date_of && gmtime_r(&now, &tm)) {
		/* The locale is "C" in this program, and the names are English. */
		(void)strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		s->date_of = now;
	}
	return s->date;
}

/* --- the end --- */

static void server_free(struct http_server *s)
{
	router_free(s->router);
	free(s);
}

static void on_tick_closed(uv_handle_t *handle)
{
	struct http_server *s = handle->data;

	if (s->done)
		s->done(s->done_ctx);
	server_free(s);
}

static void on_hub_closed(void *ctx)
{
	struct http_server *s = ctx;

	uv_close((uv_handle_t *)&s->tick, on_tick_closed);
}

/* Nothing is left but the listening socket, which goes last. */
static void maybe_end(struct http_server *s)
{
	if (!s->is_closing || !s->hub || !LIST_EMPTY(&s->conns) || s->n_exchanges > 0)
		return;
	hub_close(TAKE(s->hub), on_hub_closed, s);
}

void http_close(struct http_server *s, void (*done)(void *ctx), void *ctx)
{
	s->is_closing = true;
	s->done = done;
	s->done_ctx = ctx;
	hub_stop_listening(s->hub);
	for (struct conn *c = LIST_FIRST(&s->conns); c; c = LIST_NEXT(c, all))
		conn_end(c);
	maybe_end(s);
}

/* --- connections --- */

static void on_tick(uv_timer_t *timer)
{
	struct http_server *s = timer->data;
	uint64_t now = uv_now(timer->loop);

	for (struct conn *c = LIST_FIRST(&s->conns); c; c = LIST_NEXT(c, all))
		conn_tick(c, now);
}

void server_conn_opened(struct http_server *s, struct conn *c)
{
	if (LIST_EMPTY(&s->conns))
		(void)uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
	LIST_INSERT_HEAD(&s->conns, c, all);
}

void server_conn_closed(struct http_server *s, struct conn *c)
{
	LIST_REMOVE(c, all);
	if (LIST_EMPTY(&s->conns))
		(void)uv_timer_stop(&s->tick);
	maybe_end(s);
}

void server_exchange_ended(struct http_server *s)
{
	s->n_exchanges--;
	maybe_end(s);
}

/* --- the start --- */

static void apply_defaults(struct http_options *o)
{
	if (o->max_connections == 0)
		o->max_connections = DEFAULT_CONNECTIONS;
	if (o->idle_sec == 0)
		o->idle_sec = DEFAULT_IDLE_SEC;
}

int http_start(uv_loop_t *loop, const struct http_options *options, struct http_server **ret,
	struct err *err)
{
	struct http_server *s = xnew(struct http_server);

	s->options = *options;
	apply_defaults(&s->options);
	s->idle_ms = (uint64_t)s->options.idle_sec * 1000;
	const struct hub_options hub = {
		.host = s->options.host,
		.port = s->options.port,
		.socket = s->options.socket,
		.tls_cert = s->options.tls_cert,
		.tls_key = s->options.tls_key,
		.max_connections = s->options.max_connections,
		.timeout_sec = s->options.idle_sec,
		.ops = &conn_ops,
		.ctx = s,
	};
	int r = router_new(options->routes, &s->router, err);
	if (r == 0)
		r = hub_start(loop, &hub, &s->hub, err);
	if (r < 0) {
		server_free(s);
		return r;
	}
	(void)uv_timer_init(loop, &s->tick);
	s->tick.data = s;
	*ret = s;
	return 0;
}

uint16_t http_port(const struct http_server *s)
{
	return hub_port(s->hub);
}

int http_listen_local(struct http_server *s, const char *path, struct err *err)
{
	return hub_listen_local(s->hub, path, err);
}

size_t http_count_connections(const struct http_server *s)
{
	size_t n = 0;

	for (const struct conn *c = LIST_FIRST(&s->conns); c; c = LIST_NEXT(c, all))
		n++;
	return n;
}

void http_stop_listening(struct http_server *s)
{
	hub_stop_listening(s->hub);
}
