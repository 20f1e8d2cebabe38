#include "core/git_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#if __has_include(<git2/sys/errors.h>)
#include <git2/sys/errors.h> /* since 1.8; before it was in the above */
#endif
#include <git2/sys/stream.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/addr.h"

/* How long it may take to see that it shall stop. */
#define STOP_MS 100

struct wire_stream {
	git_stream parent; /* first: libgit2 knows only this */
	char *host;
	char *port;
	int fd;
};

static _Thread_local struct git_wire *wire;

void git_wire_enter(struct git_wire *w)
{
	wire = w;
}

/* Keep the first reason, and tell libgit2 too. */
static int fail(int code, const char *what)
{
	if (wire && wire->failure.code == 0)
		(void)err_set(&wire->failure, code, "%s", what);
	git_error_set_str(GIT_ERROR_NET, what);
	return -1;
}

bool git_wire_must_stop(const struct git_wire *w)
{
	return w->stop && atomic_load(w->stop);
}

/* Wait until the socket is ready or time is up. */
static int wait_for(int fd, short events)
{
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		uint64_t left = wire && wire->deadline_ns > now ? wire->deadline_ns - now : 0;
		struct pollfd p = { .fd = fd, .events = events };

		if (left == 0)
			return fail(-ETIMEDOUT, "the repository took too long");
		if (git_wire_must_stop(wire))
			return fail(-ECANCELED, "it was stopped");
		uint64_t left_ms = left / 1000000 + 1;
		int n = poll(&p, 1, left_ms < STOP_MS ? (int)left_ms : STOP_MS);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return fail(-errno, "can not wait for the repository's host");
	}
}

/* 0 when connected; -1 when not, with the reason as for a single host. */
static int connect_to(const struct addrinfo *a, int *ret)
{
	AUTO_FD fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int code = 0;
	socklen_t size = sizeof(code);

	if (fd < 0)
		return -1;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		if (errno != EINPROGRESS || wait_for(fd, POLLOUT) < 0)
			return -1;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 || code != 0)
			return -1;
	}
	*ret = take_fd(&fd);
	return 0;
}

/* One address that is ours condemns the name: whoever mixes them means no good. */
static bool all_are_public(const struct addrinfo *list)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		if (!addr_is_public(a->ai_addr))
			return false;
	return true;
}

static int connect_any(const struct addrinfo *list, int *ret)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		if (connect_to(a, ret) == 0)
			return 0;
		if (wire->failure.code < 0)
			return -1;
	}
	return fail(-ECONNREFUSED, "can not connect to the repository's host");
}

/* The resolver's own timeouts bound this call: half a minute, as it comes. */
static int on_connect(git_stream *stream)
{
	struct wire_stream *s = (struct wire_stream *)stream;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	char host[256];
	size_t n = strlen(s->host);
	int r;

	if (!wire)
		return fail(-EPERM, "no repository may be reached from here");
	/* libgit2 may leave the brackets of an IPv6 address. */
	bool has_brackets = n > 2 && s->host[0] == '[' && s->host[n - 1] == ']';
	(void)snprintf(host, sizeof(host), "%.*s", (int)(has_brackets ? n - 2 : n),
		s->host + has_brackets);
	if (getaddrinfo(host, s->port, &hints, &list) != 0)
		return fail(-EHOSTUNREACH, "the repository's host is not known");
	if (!wire->allow_private && !all_are_public(list))
		r = fail(-EPERM, "the repository's host is in a network that is not public");
	else
		r = connect_any(list, &s->fd);
	freeaddrinfo(list);
	return r;
}

static ssize_t on_read(git_stream *stream, void *data, size_t size)
{
	struct wire_stream *s = (struct wire_stream *)stream;

	for (;;) {
		if (wait_for(s->fd, POLLIN) < 0)
			return -1;
		ssize_t n = recv(s->fd, data, size, 0);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return fail(-errno, "the repository's host broke the connection");
		wire->n_bytes += (uint64_t)n;
		if (wire->n_bytes > wire->max_bytes)
			return fail(-EFBIG, "the repository is larger than allowed");
		return n;
	}
}

static ssize_t on_write(git_stream *stream, const char *data, size_t size, int flags)
{
	struct wire_stream *s = (struct wire_stream *)stream;

	(void)flags;
	for (;;) {
		if (wait_for(s->fd, POLLOUT) < 0)
			return -1;
		ssize_t n = send(s->fd, data, size, MSG_NOSIGNAL);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		return n < 0 ? fail(-errno, "the repository's host broke the connection") : n;
	}
}

static int on_close(git_stream *stream)
{
	struct wire_stream *s = (struct wire_stream *)stream;

	close_fdp(&s->fd);
	return 0;
}

static void on_free(git_stream *stream)
{
	struct wire_stream *s = (struct wire_stream *)stream;

	(void)on_close(stream);
	free(s->host);
	free(s->port);
	free(s);
}

static int on_init(git_stream **out, const char *host, const char *port)
{
	struct wire_stream *s = xnew(struct wire_stream);

	s->parent = (git_stream){
		.version = GIT_STREAM_VERSION,
		.connect = on_connect,
		.read = on_read,
		.write = on_write,
		.close = on_close,
		.free = on_free,
	};
	s->host = xstrdup(host);
	s->port = xstrdup(port);
	s->fd = -1;
	*out = &s->parent;
	return 0;
}

int git_wire_register(void)
{
	git_stream_registration r = { .version = GIT_STREAM_VERSION, .init = on_init };

	return git_stream_register(GIT_STREAM_STANDARD, &r) < 0 ? -EIO : 0;
}
