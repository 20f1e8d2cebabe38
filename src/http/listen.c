#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#define BACKLOG 1024

static void free_addresses(struct addrinfo **list)
{
	if (*list)
		freeaddrinfo(*list);
}

static int open_tcp(const char *host, uint16_t port, struct err *err)
{
	const struct addrinfo want = {
		.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	CLEANUP(free_addresses) struct addrinfo *found = NULL;
	char service[8];
	int on = 1;

	(void)snprintf(service, sizeof(service), "%u", port);
	int r = getaddrinfo(host, service, &want, &found);
	if (r != 0)
		return err_set(err, -EINVAL, "'%.100s' is not an address to listen on: %s", host,
			gai_strerror(r));
	AUTO_FD fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "make a socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	/* Inherited by connections: an answer is written at once, and shall not wait. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(err, "listen on %.100s port %u", host, port);
	return take_fd(&fd);
}

/* 0 with the process that listens there, or a negative errno: -ECONNREFUSED when none does. */
static int find_listener(const struct sockaddr_un *address, pid_t *ret)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	*ret = peer.pid;
	return 0;
}

/* Only a socket is ever removed, and only one that nobody answers on. */
static void remove_dead(const struct sockaddr_un *address)
{
	struct stat st;
	pid_t pid;

	if (lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
		find_listener(address, &pid) == -ECONNREFUSED)
		(void)unlink(address->sun_path);
}

static bool set_path(struct sockaddr_un *address, const char *path)
{
	size_t size = strlen(path);

	if (size >= sizeof(address->sun_path))
		return false;
	memcpy(address->sun_path, path, size);
	return true;
}

static int open_unix(const char *path, mode_t mode, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (!set_path(&address, path))
		return err_set(
			err, -ENAMETOOLONG, "the path of the socket '%.100s' is too long", path);
	AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "make a socket");
	remove_dead(&address);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, "listen on '%.100s'", path);
	/* Nobody can connect before listen(), so there is no moment with another mode. */
	if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(err, "listen on '%.100s'", path);
	return take_fd(&fd);
}

int listen_open(const char *host, uint16_t port, const char *socket_path, struct err *err)
{
	if (socket_path)
		return open_unix(socket_path, 0660, err);
	return open_tcp(host ? host : "127.0.0.1", port, err);
}

int listen_open_local(const char *path, struct err *err)
{
	return open_unix(path, 0600, err);
}

void listen_remove(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	pid_t pid = 0;

	if (set_path(&address, path) && find_listener(&address, &pid) == 0 && pid == getpid())
		(void)unlink(path);
}

uint16_t listen_port(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t size = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		return 0;
	if (at.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *)&at)->sin_port);
	if (at.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
	return 0;
}

int listen_accept(int listen_fd, struct sockaddr_storage *ret_peer)
{
	socklen_t size = sizeof(*ret_peer);
	int fd = accept4(
		listen_fd, (struct sockaddr *)ret_peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void listen_refuse(int fd, bool is_tls)
{
	static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
				     "Retry-After: 1\r\nContent-Length: 0\r\n\r\n";
	char sink[4096];

	if (!is_tls) {
		(void)send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		/* Closing with unread input would reset the connection before it is heard. */
		(void)recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
	}
	(void)close(fd);
}

void listen_format_peer(const struct sockaddr_storage *peer, char *ret, size_t size)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)peer;
	const struct sockaddr_in *four = (const struct sockaddr_in *)peer;
	const char *text = NULL;

	if (peer->ss_family == AF_INET)
		text = inet_ntop(AF_INET, &four->sin_addr, ret, (socklen_t)size);
	else if (peer->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		text = inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], ret, (socklen_t)size);
	else if (peer->ss_family == AF_INET6)
		text = inet_ntop(AF_INET6, &six->sin6_addr, ret, (socklen_t)size);
	if (!text)
		(void)snprintf(ret, size, "unix");
}
