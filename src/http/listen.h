/* A listening socket, TCP or UNIX, and what comes out of it. No loop, no state. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct sockaddr_storage;

/* Listen at an address and a port (0: any that is free), or at the path of a UNIX socket,
 * which gets mode 0660. Returns a non-blocking descriptor or a negative errno. A socket file
 * that nobody listens on any more is replaced; with a listener it is -EADDRINUSE. */
int listen_open(const char *host, uint16_t port, const char *socket_path, struct err *err);

/* A UNIX socket as above, but for whoever we are and root alone: mode 0600. */
int listen_open_local(const char *path, struct err *err);

/* Remove the file of a UNIX socket, if it is this process that listens there. */
void listen_remove(const char *path);

/* The port it was given; 0 for a UNIX socket. */
uint16_t listen_port(int fd);

/* The next connection, non-blocking and close-on-exec, or a negative errno. */
int listen_accept(int listen_fd, struct sockaddr_storage *ret_peer);

/* There is no room for this one: tell it 503, unless it expects TLS, and close it. */
void listen_refuse(int fd, bool is_tls);

/* "127.0.0.1", "::1" (an IPv4 address that came by IPv6 is written as what it is), "unix". */
void listen_format_peer(const struct sockaddr_storage *peer, char *ret, size_t size);
