#include "probe/engine.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "probe/deadline.h"

static const char request[] = "GET /version HTTP/1.0\r\nHost: docker\r\n\r\n";

static int connect_to(const char *path, int *ret)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, path, strlen(path) + 1);
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* a local connect is done at once, or its queue is full and nobody accepts */
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	*ret = take_fd(&fd);
	return 0;
}

/* Read until the engine closes, which it does after one answer to HTTP/1.0. */
static int read_answer(int fd, char *buf, size_t size)
{
	uint64_t deadline = deadline_now() + ENGINE_TIMEOUT_MS;
	size_t used = 0;

	while (used < size - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = poll(&p, 1, deadline_left(deadline));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -ETIMEDOUT;
		ssize_t got = read(fd, buf + used, size - 1 - used);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	buf[used] = '\0';
	return 0;
}

int engine_parse(const char *answer, char *version, size_t size)
{
	const char *status = str_after(answer, "HTTP/1.");
	const char *body = strstr(answer, "\r\n\r\n");
	const char *open = body ? strchr(body, '{') : NULL; /* behind the size of a chunk */
	int r = -EBADMSG;

	if (!status || !open || strncmp(status + 1, " 200", 4) != 0)
		return -EBADMSG;
	json_t *root = json_loads(open, JSON_DISABLE_EOF_CHECK, NULL);
	const char *text = json_string_value(json_object_get(root, "Version"));
	if (text) {
		(void)snprintf(version, size, "%s", text);
		r = 0;
	}
	json_decref(root);
	return r;
}

static int ask(const char *path, char *version, size_t size)
{
	AUTO_FD fd = -1;
	AUTO_FREE char *answer = xcalloc(1, ENGINE_ANSWER_MAX);

	int r = connect_to(path, &fd);
	if (r == -ECONNREFUSED || r == -ENOTDIR)
		return -ENOENT;
	if (r == -EPERM)
		return -EACCES;
	if (r < 0)
		return r;
	if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
		return -EBADMSG;
	r = read_answer(fd, answer, ENGINE_ANSWER_MAX);
	return r < 0 ? r : engine_parse(answer, version, size);
}

int engine_ask(char *version, size_t version_size, char *where, size_t where_size)
{
	const char *host = getenv("DOCKER_HOST");
	const char *local = host ? str_after(host, "unix://") : NULL;
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (host && *host && !local) {
		(void)snprintf(where, where_size, "DOCKER_HOST");
		return -EPROTONOSUPPORT;
	}
	(void)snprintf(where, where_size, "%s", local ? local : "/var/run/docker.sock");
	int r = ask(where, version, version_size);
	if (r != -ENOENT || local || !runtime)
		return r;
	(void)snprintf(where, where_size, "%s/docker.sock", runtime);
	return ask(where, version, version_size);
}
