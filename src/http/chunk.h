/* A chunked body, piece by piece, in constant memory. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_LINE_MAX    256u       /* of a size with its extensions */
#define CHUNK_TRAILER_MAX (8u << 10) /* of what follows the last chunk; it is dropped */

enum chunk_state {
	CHUNK_SIZE,
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
	CHUNK_END,
};

/* All zero at first. */
struct chunk {
	enum chunk_state state;
	uint64_t left;     /* of the present chunk */
	unsigned n_digits; /* of its size */
	unsigned n_line;   /* bytes of the present line */
	unsigned n_trailer;
};

/* Take bytes from `data` until a piece of the body was found or they are used up. Returns how
 * many were taken, with the piece, which may be empty; or -EBADMSG. */
int chunk_read(
	struct chunk *c, const char *data, size_t size, const char **ret_piece, size_t *ret_size);

static inline bool chunk_is_over(const struct chunk *c)
{
	return c->state == CHUNK_END;
}
