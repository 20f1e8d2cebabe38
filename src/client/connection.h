/* A connection to a keeper, and how to get one. */
#pragma once
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct err;
struct frame;
struct put;

/* A keeper of our own. */
struct own_keeper {
	pid_t pid;
	int lifeline_fd;            /* it ends when this is closed */
	struct sockaddr_un address; /* without a name in the file system */
	socklen_t address_size;
};

/* Connect to the keeper that serves `root`. -ENOENT or -ECONNREFUSED when none
 * does. The caller owns the socket. */
int connection_open_running(const char *root, int *ret, struct err *err);

/* Start `program` as a keeper for this process. */
int connection_start_keeper(
	const char *program, const char *root, struct own_keeper *ret, struct err *err);

/* Connect to a keeper of our own. */
int connection_open_own(const struct own_keeper *keeper, int *ret, struct err *err);

/* Let it end, and wait for that. */
void connection_stop_keeper(struct own_keeper *keeper);

/* Exchange greetings; `*ret_facets` is what the keeper enforces. */
int connection_greet(int fd, uint8_t *buffer, uint64_t *ret_facets, struct err *err);
