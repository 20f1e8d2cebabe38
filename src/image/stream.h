/* A tar archive read once, from front to back, in constant memory: plain, gzip or
 * zstd, with the digests of both the file and what it unpacks to. Archives come
 * from anywhere, so the size of everything is bounded while it is read. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "image/digest.h"

struct archive_entry;
struct budget;
struct err;
struct stream;

/* Bytes that the headers of one entry may take: names, attributes, sparse maps. */
#define STREAM_HEADER_MAX (2u << 20)

/* Read from `fd`, which is borrowed, as is `budget`. */
int stream_open(int fd, struct budget *budget, struct stream **ret, struct err *err);
void stream_free(struct stream *s);

/* The next entry, borrowed until the following call. 1, or 0 at the end, or a
 * negative errno. */
int stream_next(struct stream *s, struct archive_entry **ret, struct err *err);

/* The next piece of the entry's content and where it belongs; what lies between
 * two pieces is a hole. 1, or 0 at the end, or a negative errno. */
int stream_data(struct stream *s, const void **ret, size_t *ret_size, uint64_t *ret_offset,
	struct err *err);

/* Read what stands behind the last entry, and tell the digests of the file as it
 * is and of the uncompressed archive. */
int stream_end(struct stream *s, char raw_hex[DIGEST_HEX_SIZE + 1],
	char plain_hex[DIGEST_HEX_SIZE + 1], struct err *err);

DEFINE_CLEANUP(struct stream, stream_free)
