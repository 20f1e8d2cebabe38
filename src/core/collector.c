#include "core/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/fd.h"
#include "base/str.h"

#define CHUNK_SIZE    (1u << 20)
#define CHUNKS_A_TURN 4 /* so that others get their turn on the loop */

struct collector {
	uv_poll_t poll;
	int pipe_fd;
	int file_fd;
	loff_t at;
	uint64_t max_bytes;
	int failure; /* after which bytes are dropped */
	collector_done_cb *done;
	void *ctx;
};

static void on_closed(uv_handle_t *handle)
{
	struct collector *c = handle->data;

	close_fdp(&c->pipe_fd);
	close_fdp(&c->file_fd);
	free(c);
}

void collector_free(struct collector *c)
{
	if (!c || uv_is_closing((uv_handle_t *)&c->poll))
		return;
	(void)uv_poll_stop(&c->poll);
	uv_close((uv_handle_t *)&c->poll, on_closed);
}

static void finish(struct collector *c, int r)
{
	collector_done_cb *done = c->done;
	void *ctx = c->ctx;
	uint64_t n = (uint64_t)c->at;

	collector_free(c);
	done(ctx, r, n);
}

static ssize_t drop_some(struct collector *c)
{
	char chunk[16 << 10];

	return read(c->pipe_fd, chunk, sizeof(chunk));
}

static ssize_t move_some(struct collector *c)
{
	uint64_t room = c->max_bytes - (uint64_t)c->at;

	if (c->failure)
		return drop_some(c);
	if (room == 0) {
		ssize_t n = drop_some(c);

		/* Exactly as much as there is room for is not too much. */
		if (n > 0)
			c->failure = -EFBIG;
		return n;
	}
	ssize_t n = splice(c->pipe_fd, NULL, c->file_fd, &c->at,
		room < CHUNK_SIZE ? (size_t)room : CHUNK_SIZE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* The disk is full. Read on, or the box would wait for ever. */
		c->failure = -errno;
		return drop_some(c);
	}
	return n;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct collector *c = poll->data;

	(void)status;
	(void)events;
	for (int i = 0; i < CHUNKS_A_TURN; i++) {
		ssize_t n = move_some(c);

		if (n == 0) {
			finish(c, c->failure);
			return;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			finish(c, -errno);
			return;
		}
		if (n < 0)
			return;
	}
}

struct collector *collector_start(uv_loop_t *loop, int pipe_fd, int file_fd, uint64_t max_bytes,
	collector_done_cb *done, void *ctx)
{
	struct collector *c = xnew(struct collector);
	struct stat st = { 0 };

	(void)fstat(file_fd, &st);
	(void)fd_set_nonblock(pipe_fd, true);
	*c = (struct collector){ .pipe_fd = pipe_fd, .file_fd = file_fd, .at = st.st_size };
	c->max_bytes = max_bytes > (uint64_t)c->at ? max_bytes : (uint64_t)c->at;
	c->done = done;
	c->ctx = ctx;
	(void)uv_poll_init(loop, &c->poll, pipe_fd);
	c->poll.data = c;
	(void)uv_poll_start(&c->poll, UV_READABLE, on_poll);
	return c;
}
