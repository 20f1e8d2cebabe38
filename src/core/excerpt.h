/* What of an endless text is kept: its beginning and its end, as bytes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define EXCERPT_PART (64u << 10) /* bytes of the beginning, and again of the end */

struct excerpt {
	char *head;
	size_t n_head;
	char *ring; /* what follows the head, the newest bytes of it */
	size_t n_ring, ring_at;
	uint64_t total; /* bytes there were */
};

void excerpt_add(struct excerpt *e, const void *data, size_t size);

/* Turn the ring so that it begins with its oldest byte, and return it: the end of the text,
 * n_ring bytes. What is between head and end was left out: total - n_head - n_ring bytes. */
const char *excerpt_end(struct excerpt *e);
void excerpt_fini(struct excerpt *e);
