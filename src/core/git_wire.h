/* The socket below libgit2's transports, ours so that three things hold which libgit2 can not
 * promise: a connection is made only to an address that was checked (and not to what the name
 * means a moment later), nothing waits longer than the deadline, and no more bytes come in
 * than are allowed. libgit2 puts TLS on top of it.
 *
 * libgit2 gives such a socket nothing but host and port, and works in the thread that calls
 * it; so the rules are those of the thread. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct git_wire {
	bool allow_private;      /* addresses of our own network too */
	uint64_t deadline_ns;    /* on the monotonic clock */
	uint64_t max_bytes;      /* to receive */
	const atomic_bool *stop; /* set by another thread; NULL: nobody does */
	uint64_t n_bytes;
	struct err failure; /* why it was cut; libgit2 has no room for the code */
};

/* Does another thread want it to end? */
bool git_wire_must_stop(const struct git_wire *wire);

/* Make libgit2 use it, in all threads; once, after git_libgit2_init(). 0 or -EIO. */
int git_wire_register(void);

/* The rules for this thread until git_wire_enter(NULL); without any, nothing connects. */
void git_wire_enter(struct git_wire *wire);
