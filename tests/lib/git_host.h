/* For tests: a host for one repository, spoken to by HTTP on loopback. The work is done by
 * git's own upload-pack; this is the HTTP around it. Other manners show what a bad host does. */
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum git_host_manner {
	GIT_HOST_GOOD,
	GIT_HOST_SILENT,  /* accepts, and says nothing */
	GIT_HOST_ENDLESS, /* advertises names without end */
	GIT_HOST_LOCKED,  /* wants a password, and takes none */
	GIT_HOST_AWAY,    /* redirects to another host */
};

struct git_host {
	const char *repo; /* a path */
	enum git_host_manner manner;
	int listen_fd;
	unsigned port;
	atomic_bool is_over;
	atomic_uint n_requests;
	pthread_t thread;
};

static inline void git_host_say(int fd, const char *text)
{
	(void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Headers and as much of the body as is announced; libgit2 announces it. */
static inline size_t git_host_hear(int fd, char *buf, size_t size)
{
	size_t used = 0;

	for (;;) {
		ssize_t n = recv(fd, buf + used, size - 1 - used, 0);

		if (n <= 0)
			return 0;
		used += (size_t)n;
		buf[used] = '\0';
		const char *body = strstr(buf, "\r\n\r\n");
		const char *length = strcasestr(buf, "content-length:");
		size_t want = length && body && length < body ? strtoul(length + 15, NULL, 10) : 0;
		if (body && used >= (size_t)(body + 4 - buf) + want)
			return used;
	}
}

static inline void git_host_send_file(int fd, int file_fd)
{
	char chunk[4096];
	ssize_t n;

	if (lseek(file_fd, 0, SEEK_SET) < 0)
		abort();
	while ((n = read(file_fd, chunk, sizeof(chunk))) > 0)
		(void)!send(fd, chunk, (size_t)n, MSG_NOSIGNAL);
}

/* Run git with the given files as its input and output; true when it succeeds. */
static inline bool git_host_run(const char *const *argv, int in_fd, int out_fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;
	int status = -1;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, in_fd, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	int r = posix_spawnp(&pid, "git", &actions, NULL, (char *const *)argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r == 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static inline bool git_host_has_git(void)
{
	AUTO_FD null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	const char *const argv[] = { "git", "--version", NULL };

	return git_host_run(argv, null_fd, null_fd);
}

static inline void git_host_serve(struct git_host *h, int fd, const char *request, size_t size)
{
	bool is_get = strncmp(request, "GET ", 4) == 0;
	const char *const get[] = { "git", "upload-pack", "--stateless-rpc", "--advertise-refs",
		h->repo, NULL };
	const char *const post[] = { "git", "upload-pack", "--stateless-rpc", h->repo, NULL };
	const char *body = strstr(request, "\r\n\r\n") + 4;
	AUTO_FD in = memfd_create("in", MFD_CLOEXEC);
	AUTO_FD out = memfd_create("out", MFD_CLOEXEC);

	if (fd_write_full(in, body, size - (size_t)(body - request)) < 0 ||
		lseek(in, 0, SEEK_SET) < 0)
		abort();
	(void)git_host_run(is_get ? get : post, in, out);
	git_host_say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n"
			 "Content-Type: application/x-git-upload-pack-");
	git_host_say(fd, is_get ? "advertisement\r\n\r\n001e# service=git-upload-pack\n0000"
				: "result\r\n\r\n");
	git_host_send_file(fd, out);
}

static inline void git_host_flood(struct git_host *h, int fd)
{
	char line[96];

	git_host_say(fd, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "
			 "application/x-git-upload-pack-advertisement\r\n\r\n"
			 "001e# service=git-upload-pack\n0000");
	for (unsigned i = 0; !h->is_over; i++) {
		(void)snprintf(line, sizeof(line), "0041%040d refs/heads/%08x\n", 1, i);
		if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0)
			return;
	}
}

static inline void git_host_answer(struct git_host *h, int fd)
{
	static char buf[1 << 20];
	size_t size = git_host_hear(fd, buf, sizeof(buf));

	h->n_requests++;
	if (size == 0)
		return;
	if (h->manner == GIT_HOST_GOOD)
		git_host_serve(h, fd, buf, size);
	else if (h->manner == GIT_HOST_ENDLESS)
		git_host_flood(h, fd);
	else if (h->manner == GIT_HOST_LOCKED)
		git_host_say(fd, "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"
				 "Content-Length: 0\r\nConnection: close\r\n\r\n");
	else if (h->manner == GIT_HOST_AWAY)
		git_host_say(fd,
			"HTTP/1.1 302 Away\r\nLocation: http://169.254.169.254/r/info/refs?"
			"service=git-upload-pack\r\nContent-Length: 0\r\n\r\n");
	while (h->manner == GIT_HOST_SILENT && !h->is_over)
		(void)usleep(10000);
}

static inline void *git_host_loop(void *ctx)
{
	struct git_host *h = ctx;

	while (!h->is_over) {
		struct pollfd p = { .fd = h->listen_fd, .events = POLLIN };
		AUTO_FD fd =
			poll(&p, 1, 50) > 0 ? accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC) : -1;

		if (fd >= 0)
			git_host_answer(h, fd);
	}
	return NULL;
}

static inline void git_host_start(struct git_host *h, const char *repo, enum git_host_manner manner)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof(a);

	*h = (struct git_host){ .repo = repo, .manner = manner };
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	h->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(h->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(h->listen_fd, 8) < 0 ||
		getsockname(h->listen_fd, (struct sockaddr *)&a, &size) < 0)
		abort();
	h->port = ntohs(a.sin_port);
	if (pthread_create(&h->thread, NULL, git_host_loop, h) != 0)
		abort();
}

static inline void git_host_stop(struct git_host *h)
{
	h->is_over = true;
	(void)pthread_join(h->thread, NULL);
	(void)close(h->listen_fd);
}

#define GIT_HOST(name, repo, manner)                                                               \
	CLEANUP(git_host_stop) struct git_host name;                                               \
	git_host_start(&name, (repo), (manner))
