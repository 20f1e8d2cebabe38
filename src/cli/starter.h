/* Finds the keeper of a state directory for a server, or starts one that outlives the server.
 * For the time before the server's loop, as root where the server is started by root.
 *
 * Until the server says that it has started (starter_commit), a keeper that it started ends with
 * it: a failed start leaves nothing behind. A keeper that fails says why, and its guardian gives
 * up. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

struct err;

struct starter {
	const char *root;
	const char *profile;    /* a seccomp profile file, or NULL */
	uid_t uid;              /* who may connect */
	uint64_t workspaces_ms; /* how long it keeps workspaces without a client; 0: for ever */

	int keeper_fd; /* a connection, which keeps the keeper there; -1 */
	int trial_fd;  /* the keeper that we started watches the other end; -1 */
	int log_fd;    /* a pipe that the keeper logs to, where it must not hold our stderr; -1 */
};

#define STARTER_FRESH .keeper_fd = -1, .trial_fd = -1, .log_fd = -1

/* Returns 0 with a connection to the keeper, or a negative errno with the keeper's reason. Give
 * `s` to starter_fini() in any case. */
int starter_open(struct starter *s, struct err *err);

/* The keeper that was started stays from now on, also without us. */
void starter_commit(struct starter *s);

void starter_fini(struct starter *s);
