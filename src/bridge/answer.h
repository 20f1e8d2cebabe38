/* An answer of our own server, piece by piece: HTTP/1.1, its head first, then the body by its
 * length, in chunks, or none. Not for strangers' servers: no interim answers, no body that
 * ends with the connection. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/chunk.h"

#define ANSWER_HEAD_MAX (16u << 10)
#define ANSWER_TEXT_MAX 512u

/* All zero at first. */
struct answer {
	char head[ANSWER_HEAD_MAX];
	size_t head_size;
	bool has_head; /* those below are known */
	int status;
	bool keeps_alive;
	bool is_chunked;
	bool is_over;
	uint64_t left; /* of a body with a length */
	struct chunk chunk;
	char type[ANSWER_TEXT_MAX];    /* content-type; "" for none, like the next */
	char session[ANSWER_TEXT_MAX]; /* mcp-session-id */
};

/* Take bytes until a piece of the body was found, the head or all of it is complete, or they are
 * used up. Returns how many were taken, with the piece, which may be empty; or -EBADMSG. */
int answer_read(
	struct answer *a, const char *data, size_t size, const char **ret_piece, size_t *ret_size);
