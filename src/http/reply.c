/* Answers. What is small is written in one piece with its head; a file is read into the
 * server's one buffer and written, until the connection is blocked, so that a reader that does
 * not read costs no more than one piece. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/str.h"
#include "http/http_private.h"

#define FIELDS_MAX     (8u << 10) /* bytes that a handler may set; it asserts */
#define HEAD_ROOM      512u       /* for what we put into a head ourselves */
#define PIECES_A_TURN  16         /* before other connections get their turn */
#define GZIP_LEVEL     6
#define CHUNK_HEAD_MAX 16u

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 204, "No Content" },
	{ 206, "Partial Content" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 422, "Unprocessable Content" },
	{ 423, "Locked" },
	{ 424, "Failed Dependency" },
	{ 425, "Too Early" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
};

static const char *reason_of(int status)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Status";
}

void exchange_set_header(struct exchange *x, const char *name, const char *value)
{
	size_t size = strlen(name) + strlen(value) + 4;

	assert(x->fields_size + size <= FIELDS_MAX);
	char *fields = realloc(x->fields, x->fields_size + size + 1);
	if (!fields)
		abort();
	x->fields = fields;
	char *at = fields + x->fields_size;
	(void)snprintf(at, size + 1, "%s: %s\r\n", name, value);
	/* A value may stem from a file's name or the like: it can not end its line. */
	for (char *c = at; c < at + size - 2; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	x->fields_size += size;
}

/* --- the head --- */

/* What a body is to be announced as. */
struct announced {
	const char *type; /* NULL: no body */
	uint64_t size;
	bool is_chunked;
};

static bool has_no_body(int status)
{
	return status == 204 || status == 304 || status < 200;
}

static size_t write_length(
	char *to, size_t room, const struct exchange *x, int status, const struct announced *a)
{
	if (has_no_body(status))
		return 0;
	if (a->is_chunked)
		return (size_t)snprintf(to, room, "Content-Type: %s\r\n%s", a->type,
			x->head.is_old ? "" : "Transfer-Encoding: chunked\r\n");
	if (!a->type)
		return (size_t)snprintf(to, room, "Content-Length: 0\r\n");
	return (size_t)snprintf(to, room, "Content-Type: %s\r\nContent-Length: %llu\r\n", a->type,
		(unsigned long long)a->size);
}

static const char *connection_line(const struct exchange *x)
{
	if (!x->keeps_alive)
		return "Connection: close\r\n";
	return x->head.is_old ? "Connection: keep-alive\r\n" : "";
}

/* Into at least HEAD_ROOM + FIELDS_MAX bytes; its size. A type that does not fit is a bug. */
static size_t write_head(char *to, const struct exchange *x, int status, const struct announced *a)
{
	int n = snprintf(to, HEAD_ROOM, "HTTP/1.1 %d %s\r\nDate: %s\r\n%s", status,
		reason_of(status), server_date(x->server), connection_line(x));
	size_t at = (size_t)n;

	assert(!a->type || strlen(a->type) < 200);
	at += write_length(to + at, HEAD_ROOM - at, x, status, a);
	assert(at < HEAD_ROOM);
	memcpy(to + at, x->fields ? x->fields : "", x->fields_size);
	at += x->fields_size;
	memcpy(to + at, "\r\n", 2);
	return at + 2;
}

void reply_upgrade(struct exchange *x, const char *accept)
{
	char *to = x->server->buffer;
	int n = snprintf(to, HEAD_ROOM,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
		accept, x->fields ? x->fields : "");

	x->is_answered = true;
	x->status = 101;
	assert(n < (int)HEAD_ROOM);
	(void)wire_write(x->conn->wire, to, (size_t)n);
}

/* --- beginning and ending --- */

/* Answering before all of the body was read: a short rest is read and dropped, a longer one
 * ends the connection. A client that waits for a "100 Continue" may send it or not: it ends. */
static bool can_go_on(const struct exchange *x)
{
	const struct conn *c = x->conn;

	if (!x->keeps_alive || x->server->is_closing)
		return false;
	if (x->is_dispatched)
		return true;
	return !x->head.is_chunked && !x->head.expects_continue && c->left <= HTTP_DROP_MAX;
}

/* False when nobody is there to hear the answer, and the exchange is no more. */
static bool begin(struct exchange *x, int status)
{
	assert(!x->is_answered);
	x->is_answered = true;
	x->status = status;
	if (!x->conn) {
		exchange_end(x);
		return false;
	}
	x->keeps_alive = can_go_on(x);
	return true;
}

/* All was written. When part of it waits for the peer, so do we: the next answer of a client
 * that reads none must not pile up behind it. */
static void finish(struct exchange *x)
{
	struct conn *c = x->conn;

	x->sending.is_over = true;
	c->state = CONN_SENDING;
	c->since_ms = uv_now(x->server->tick.loop);
	if (!wire_is_blocked(c->wire))
		conn_answered(c);
}

/* --- bytes --- */

static void begin_sending(struct exchange *x, int fd, uint64_t offset, uint64_t size);

/* What the client does not take now goes to a file: one that reads slowly, or never, costs no
 * memory. Without room for that file it has to. */
static void write_rest(struct exchange *x, const char *data, size_t size)
{
	while (size > 0 && !wire_is_blocked(x->conn->wire)) {
		size_t n = size < HTTP_PIECE ? size : HTTP_PIECE;

		(void)wire_write(x->conn->wire, data, n);
		x->sent += n;
		data += n;
		size -= n;
	}
	AUTO_FD fd = size > HTTP_PIECE ? body_open_file(x->server->options.spool_dir) : -1;
	if (fd >= 0 && fd_write_full(fd, data, size) == 0) {
		begin_sending(x, take_fd(&fd), 0, size);
		return;
	}
	if (size > 0)
		(void)wire_write(x->conn->wire, data, size);
	x->sent += size;
	finish(x);
}

void exchange_reply_bytes(
	struct exchange *x, int status, const char *type, const void *data, size_t size)
{
	struct announced a = { .type = type, .size = size };
	char *to = x->server->buffer;

	if (!begin(x, status))
		return;
	if (!type || has_no_body(status) || streq(x->head.method, "HEAD"))
		size = 0;
	size_t n = write_head(to, x, status, &a);
	size_t first = size < HTTP_PIECE ? size : HTTP_PIECE;
	if (first > 0)
		memcpy(to + n, data, first);
	x->sent = first;
	(void)wire_write(x->conn->wire, to, n + first);
	if (size > first)
		write_rest(x, (const char *)data + first, size - first);
	else
		finish(x);
}

void exchange_reply_json(struct exchange *x, int status, json_t *json)
{
	/* A tenth is 0.1, not what the nearest binary fraction is. */
	size_t size;
	AUTO_FREE char *text = json_write(json, 0, 12, &size);

	json_decref(json);
	exchange_reply_bytes(x, status, "application/json", text, size);
}

/* --- files --- */

/* The file is not what it was: what was promised can not be kept, and the client must see. */
static void give_up(struct exchange *x, const char *why)
{
	log_warn("an answer was cut short: %s", why);
	wire_close(x->conn->wire);
}

/* The next piece of the file at `to`: its size, 0 when there is no more to be had. */
static size_t read_piece(struct exchange *x, char *to)
{
	struct sending *s = &x->sending;
	size_t want = s->left < HTTP_PIECE ? (size_t)s->left : HTTP_PIECE;
	ssize_t n = want > 0 ? pread(s->fd, to, want, (off_t)s->offset) : 0;

	if (want > 0 && n <= 0) {
		give_up(x, n < 0 ? strerror(errno) : "its file became shorter");
		return 0;
	}
	s->offset += (uint64_t)n;
	s->left -= (uint64_t)n;
	return (size_t)n;
}

static void send_file(struct exchange *x)
{
	char *buffer = x->server->buffer;

	for (int i = 0; i < PIECES_A_TURN && x->sending.left > 0; i++) {
		size_t n = read_piece(x, buffer);
		x->sent += n;
		if (n == 0 || (!wire_write(x->conn->wire, buffer, n) && x->sending.left > 0))
			return;
	}
	if (x->sending.left > 0)
		wire_want_write(x->conn->wire);
	else
		finish(x);
}

static void begin_sending(struct exchange *x, int fd, uint64_t offset, uint64_t size)
{
	x->sending.fd = fd;
	x->sending.offset = offset;
	x->sending.left = size;
	x->conn->state = CONN_SENDING;
	x->conn->since_ms = uv_now(x->server->tick.loop);
}

/* The head and the first piece in one write, which is all for most files. */
void exchange_reply_file(
	struct exchange *x, int status, const char *type, int fd, uint64_t offset, uint64_t size)
{
	struct announced a = { .type = type, .size = size };
	char *buffer = x->server->buffer;

	x->sending.fd = fd; /* closed with the exchange, whatever comes */
	if (!begin(x, status))
		return;
	if (has_no_body(status) || streq(x->head.method, "HEAD"))
		size = 0;
	begin_sending(x, fd, offset, size);
	size_t n_head = write_head(buffer, x, status, &a);
	size_t n = read_piece(x, buffer + n_head);
	if (n == 0 && size > 0)
		return;
	x->sent = n;
	bool is_out = wire_write(x->conn->wire, buffer, n_head + n);
	if (x->sending.left == 0)
		finish(x);
	else if (is_out)
		send_file(x);
}

/* --- gzip --- */

/* Around `size` bytes at `data`, which has room before and behind; old clients get them bare. */
static void write_chunk(struct exchange *x, char *data, size_t size)
{
	char head[CHUNK_HEAD_MAX];

	if (size == 0)
		return;
	x->sent += size;
	if (x->head.is_old) {
		(void)wire_write(x->conn->wire, data, size);
		return;
	}
	int n = snprintf(head, sizeof(head), "%zx\r\n", size);
	memcpy(data - n, head, (size_t)n);
	memcpy(data + size, "\r\n", 2);
	(void)wire_write(x->conn->wire, data - n, (size_t)n + size + 2);
}

/* One piece of the file in, what comes of it out. At its end, so is the answer. */
static void send_gzip(struct exchange *x)
{
	static char piece[HTTP_PIECE]; /* the loop has one thread, and this keeps nothing */
	z_stream *z = x->sending.gzip;
	char *out = x->server->buffer + CHUNK_HEAD_MAX;
	bool had_any = x->sending.left > 0;

	z->next_in = (unsigned char *)piece;
	z->avail_in = (unsigned)read_piece(x, piece);
	if (had_any && z->avail_in == 0)
		return;
	int r = Z_OK;
	do {
		z->next_out = (unsigned char *)out;
		z->avail_out = HTTP_PIECE;
		r = deflate(z, x->sending.left == 0 ? Z_FINISH : Z_NO_FLUSH);
		write_chunk(x, out, HTTP_PIECE - z->avail_out);
	} while (z->avail_out == 0 && r == Z_OK);
	if (x->sending.left > 0) {
		wire_want_write(x->conn->wire);
		return;
	}
	if (!x->head.is_old)
		(void)wire_write(x->conn->wire, "0\r\n\r\n", 5);
	finish(x);
}

void exchange_reply_gzip(struct exchange *x, int status, const char *type, int fd, uint64_t size)
{
	struct announced a = { .type = type, .is_chunked = true };
	bool is_head = streq(x->head.method, "HEAD");

	if (x->server->n_gzips >= HTTP_GZIPS_MAX && !is_head) {
		exchange_reply_file(x, status, type, fd, 0, size);
		return;
	}
	x->sending.fd = fd;
	exchange_set_header(x, "Content-Encoding", "gzip");
	if (!begin(x, status))
		return;
	if (x->head.is_old)
		x->keeps_alive = false; /* its end is the connection's */
	begin_sending(x, fd, 0, is_head ? 0 : size);
	size_t n = write_head(x->server->buffer, x, status, &a);
	(void)wire_write(x->conn->wire, x->server->buffer, n);
	if (is_head) {
		finish(x);
		return;
	}
	x->sending.gzip = xnew(z_stream);
	x->server->n_gzips++;
	if (deflateInit2(x->sending.gzip, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
		Z_OK)
		abort();
	send_gzip(x);
}

/* --- answers that go on --- */

void reply_finish(struct exchange *x)
{
	finish(x);
}

bool reply_begin_open(struct exchange *x, int status, const char *type)
{
	struct announced a = { .type = type, .is_chunked = true };

	if (!begin(x, status))
		return false;
	if (x->head.is_old)
		x->keeps_alive = false; /* its end is the connection's */
	x->conn->state = CONN_SENDING;
	x->conn->since_ms = uv_now(x->server->tick.loop);
	size_t n = write_head(x->server->buffer, x, status, &a);
	(void)wire_write(x->conn->wire, x->server->buffer, n);
	if (!streq(x->head.method, "HEAD"))
		return true;
	finish(x);
	return false;
}

void reply_continue(struct exchange *x)
{
	x->conn->since_ms = uv_now(x->server->tick.loop);
	if (wire_is_blocked(x->conn->wire))
		return;
	if (x->sending.is_over)
		conn_answered(x->conn);
	else if (x->sending.gzip)
		send_gzip(x);
	else if (x->sending.flow)
		flow_continue(x->sending.flow);
	else
		send_file(x);
}
