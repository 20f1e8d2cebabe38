/* A WebSocket: the handshake, messages in, messages out. One message at a time is given to the
 * wire, so a reader that does not read costs one message. Messages are written from where they
 * are: the frame's head goes into their headroom, and is the same for everybody. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shared.h"
#include "base/str.h"
#include "http/http_private.h"

_Static_assert(FRAME_OUT_MAX <= SHARED_HEADROOM, "a frame's head does not fit the headroom");

#define MESSAGES_A_TURN 32 /* before other connections get their turn */
#define REASON_MAX      120u

struct ws {
	struct conn *conn;
	const struct ws_ops *ops;
	void *ctx;
	struct frame frame;
	bool in_message; /* more frames of it follow */
	bool is_text;
	bool is_closing; /* our close frame is out */
	bool is_broken;  /* what comes is no longer frames */
	bool is_pinged;  /* since the peer's last word */
	uint64_t heard_ms;
	uint64_t closing_ms;
	size_t message_max;
	char *message;
	size_t message_size;
	size_t message_room;
	uint64_t large_ms; /* since when it takes more than WS_MESSAGE_MAX */
	char control[FRAME_CONTROL_MAX];
	size_t control_size;
};

/* --- the handshake --- */

static const char *handshake_fault(struct exchange *x, int *ret_status)
{
	const char *version = exchange_header(x, "sec-websocket-version");
	const char *key = exchange_header(x, "sec-websocket-key");
	char accept[FRAME_ACCEPT_SIZE];

	*ret_status = 426;
	if (!version || !streq(version, "13"))
		return "only version 13 of the WebSocket protocol is spoken here";
	*ret_status = 400;
	if (!key || frame_accept_key(key, accept) < 0)
		return "the Sec-WebSocket-Key is malformed";
	return NULL;
}

void ws_dispatch(struct exchange *x)
{
	int status = 0;
	const char *what = handshake_fault(x, &status);

	if (!what) {
		x->route->handle(x);
		return;
	}
	struct head_fault fault = { status, status == 426 ? "upgrade_required" : "bad_request",
		what };
	if (status == 426)
		exchange_set_header(x, "Sec-WebSocket-Version", "13");
	exchange_fail(x, &fault);
}

struct ws *exchange_accept_ws(struct exchange *x, const struct ws_ops *ops, void *ctx)
{
	struct ws *ws = xnew(struct ws);
	char accept[FRAME_ACCEPT_SIZE];

	assert(!x->is_answered && x->conn);
	(void)frame_accept_key(exchange_header(x, "sec-websocket-key"), accept);
	ws->conn = x->conn;
	ws->ops = ops;
	ws->ctx = ctx;
	ws->message_max = WS_MESSAGE_MAX;
	ws->heard_ms = uv_now(x->server->tick.loop);
	x->conn->ws = ws;
	reply_upgrade(x, accept);
	bool is_closing = x->server->is_closing;
	conn_answered(x->conn); /* the exchange may be gone */
	if (is_closing)
		ws_close(ws, FRAME_CODE_RESTART, "service restart");
	return ws;
}

void ws_set_message_max(struct ws *ws, size_t bytes)
{
	ws->message_max = bytes;
}

/* Small ones are as many as there are connections, and not counted. */
static size_t counted(size_t room)
{
	return room > WS_MESSAGE_MAX ? room : 0;
}

/* The message as far as it came, for the caller to free; there is none any more. */
static char *take_message(struct ws *ws)
{
	ws->conn->server->ws_held -= counted(ws->message_room);
	ws->message_size = ws->message_room = 0;
	return TAKE(ws->message);
}

void ws_free(struct ws *ws)
{
	if (!ws)
		return;
	ws->ops->closed(ws->ctx);
	free(take_message(ws));
	free(ws);
}

/* --- out --- */

static void send_control(struct ws *ws, enum frame_opcode opcode, const void *data, size_t size)
{
	unsigned char out[FRAME_OUT_MAX + FRAME_CONTROL_MAX];
	size_t n = frame_write_head(opcode, size, out + FRAME_OUT_MAX);

	memcpy(out + FRAME_OUT_MAX, data, size);
	(void)wire_write(ws->conn->wire, out + FRAME_OUT_MAX - n, n + size);
}

