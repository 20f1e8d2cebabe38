/* MCP over stdio, carried to a server's MCP over HTTP: a message per line comes in and is
 * posted, answers and what the server says by itself go out as lines. One thread, one loop
 * of poll(), in a process that does nothing else.
 *
 * The session with the server is the bridge's own business: when the server is another one than
 * before, it is begun anew with what the client said in its initialize, and the client does not
 * notice. A call that was under way then is answered with an error, since it may have run.
 *
 * A request that names its version (revision 2026-07-28) belongs to no session and needs none; to
 * cancel it is to hang up. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

#define BRIDGE_LINE_MAX  (64u << 20) /* bytes of a message of the client */
#define BRIDGE_CALLS_MAX 64u         /* under way; the client waits with the next */
#define BRIDGE_OUT_MAX   (16u << 20) /* bytes that the client did not read; then it waits too */

/* How the server is called by others; for URLs in answers. */
struct bridge_place {
	char host[256]; /* "127.0.0.1:8080" */
	bool is_tls;
};

struct bridge_options {
	int in_fd;
	int out_fd;
	int signal_fd;   /* readable when it is to end; or -1 */
	const char *key; /* of the user, or NULL: then who owns the server */
	size_t line_max; /* 0: BRIDGE_LINE_MAX */
	/* A non-blocking connection to the server, and where it is; or a negative errno with a
	 * sentence. With `may_start` a server is started if there is none, which may take
	 * seconds. */
	int (*connect)(void *ctx, bool may_start, struct bridge_place *place, struct err *err);
	void *ctx;
};

/* Until the client closes its side, every call is answered, and the session is ended; or until
 * signal_fd says so. 0, or a negative errno with a sentence when the client is not there. */
int bridge_run(const struct bridge_options *options, struct err *err);
