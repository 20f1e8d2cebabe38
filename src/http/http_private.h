/* What the files of the server share: server.c owns all, conn.c reads requests and decides
 * what is next on a connection, exchange.c holds one request, reply.c sends its answer, body.c
 * takes its body, ws.c speaks on a connection that was upgraded. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>
#include <zlib.h>

#include "http/body.h"
#include "http/chunk.h"
#include "http/frame.h"
#include "http/head.h"
#include "http/http.h"
#include "http/query.h"
#include "http/router.h"
#include "http/wire.h"

#define HTTP_DROP_MAX  (64u << 10) /* bytes of a body nobody wants, read to keep a connection */
#define HTTP_LINGER_MS 2000u       /* for the peer to read our last words, or say its own */
#define HTTP_BODY_RATE 1024u       /* bytes a second of a body, after idle_sec; less is 408 */
#define HTTP_GZIPS_MAX 8u          /* answers that are compressed at the same time */
#define HTTP_PIECE     (64u << 10) /* of a file, as it is sent */
#define HTTP_BUFFER    (HTTP_PIECE + (16u << 10))

struct conn;

struct http_server {
	struct http_options options;
	struct hub *hub;
	struct router *router;
	uv_timer_t tick; /* once a second while there are connections */
	uint64_t idle_ms;
	LIST_HEAD(, conn) conns;
	size_t n_exchanges; /* also those whose client is gone */
	size_t n_gzips;
	size_t ws_held; /* bytes of large messages that are not whole, see WS_HELD_MAX */
	bool is_closing;
	bool is_tick_closed;
	void (*done)(void *ctx);
	void *done_ctx;
	time_t date_of; /* the second that `date` is of */
	char date[40];
	char buffer[HTTP_BUFFER]; /* for whoever needs one until it returns */
};

enum conn_state {
	CONN_HEAD,    /* between requests, or within a head */
	CONN_BODY,    /* reading one */
	CONN_BUSY,    /* a handler has the exchange */
	CONN_SENDING, /* the answer is not out yet */
	CONN_DROP,    /* answered, but the rest of its body comes first */
	CONN_LINGER,  /* our side is closed */
	CONN_WS,
};

struct conn {
	struct http_server *server;
	struct wire *wire;
	LIST_ENTRY(conn) all;
	enum conn_state state;
	bool is_taking;   /* conn_take() is on the stack */
	bool is_answered; /* the exchange is out, and what is next is to be decided */
	bool is_shut;
	bool is_evicted;   /* closed, to make room for another */
	uint64_t since_ms; /* of the present wait, see on_tick() */
	uint64_t body_ms;  /* when the body began */
	char *in;          /* input that nobody took yet */
	size_t in_size;
	size_t in_room;
	size_t scanned; /* of it, for the end of a head */
	uint64_t left;  /* of a body with a known size */
	struct chunk chunk;
	struct exchange *x;
	struct ws *ws;
};

struct exchange_param {
	const char *name; /* as in the pattern; name_size bytes */
	size_t name_size;
	const char *raw;
	const char *value;
};

/* The answer, as far as it is not sent. */
struct sending {
	int fd;
	uint64_t offset;
	uint64_t left;
	z_stream *gzip;    /* NULL: as it is */
	struct flow *flow; /* NULL: it is a file, or bytes that were written */
	bool is_chunked;
	bool is_over;
};

struct exchange {
	struct http_server *server;
	struct conn *conn; /* NULL: the client is gone */
	const struct route *route;
	struct head head;
	const char *path;
	struct exchange_param params[HTTP_PARAMS_MAX];
	size_t n_params;
	struct query_pair *pairs;
	size_t n_pairs;
	struct body body;
	char peer[48];
	bool is_tls;
	bool is_local;
	bool is_dispatched; /* its body is read, its handler called */
	bool is_answered;
	bool keeps_alive; /* the connection, after the answer */
	uint64_t started_ns;
	void *data;
	void (*release)(void *data);
	void (*gone)(struct exchange *x, void *ctx);
	void *gone_ctx;
	char *fields; /* of the answer: "name: value\r\n" each */
	size_t fields_size;
	int status;
	uint64_t sent;
	struct sending sending;
	char text[]; /* the head, and decoded parts of its target */
};

/* --- exchange.c --- */

/* An exchange for a head of `size` bytes; `*ret_fault` has a status other than 0 when it is
 * malformed, and the exchange is then only good for saying so. */
struct exchange *exchange_new(
	struct conn *c, const char *head, size_t size, struct head_fault *ret_fault);

/* Find the route; a status other than 0 as above. */
void exchange_route_it(struct exchange *x, struct head_fault *ret_fault);

/* Answer with an error by the options' function. */
void exchange_fail(struct exchange *x, const struct head_fault *fault);

/* Its answer is out, or nobody is there to hear it: log and free it. */
void exchange_end(struct exchange *x);

/* --- reply.c --- */

/* The connection can take more of the answer. */
void reply_continue(struct exchange *x);

/* For flow.c: begin an answer whose size nobody knows; false when there is nothing to follow,
 * and the exchange may be gone. And all of it was written. */
bool reply_begin_open(struct exchange *x, int status, const char *type);
void reply_finish(struct exchange *x);

/* Write the head of a 101. */
void reply_upgrade(struct exchange *x, const char *accept);

/* --- flow.c --- */

void flow_continue(struct flow *f);
void flow_free(struct flow *f); /* calls `closed`; NULL is allowed */

/* --- conn.c --- */

extern const struct wire_ops conn_ops;

/* The answer to the exchange is out; go on with what is next. */
void conn_answered(struct conn *c);
void conn_tick(struct conn *c, uint64_t now_ms);
/* The server closes. */
void conn_end(struct conn *c);

/* --- ws.c --- */

/* The request of a "WS" row: look at the handshake, and call the handler. */
void ws_dispatch(struct exchange *x);
size_t ws_take(struct ws *ws, const char *data, size_t size);
void ws_writable(struct ws *ws);
void ws_tick(struct ws *ws, uint64_t now_ms);
void ws_free(struct ws *ws); /* calls `closed` */

/* --- server.c --- */

void server_conn_opened(struct http_server *s, struct conn *c);
void server_conn_closed(struct http_server *s, struct conn *c);
void server_exchange_ended(struct http_server *s);
const char *server_date(struct http_server *s);
