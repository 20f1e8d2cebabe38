/* How programs on the same machine find the server of a state directory: it listens on
 * <root>/data/serve.sock, a socket for its owner and root alone, and <root>/data/serve.url says
 * by which URL others reach it. Both are gone when it ends. A server that was killed leaves
 * them, and the next one takes their place; nobody answers on the socket until then. */
#pragma once
#include <stdbool.h>

struct err;

#define BEACON_SOCKET  "serve.sock"
#define BEACON_FILE    "serve.url"
#define BEACON_URL_MAX 300u

struct beacon {
	char url[BEACON_URL_MAX];
	bool is_on_demand; /* it was started by somebody who needed one, and ends by itself */
};

/* --- for the server; `data_fd` is its data directory --- */

/* Write down where it is, before it listens on the socket. */
int beacon_light(int data_fd, const struct beacon *b, struct err *err);

/* The socket by a path that is short enough for bind(), for as long as `data_fd` is open. */
#define BEACON_PATH_MAX 64
void beacon_path(int data_fd, char ret[BEACON_PATH_MAX]);

/* Remove both files. */
void beacon_put_out(int data_fd);

/* A server that was started on demand makes room for one that somebody wants: tell it to end,
 * and wait for that. Any other is left alone. */
void beacon_relieve(const char *root, unsigned wait_ms);

/* --- for the others --- */

/* Open the data directory below `root`. 0 with a descriptor, -ENOENT when there never was a
 * server, -EACCES when it is somebody else's. */
int beacon_open(const char *root, int *ret_fd, struct err *err);

/* Connect to the server: a non-blocking socket, or a negative errno; -ECONNREFUSED or -ENOENT
 * when none runs, -EPERM when the one who listens is neither root nor who owns the directory. */
int beacon_connect(int data_fd);

/* What was written down; only to be believed of a server that answers. */
int beacon_read(int data_fd, struct beacon *ret);
