/* The HTTP server, as the doors see it: routes are rows of a table, a request is an
 * exchange that is answered once, now or later, and a WebSocket is a pair of calls. All
 * on one loop. libwebsockets is hidden in lws.c.
 *
 * HTTP/1.1 and 1.0, without HTTP/2. A head is read strictly (see head.h); a body may be
 * chunked; one that says nothing of its length is empty. A path is split at its slashes before
 * it is decoded, so "%2F" never separates, and the literal parts of a pattern are compared as
 * they came.
 *
 * An exchange belongs to the server. A handler that does not answer at once keeps the
 * pointer and must answer exactly once; when the client is gone before that, answering is
 * still right and does nothing. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct exchange;
struct http_server;
struct shared;
struct ws;
typedef struct uv_loop_s uv_loop_t;

#define HTTP_PARAMS_MAX  4           /* {name}s in one pattern */
#define HTTP_HEADERS_MAX (16u << 10) /* bytes of a request's head; more is 431 */
#define HTTP_BODY_MAX    (8u << 20)  /* of a body held in memory, whatever a route says */

/* What becomes of a request's body. */
enum body_mode {
	BODY_NONE,   /* dropped as it comes up to 64 KiB, more is 413 */
	BODY_MEMORY, /* up to max_body bytes, exchange_body() */
	BODY_FILE,   /* spooled to a nameless file as it comes, exchange_body_fd() */
};

struct route {
	const char *method; /* "GET" (also serves HEAD), "POST", "DELETE", or "WS" for an upgrade */
	const char *pattern; /* "/runs/{id}/artifacts/{path*}". {id} takes one part that is not
				empty; {path*}, only at the end, all that is left, also nothing.
				Where two patterns fit, the one that is literal earlier wins */
	unsigned access;     /* what the gate looks at: a meaning of the doors' own */
	enum body_mode body;
	uint64_t
		max_body; /* bytes; more is 413 before it is read. 0 with BODY_FILE: ask limit_of */
	void (*handle)(struct exchange *x);
	const char *query; /* the parameters it knows, divided by blanks; NULL: not looked at */
};

/* Called before a route's handler, and before any of its body is read, with what the head
 * says: returns 0, or has answered with an error and returns a negative errno. */
typedef int http_gate_fn(struct exchange *x, const struct route *route);

/* No route fits: 404 not_found, 405 method_not_allowed (the Allow header is set already), or
 * 426 upgrade_required for a plain GET where there is only a WebSocket. Also every error that
 * the server itself finds (400 bad_request, 408 request_timeout, 413 payload_too_large,
 * 414 uri_too_long, 417 expectation_failed, 431 headers_too_large, 501 not_implemented,
 * 505 version_not_supported, 507 insufficient_storage) comes by here, so that all errors look
 * the same. Must answer before it returns. With a malformed head there is no route, no header,
 * and maybe no method and no path: those are "". Only 503, for a connection too many, has
 * nobody to ask: it has no body. NULL: plain text. */
typedef void http_error_fn(struct exchange *x, int status, const char *code, const char *message);

/* Every answer, when it is out or its client gone: for logs and counters. `bytes` are those of
 * the body. An upgrade is logged as 101 when it is accepted. */
typedef void http_log_fn(const struct exchange *x, int status, uint64_t bytes, uint64_t took_ns);

struct http_options {
	const char *host;     /* an address, or NULL with `socket` */
	uint16_t port;        /* 0: any, see http_port() */
	const char *socket;   /* path of a UNIX socket instead; mode 0660 */
	const char *tls_cert; /* PEM files; NULL: no TLS */
	const char *tls_key;
	const char *spool_dir;    /* where bodies are spooled */
	unsigned max_connections; /* default 4096; who waits longest for a request makes room */
	unsigned idle_sec;        /* keep-alive, slow heads and bodies, default 60 */
	const struct route *const
		*routes; /* tables that end with a row without a method; ends with NULL */
	http_gate_fn *gate;
	http_error_fn *error;
	http_log_fn *log;
	uint64_t (*limit_of)(const struct exchange *x); /* for max_body == 0 */
	void *ctx;                                      /* exchange_ctx() */
};

