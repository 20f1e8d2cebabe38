/* A tar archive read once, from front to back, in constant memory: plain, gzip or
 * zstd, with the digests of both the file and what it unpacks to. Archives come
 * from anywhere, so the size of everything is bounded while it is read. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/digest.h"

struct archive_entry;
struct budget;
struct err;
struct tarball;

/* Bytes that the headers of one entry may take: names, attributes, sparse maps. */
#define STREAM_HEADER_MAX (2u << 20)

/* Read from `fd`, which is borrowed, as is `budget`. */
int tarball_open(int fd, struct budget *budget, struct tarball **ret, struct err *err);
void tarball_free(struct tarball *s);

/* The next entry, borrowed until the following call. 1, or 0 at the end, or a
 * negative errno. */
int tarball_next(struct tarball *s, struct archive_entry **ret, struct err *err);

/* The next piece of the entry's content and where it belongs; what lies between
 * two pieces is a hole. 1, or 0 at the end, or a negative errno. */
int tarball_data(struct tarball *s, const void **ret, size_t *ret_size, uint64_t *ret_offset,
	struct err *err);

/* Read what stands behind the last entry, and tell the digests of the file as it
 * is and of the uncompressed archive. */
int tarball_end(struct tarball *s, char raw_hex[DIGEST_HEX_SIZE + 1],
	char plain_hex[DIGEST_HEX_SIZE + 1], struct err *err);

DEFINE_CLEANUP(struct tarball, tarball_free)
