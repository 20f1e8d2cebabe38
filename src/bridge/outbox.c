#include "bridge/outbox.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void outbox_fini(struct outbox *o)
{
	free(o->data);
	*o = (struct outbox){ .fd = o->fd };
}

static void make_room(struct outbox *o, size_t size)
{
	if (o->begin > 0) {
		memmove(o->data, o->data + o->begin, o->end - o->begin);
		o->end -= o->begin;
		o->begin = 0;
	}
	if (o->room - o->end >= size)
		return;
	size_t room = (o->end + size) * 2;
	char *data = realloc(o->data, room);
	if (!data)
		abort();
	o->data = data;
	o->room = room;
}

void outbox_add(struct outbox *o, const char *text, size_t size)
{
	make_room(o, size + 1);
	char *to = o->data + o->end;
	memcpy(to, text, size);
	for (size_t i = 0; i < size; i++) {
		if (to[i] == '\n' || to[i] == '\r')
			to[i] = ' ';
	}
	to[size] = '\n';
	o->end += size + 1;
}

/* A pipe that poll() calls writable takes PIPE_BUF bytes without blocking. */
static ssize_t write_some(struct outbox *o, const char *data, size_t size)
{
	struct pollfd p = { .fd = o->fd, .events = POLLOUT };

	if (!o->is_file) {
		ssize_t n = send(o->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n >= 0 || errno != ENOTSOCK)
			return n < 0 ? -errno : n;
		o->is_file = true;
	}
	if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLOUT | POLLERR)))
		return -EAGAIN;
	ssize_t n = write(o->fd, data, size < PIPE_BUF ? size : PIPE_BUF);
	return n < 0 ? -errno : n;
}

int outbox_flush(struct outbox *o)
{
	while (o->begin < o->end) {
		ssize_t n = write_some(o, o->data + o->begin, o->end - o->begin);

		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return 0;
		if (n < 0)
			return (int)n;
		o->begin += (size_t)n;
	}
	o->begin = o->end = 0;
	return 0;
}