static void send_close(struct ws *ws, unsigned code, const char *reason)
{
	char data[2 + REASON_MAX + 1];
	int n = snprintf(data + 2, sizeof(data) - 2, "%s", reason);

	data[0] = (char)(code >> 8);
	data[1] = (char)code;
	if (n > (int)REASON_MAX)
		n = REASON_MAX;
	while (n > 0 && !frame_is_utf8(data + 2, (size_t)n))
		n--; /* cut within a character */
	ws->is_closing = true;
	ws->closing_ms = uv_now(ws->conn->server->tick.loop);
	send_control(ws, FRAME_CLOSE, data, code == FRAME_CODE_NONE ? 0 : 2 + (size_t)n);
}

void ws_close(struct ws *ws, unsigned code, const char *reason)
{
	if (!ws->is_closing)
		send_close(ws, code, reason ? reason : "");
}

void ws_want_write(struct ws *ws)
{
	if (!ws->is_closing)
		wire_want_write(ws->conn->wire);
}

void ws_writable(struct ws *ws)
{
	struct wire *w = ws->conn->wire;

	for (int i = 0; !ws->is_closing && !wire_is_blocked(w); i++) {
		if (i == MESSAGES_A_TURN) {
			wire_want_write(w);
			return;
		}
		CLEANUP(shared_unrefp) struct shared *m = ws->ops->next(ws->ctx);
		if (!m)
			return;
		unsigned char *data = (unsigned char *)shared_data(m);
		size_t n = frame_write_head(FRAME_TEXT, m->size, data);
		(void)wire_write(w, data - n, n + m->size);
	}
}

/* --- in --- */

/* The peer broke the rules: say which, and wait for it to go. */
static size_t refuse(struct ws *ws, size_t size, unsigned code, const char *reason)
{
	ws->is_broken = true;
	free(take_message(ws));
	ws_close(ws, code, reason);
	return size;
}

static void on_close_frame(struct ws *ws)
{
	unsigned code = FRAME_CODE_NONE;

	if (ws->control_size >= 2)
		code = (unsigned)(unsigned char)ws->control[0] << 8 | (unsigned char)ws->control[1];
	bool is_good = ws->control_size == 0 ||
		       (ws->control_size >= 2 && frame_is_valid_code(code) &&
			       frame_is_utf8(ws->control + 2, ws->control_size - 2));
	if (!ws->is_closing)
		send_close(ws, is_good ? code : FRAME_CODE_PROTOCOL, "");
	/* Both have said it. What is unsent has a moment, the rest is up to ws_tick(). */
	if (wire_is_blocked(ws->conn->wire))
		return;
	wire_shutdown(ws->conn->wire);
	wire_close(ws->conn->wire);
}

static void on_control(struct ws *ws)
{
	if (ws->frame.opcode == FRAME_CLOSE)
		on_close_frame(ws);
	else if (ws->frame.opcode == FRAME_PING && !ws->is_closing)
		send_control(ws, FRAME_PONG, ws->control, ws->control_size);
}

static void on_message(struct ws *ws)
{
	size_t size = ws->message_size;
	AUTO_FREE char *message = take_message(ws);

	if (ws->is_closing)
		return;
	if (ws->is_text && !frame_is_utf8(message, size)) {
		ws_close(ws, FRAME_CODE_TEXT, "the text is not UTF-8");
		return;
	}
	ws->ops->message(ws->ctx, size > 0 ? message : "", size, ws->is_text);
}

/* Who has kept a large message waiting for its end for longest, but for `asks`. */
static struct ws *find_slowest(const struct ws *asks)
{
	struct ws *slowest = NULL;

	for (struct conn *c = LIST_FIRST(&asks->conn->server->conns); c; c = LIST_NEXT(c, all)) {
		if (c->ws && c->ws != asks && counted(c->ws->message_room) &&
			(!slowest || c->ws->large_ms < slowest->large_ms))
			slowest = c->ws;
	}
	return slowest;
}

