/* A file as the answer to a GET: all of it, a part, compressed, or that the client has it
 * already. Never shown by a browser as a page of ours: it comes as an attachment of the kind it
 * is said to be. */
#pragma once
#include <stdint.h>

struct exchange;

struct attachment {
	const char *path; /* whose last part it is saved as */
	const char *mime;
	const char *sha256; /* of the content, which is its tag */
	int fd;             /* taken */
	uint64_t offset;    /* of the content in it */
	uint64_t size;
};

/* Answer as Range, If-Range, If-None-Match and Accept-Encoding ask for. */
void attachment_reply(struct exchange *x, const struct attachment *a);

/* For other answers that have parts: Content-Range of `size` bytes from `offset` on, of `total`. */
void attachment_set_range(struct exchange *x, uint64_t offset, uint64_t size, uint64_t total);

/* Answer with 416 that `range` is no part of so many bytes. */
void attachment_refuse_range(struct exchange *x, const char *range, uint64_t total);