/* The options are copied; the routes and the texts must stay. 0, or a negative errno with a
 * sentence (-EADDRINUSE, -EINVAL for a bad address, pattern or certificate): what was begun by
 * then is gone after some turns of the loop. */
int http_start(uv_loop_t *loop, const struct http_options *options, struct http_server **ret,
	struct err *err);
uint16_t http_port(const struct http_server *s);

/* Listen on a UNIX socket as well that only we and root may use (mode 0600), without TLS. Who
 * comes by it is us, or somebody who could be: exchange_is_local(). Once. */
int http_listen_local(struct http_server *s, const char *path, struct err *err);

size_t http_count_connections(const struct http_server *s);

/* Take no more connections; those that are open stay. */
void http_stop_listening(struct http_server *s);

/* Close everything. WebSockets are closed with 1012 (service restart), unless they were
 * closed before, and have two seconds to agree; other connections are dropped, and handlers
 * that still work on an answer hear of it by `gone`. `done` comes when the last connection is
 * gone and the last exchange answered; the server is no more then. */
void http_close(struct http_server *s, void (*done)(void *ctx), void *ctx);

/* --- the request --- */

void *exchange_ctx(const struct exchange *x);
const struct route *exchange_route(const struct exchange *x); /* NULL when none fits */
const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x); /* decoded once, without the query */
const char *exchange_peer(const struct exchange *x); /* "127.0.0.1", "::1", "unix" */
bool exchange_is_tls(const struct exchange *x);
bool exchange_is_local(const struct exchange *x); /* see http_listen_local() */
uint64_t exchange_started_ns(const struct exchange *x);

/* A header by its lower-case name, or NULL. Any name can be asked for. Of one that came twice
 * it is the first; authorization, host, content-length, content-type, x-api-key and a few more
 * can not, that is a 400. */
const char *exchange_header(struct exchange *x, const char *name);

/* A part of the path by its name in the pattern, decoded; never NULL for one of the route. */
const char *exchange_param(const struct exchange *x, const char *name);
const char *exchange_param_raw(const struct exchange *x, const char *name);

/* The first query parameter of this name, decoded, or NULL. */
const char *exchange_query(struct exchange *x, const char *name);

/* The nth parameter, for checks of unknown ones: false at the end. */
bool exchange_query_at(struct exchange *x, size_t n, const char **ret_name, const char **ret_value);

const char *exchange_body(const struct exchange *x, size_t *ret_size); /* BODY_MEMORY */
int exchange_body_fd(const struct exchange *x, uint64_t *ret_size);    /* BODY_FILE; borrowed */

/* It was read, and its answer may take long: have no copy of a body in memory meanwhile. */
void exchange_drop_body(struct exchange *x);

/* A place for the doors to hang who is asking and what is pending; `release` is called
 * with it when the exchange ends. */
void exchange_set_data(struct exchange *x, void *data, void (*release)(void *data));
void *exchange_data(const struct exchange *x);

/* True once the client has hung up. `gone` is called when that happens before the answer,
 * which must still be given, at once or later. */
bool exchange_is_gone(const struct exchange *x);
void exchange_on_gone(struct exchange *x, void (*gone)(struct exchange *x, void *ctx), void *ctx);

/* --- the answer: headers first, then exactly one of these --- */

/* Answering twice is a bug, and asserts. The exchange may be gone when such a call returns;
 * the next request of the same connection is never handled before it does. A client that asked
 * for HEAD gets the same without the body. */

/* At most 8 KiB of them. A control character in a value becomes "?". Date, Content-Length,
 * Transfer-Encoding and Connection are the server's; Content-Type comes from the answer. */