/* Whoever sends all of it at once is done soon: so it is for others to make room. */
static void hold(struct ws *ws, size_t room)
{
	size_t *held = &ws->conn->server->ws_held;
	struct ws *slowest;

	*held -= counted(ws->message_room);
	while (counted(room) > WS_HELD_MAX - *held && (slowest = find_slowest(ws)))
		(void)refuse(slowest, 0, FRAME_CODE_LATER, "the message took too long");
	*held += counted(room);
	if (counted(room) && !counted(ws->message_room))
		ws->large_ms = uv_now(ws->conn->server->tick.loop);
	ws->message_room = room;
}

/* Grows with what came, not with what was announced; by begin_frame() that is never more than
 * message_max. */
static char *make_room(struct ws *ws, size_t size)
{
	size_t need = ws->message_size + size;
	size_t room = ws->message_room * 2;

	if (need > ws->message_room) {
		if (room > ws->message_max)
			room = ws->message_max;
		hold(ws, room > need ? room : need);
		ws->message = realloc(ws->message, ws->message_room);
		if (!ws->message)
			abort();
	}
	return ws->message + ws->message_size;
}

static size_t take_payload(struct ws *ws, const char *data, size_t size)
{
	struct frame *f = &ws->frame;

	if (f->left < size)
		size = (size_t)f->left;
	if (frame_is_control(f)) {
		ws->control_size +=
			frame_read_payload(f, data, size, ws->control + ws->control_size);
	} else if (size > 0) {
		(void)frame_read_payload(f, data, size, make_room(ws, size));
		ws->message_size += size;
	}
	return size;
}

static void end_frame(struct ws *ws)
{
	if (frame_is_control(&ws->frame))
		on_control(ws);
	else if (ws->frame.is_final)
		on_message(ws);
	ws->frame = (struct frame){ 0 };
	ws->control_size = 0;
}

/* A head was read: what it means for the message. */
static bool begin_frame(struct ws *ws)
{
	const struct frame *f = &ws->frame;

	if (frame_is_control(f))
		return true;
	if (f->left > ws->message_max - ws->message_size)
		return false;
	if (f->opcode != FRAME_MORE)
		ws->is_text = f->opcode == FRAME_TEXT;
	ws->in_message = !f->is_final;
	return true;
}

size_t ws_take(struct ws *ws, const char *data, size_t size)
{
	struct frame *f = &ws->frame;
	size_t at = 0;

	ws->heard_ms = uv_now(ws->conn->server->tick.loop);
	ws->is_pinged = false;
	if (ws->is_broken)
		return size;
	if (!f->is_read) {
		int n = frame_read_head(f, data, size, ws->in_message);
		if (n < 0)
			return refuse(ws, size, (unsigned)-n, "a frame broke the protocol");
		at = (size_t)n;
		if (!f->is_read)
			return at;
		if (!begin_frame(ws))
			return refuse(ws, size, FRAME_CODE_TOO_BIG, "the message is too big");
	}
	at += take_payload(ws, data + at, size - at);
	if (f->left == 0)
		end_frame(ws);
	return at;
}

/* --- time --- */

/* A peer that is silent for half the idle time is asked whether it is there, and one that
 * does not answer for as long again is not. */
void ws_tick(struct ws *ws, uint64_t now_ms)
{
	uint64_t idle_ms = ws->conn->server->idle_ms;

	if (ws->is_closing) {
		if (now_ms - ws->closing_ms >= HTTP_LINGER_MS)
			wire_close(ws->conn->wire);
	} else if (now_ms - ws->heard_ms >= idle_ms) {
		wire_close(ws->conn->wire);
	} else if (now_ms - ws->heard_ms >= idle_ms / 2 && !ws->is_pinged &&
		   !wire_is_blocked(ws->conn->wire)) {
		ws->is_pinged = true;
		send_control(ws, FRAME_PING, "", 0);
	}
}
