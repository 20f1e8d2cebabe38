#include "core/excerpt.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t fill_head(struct excerpt *e, const char *data, size_t size)
{
	size_t n = least(size, EXCERPT_PART - e->n_head);

	if (n > 0 && !e->head)
		e->head = xcalloc(1, EXCERPT_PART);
	if (n > 0)
		memcpy(e->head + e->n_head, data, n);
	e->n_head += n;
	return n;
}

/* At most as much as the ring holds. */
static void fill_ring(struct excerpt *e, const char *data, size_t size)
{
	if (!e->ring)
		e->ring = xcalloc(1, EXCERPT_PART);
	while (size > 0) {
		size_t at = (e->ring_at + e->n_ring) % EXCERPT_PART;
		size_t n = least(size, EXCERPT_PART - at);

		memcpy(e->ring + at, data, n);
		data += n;
		size -= n;
		size_t over = e->n_ring + n > EXCERPT_PART ? e->n_ring + n - EXCERPT_PART : 0;
		e->n_ring += n - over;
		e->ring_at = (e->ring_at + over) % EXCERPT_PART;
	}
}

void excerpt_add(struct excerpt *e, const void *data, size_t size)
{
	const char *text = data;

	e->total += size;
	size_t n = fill_head(e, text, size);
	text += n;
	size -= n;
	if (size > EXCERPT_PART) {
		text += size - EXCERPT_PART;
		size = EXCERPT_PART;
	}
	if (size > 0)
		fill_ring(e, text, size);
}

const char *excerpt_end(struct excerpt *e)
{
	if (e->ring_at > 0) {
		char *turned = xcalloc(1, EXCERPT_PART);
		size_t n = least(e->n_ring, EXCERPT_PART - e->ring_at);

		memcpy(turned, e->ring + e->ring_at, n);
		memcpy(turned + n, e->ring, e->n_ring - n);
		free(e->ring);
		e->ring = turned;
		e->ring_at = 0;
	}
	return e->ring ? e->ring : "";
}

void excerpt_fini(struct excerpt *e)
{
	free(e->head);
	free(e->ring);
	*e = (struct excerpt){ 0 };
}
