#include "bridge/call.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/str.h"

#define READ_SIZE   (64u << 10)
#define READS_BATCH 32 /* until others get their turn */

static const char stream_type[] = "text/event-stream";

struct call *call_new(int fd, char *head, const char *body, size_t body_size)
{
	struct call *c = xnew(struct call);

	c->fd = fd;
	c->head = head;
	c->head_size = strlen(head);
	c->body = body;
	c->body_size = body_size;
	return c;
}

void call_free(struct call *c)
{
	if (!c)
		return;
	close_fdp(&c->fd);
	if (c->head)
		explicit_bzero(c->head, c->head_size); /* there is a key in it */
	free(c->head);
	sse_fini(&c->sse);
	free(c->text);
	free(c);
}

static bool is_sent(const struct call *c)
{
	return c->n_sent == c->head_size + c->body_size;
}

short call_events(const struct call *c)
{
	return (short)(POLLIN | (is_sent(c) ? 0 : POLLOUT));
}

static int send_some(struct call *c)
{
	while (!is_sent(c)) {
		size_t in_head = c->n_sent < c->head_size ? c->head_size - c->n_sent : 0;
		size_t in_body = in_head ? 0 : c->n_sent - c->head_size;
		struct iovec parts[2] = {
			{ .iov_base = c->head + (c->head_size - in_head), .iov_len = in_head },
			{ .iov_base = (char *)c->body + in_body,
				.iov_len = c->body_size - in_body },
		};
		const struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		c->n_sent += (size_t)n;
	}
	return 0;
}

static int keep_text(struct call *c, const char *data, size_t size)
{
	if (size > CALL_BODY_MAX || c->text_size > CALL_BODY_MAX - size)
		return -E2BIG;
	char *text = realloc(c->text, c->text_size + size + 1);
	if (!text)
		return -ENOMEM;
	memcpy(text + c->text_size, data, size);
	c->text = text;
	c->text_size += size;
	text[c->text_size] = '\0';
	return 0;
}

static int take_events(struct call *c, const char *data, size_t size)
{
	while (size > 0) {
		bool has_event = false;
		int n = sse_feed(&c->sse, data, size, &has_event);

		if (n < 0)
			return n;
		if (has_event)
			c->on_event(c->ctx, &c->sse);
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

static int take(struct call *c, const char *data, size_t size)
{
	while (size > 0) {
		const char *piece = NULL;
		size_t n_piece = 0;
		bool had_head = c->answer.has_head;
		int n = answer_read(&c->answer, data, size, &piece, &n_piece);

		if (n < 0)
			return n;
		if (!had_head && c->answer.has_head)
			c->is_stream =
				c->on_event && c->answer.status == 200 &&
				strncasecmp(c->answer.type, stream_type, strlen(stream_type)) == 0;
		int r = n_piece == 0   ? 0
			: c->is_stream ? take_events(c, piece, n_piece)
				       : keep_text(c, piece, n_piece);
		if (r < 0)
			return r;
		data += n;
		size -= (size_t)n;
	}
	return c->answer.is_over ? 1 : 0;
}

int call_step(struct call *c)
{
	static char buffer[READ_SIZE];
	int r = send_some(c);

	/* A server may refuse before it has read all of it; then there is an answer to read. */
	if (r == -EPIPE)
		c->n_sent = c->head_size + c->body_size;
	else if (r < 0)
		return r;
	for (int i = 0; i < READS_BATCH; i++) {
		ssize_t n = recv(c->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		r = take(c, buffer, (size_t)n);
		if (r != 0)
			return r;
	}
	return 0;
}

int call_take_fd(struct call *c)
{
	if (!c->answer.is_over || !c->answer.keeps_alive || !is_sent(c))
		return -1;
	return take_fd(&c->fd);
}