void exchange_set_header(struct exchange *x, const char *name, const char *value);

/* Takes `json`. */
void exchange_reply_json(struct exchange *x, int status, json_t *json);

/* Any bytes; copied. `type` may be NULL for no body, and is below 200 characters. */
void exchange_reply_bytes(
	struct exchange *x, int status, const char *type, const void *data, size_t size);

/* `size` bytes of a file from `offset`, as the client takes them, a buffer at a time. Takes
 * the descriptor. A file that turns out to be shorter ends the connection. */
void exchange_reply_file(
	struct exchange *x, int status, const char *type, int fd, uint64_t offset, uint64_t size);

/* The same, compressed with gzip on the way, chunked; or plain, when too many others are being
 * compressed, since that takes the loop's time. Sets Content-Encoding; Vary is up to the
 * caller. */
void exchange_reply_gzip(struct exchange *x, int status, const char *type, int fd, uint64_t size);

/* --- answers that go on, as Server-Sent Events do --- */

struct flow;

struct flow_ops {
	/* The connection can take more: the next bytes, with a reference that is given away, or
	 * NULL when there are none now; flow_want_write() asks again. */
	struct shared *(*next)(void *ctx);
	/* It is over, whoever ended it. The last call; always from the loop, never from within a
	 * call of the doors. */
	void (*closed)(void *ctx);
};

/* Begin such an answer; it may take any time, but a client that takes nothing for idle_sec while
 * something waits for it is dropped. NULL when nobody is there to hear it, or only the head was
 * asked for: then `ctx` stays the caller's, and the exchange is answered all the same. */
struct flow *exchange_reply_flow(
	struct exchange *x, int status, const char *type, const struct flow_ops *ops, void *ctx);

void flow_want_write(struct flow *f);

/* It ends after what next() still has; `closed` follows. */
void flow_end(struct flow *f);

/* It ends now, with its connection, whatever the client did not take; `closed` follows. */
void flow_drop(struct flow *f);

/* --- WebSockets --- */

/* Nothing is compressed, pings are answered, a peer that is silent for half of idle_sec is
 * pinged, and dropped when it stays silent for the other half. */

#define WS_MESSAGE_MAX (64u << 10) /* of a client, unless a door takes larger ones */
#define WS_HELD_MAX    (64u << 20) /* of all larger ones together that are not whole yet */

struct ws_ops {
	/* The socket can take a message: return the next one, with a reference that is given
	 * away, or NULL when there is none now; ws_want_write() asks again. It is sent as text,
	 * and must be UTF-8. */
	struct shared *(*next)(void *ctx);
	/* A whole message of the client; a text is valid UTF-8, a binary one has `is_text`
	 * false. `data` is gone afterwards. */
	void (*message)(void *ctx, const char *data, size_t size, bool is_text);
	/* It is over, whoever ended it. The last call; always from the loop, never from within
	 * a call of the doors. */
	void (*closed)(void *ctx);
};

/* In the handler of a "WS" route, or later while the client is not gone: accept the upgrade, or
 * else answer with an error, which refuses it. Headers that were set, such as
 * Sec-WebSocket-Protocol, go with it, at most 300 bytes. `ctx` belongs to the ops from now on. */
struct ws *exchange_accept_ws(struct exchange *x, const struct ws_ops *ops, void *ctx);

/* Take messages of so many bytes instead of WS_MESSAGE_MAX, from the first one on when it is
 * called at once. A longer one closes with 1009. One that is under way takes as much memory as
 * came of it, and at most twice that. Where one that is larger than WS_MESSAGE_MAX would take all
 * of them together over WS_HELD_MAX, that which has been under way for longest closes with 1013. */
void ws_set_message_max(struct ws *ws, size_t bytes);

void ws_want_write(struct ws *ws);

/* Close with a code and a reason of at most 120 bytes, after what next() already gave.
 * `closed` follows. */
void ws_close(struct ws *ws, unsigned code, const char *reason);
