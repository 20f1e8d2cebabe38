#include "base/shared.h"

#include <stdlib.h>

struct shared *shared_new(size_t size)
{
	struct shared *m = malloc(sizeof(*m) + SHARED_HEADROOM + size);

	if (!m)
		abort();
	m->n_refs = 1;
	m->size = size;
	return m;
}

struct shared *shared_ref(struct shared *m)
{
	m->n_refs++;
	return m;
}

void shared_unref(struct shared *m)
{
	if (m && --m->n_refs == 0)
		free(m);
}
