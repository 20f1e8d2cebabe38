/* Answers that go on for as long as somebody has something to say. Each piece is a chunk; what a
 * reader does not take stays with who says it, but for one piece. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shared.h"
#include "base/str.h"
#include "http/http_private.h"

#define PIECES_A_TURN  32 /* before other connections get their turn */
#define CHUNK_HEAD_MAX 20u

struct flow {
	struct exchange *x;
	const struct flow_ops *ops;
	void *ctx;
	struct shared *rest; /* what was said last, as far as it is not written: */
	size_t at;           /* from here */
	bool is_ended;       /* nothing new comes after what there is */
};

struct flow *exchange_reply_flow(
	struct exchange *x, int status, const char *type, const struct flow_ops *ops, void *ctx)
{
	if (!reply_begin_open(x, status, type))
		return NULL;
	struct flow *f = xnew(struct flow);
	*f = (struct flow){ .x = x, .ops = ops, .ctx = ctx };
	x->sending.flow = f;
	wire_want_write(x->conn->wire);
	return f;
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	f->ops->closed(f->ctx);
	shared_unrefp(&f->rest);
	free(f);
}

void flow_want_write(struct flow *f)
{
	if (f->x->conn && !f->x->sending.is_over)
		wire_want_write(f->x->conn->wire);
}

void flow_end(struct flow *f)
{
	f->is_ended = true;
	flow_want_write(f);
}

void flow_drop(struct flow *f)
{
	if (f->x->conn)
		wire_close(f->x->conn->wire);
}

/* A chunk in one write, from the server's buffer. */
static void write_piece(struct exchange *x, const char *data, size_t size)
{
	char *buffer = x->server->buffer;
	int n = x->head.is_old ? 0 : snprintf(buffer, CHUNK_HEAD_MAX, "%zx\r\n", size);
	size_t at = (size_t)n;

	memcpy(buffer + at, data, size);
	at += size;
	if (!x->head.is_old) {
		memcpy(buffer + at, "\r\n", 2);
		at += 2;
	}
	(void)wire_write(x->conn->wire, buffer, at);
	x->sent += size;
}

/* Something of what there is to say; false when there is nothing now. A large one goes in
 * pieces, or all of what its reader does not take would be held for it a second time. */
static bool say(struct flow *f)
{
	if (!f->rest) {
		f->rest = f->ops->next(f->ctx);
		f->at = 0;
	}
	if (!f->rest)
		return false;
	size_t left = f->rest->size - f->at;
	size_t size = left < HTTP_PIECE ? left : HTTP_PIECE;
	if (size > 0)
		write_piece(f->x, shared_data(f->rest) + f->at, size);
	f->at += size;
	if (f->at == f->rest->size)
		shared_unref(TAKE(f->rest));
	return true;
}

void flow_continue(struct flow *f)
{
	struct exchange *x = f->x;
	int n = 0;

	while (n < PIECES_A_TURN && !wire_is_blocked(x->conn->wire) && say(f))
		n++;
	if (wire_is_blocked(x->conn->wire))
		return; /* it tells when it can go on */
	if (n == PIECES_A_TURN) {
		wire_want_write(x->conn->wire);
	} else if (f->is_ended) {
		if (!x->head.is_old)
			(void)wire_write(x->conn->wire, "0\r\n\r\n", 5);
		reply_finish(x);
	}
}
