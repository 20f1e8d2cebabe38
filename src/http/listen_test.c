#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "lib/scratch.h"
#include "lib/test.h"

static void check_peer(int family, const char *address, const char *want)
{
	struct sockaddr_storage peer = { .ss_family = (sa_family_t)family };
	char text[INET6_ADDRSTRLEN];

	if (family == AF_INET)
		(void)inet_pton(family, address, &((struct sockaddr_in *)&peer)->sin_addr);
	if (family == AF_INET6)
		(void)inet_pton(family, address, &((struct sockaddr_in6 *)&peer)->sin6_addr);
	listen_format_peer(&peer, text, sizeof(text));
	CHECK_STR(text, want);
}

TEST(peers_are_named)
{
	check_peer(AF_INET, "192.0.2.7", "192.0.2.7");
	check_peer(AF_INET6, "::1", "::1");
	check_peer(AF_INET6, "::ffff:192.0.2.7", "192.0.2.7");
	check_peer(AF_UNIX, "", "unix");
}

TEST(any_free_port_is_found_and_accepts)
{
	AUTO_FD fd = listen_open("127.0.0.1", 0, NULL, NULL);
	struct sockaddr_in to = { .sin_family = AF_INET };
	AUTO_FD client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage peer;
	char sink[200] = "";

	CHECK(fd >= 0);
	CHECK(listen_port(fd) > 0);
	CHECK_EQ(listen_accept(fd, &peer), -EAGAIN);
	to.sin_port = htons(listen_port(fd));
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(connect(client, (const struct sockaddr *)&to, sizeof(to)), 0);
	int accepted = listen_accept(fd, &peer);
	CHECK(accepted >= 0);
	CHECK(fcntl(accepted, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(accepted, F_GETFL) & O_NONBLOCK);
	listen_refuse(accepted, false);
	CHECK(recv(client, sink, sizeof(sink) - 1, MSG_WAITALL) > 0);
	CHECK(strstr(sink, "HTTP/1.1 503 ") == sink);
}

TEST(what_is_no_socket_is_left_alone)
{
	SCRATCH(dir);
	char path[100];
	struct err err = { 0 };

	(void)snprintf(path, sizeof(path), "%s/file", dir.path);
	scratch_write(dir.fd, "file", "precious");
	CHECK_EQ(listen_open(NULL, 0, path, &err), -EADDRINUSE);
	CHECK(scratch_holds(dir.fd, "file", "precious"));
}

TEST(the_file_of_a_socket_is_removed_by_who_listens)
{
	SCRATCH(dir);
	char path[100];
	int status = 0;

	(void)snprintf(path, sizeof(path), "%s/socket", dir.path);
	int fd = listen_open(NULL, 0, path, NULL);
	CHECK(fd >= 0);
	pid_t other = fork();
	if (other == 0) {
		listen_remove(path);
		_exit(0);
	}
	CHECK_EQ(waitpid(other, &status, 0), other);
	CHECK_EQ(access(path, F_OK), 0);
	(void)close(fd);
	listen_remove(path); /* nobody's any more */
	CHECK_EQ(access(path, F_OK), 0);
	fd = listen_open(NULL, 0, path, NULL);
	CHECK(fd >= 0);
	listen_remove(path);
	CHECK_EQ(access(path, F_OK), -1);
	(void)close(fd);
}

TEST(an_address_that_is_none_is_named)
{
	char long_path[200] = "";
	struct err err = { 0 };

	memset(long_path, 'x', sizeof(long_path) - 1);
	CHECK_EQ(listen_open("example.invalid", 0, NULL, &err), -EINVAL);
	CHECK(strstr(err.text, "example.invalid"));
	CHECK_EQ(listen_open(NULL, 0, long_path, &err), -ENAMETOOLONG);
}

TESTS(UNIT(peers_are_named), UNIT(any_free_port_is_found_and_accepts),
	UNIT(what_is_no_socket_is_left_alone), UNIT(the_file_of_a_socket_is_removed_by_who_listens),
	UNIT(an_address_that_is_none_is_named))
