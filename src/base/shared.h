/* A finished message that may wait on many connections at once: counted, with room in
 * front for what a transport puts before it. */
#pragma once
#include <stddef.h>

#include "base/cleanup.h"

#define SHARED_HEADROOM 32u

struct shared {
	unsigned n_refs;
	size_t size;
	unsigned char room[]; /* SHARED_HEADROOM bytes, then the message */
};

/* One reference for the caller, and `size` bytes to fill; aborts without memory. */
struct shared *shared_new(size_t size);
struct shared *shared_ref(struct shared *m);
void shared_unref(struct shared *m); /* NULL is allowed */

static inline char *shared_data(struct shared *m)
{
	return (char *)m->room + SHARED_HEADROOM;
}

DEFINE_CLEANUP(struct shared, shared_unref)
