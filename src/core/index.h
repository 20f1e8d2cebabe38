/* The index of a stream: a header that says which seq it begins with, then one record for
 * each frame, 32 bytes in little-endian order:
 *
 *	header  0 "BJINDEX1"   8 first seq   16 zero   24 check
 *	record  0 kind  1 flags  2 zero  4 size (32 bits)  8 offset in the spool
 *	        16 time, ns since 1970   24 check
 *
 * The check is over the bytes before it and the record's own seq, so a record which a
 * power loss has torn, zeroed, or left over from elsewhere is noticed. It is no protection
 * from somebody who can write the file: what is read is within limits, not true. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/stream.h"

struct err;

#define INDEX_RECORD_SIZE 32u
#define INDEX_BLOCK       128u /* records that are read or written at once, at most */

enum {
	INDEX_IS_TEXT = 1,    /* of output: UTF-8 */
	INDEX_IS_LOG_CAP = 2, /* of a truncated frame */
	INDEX_IS_END = 4,     /* the event that ends a stream */
};

struct index_record {
	uint8_t kind; /* enum frame_kind */
	uint8_t flags;
	uint32_t size; /* in the spool; at most FRAMES_CHUNK_MAX or FRAMES_EVENT_MAX */
	uint64_t offset;
	uint64_t time_ns;
};

/* An open index. The descriptor belongs to whoever has this. */
struct index {
	int fd;
	uint64_t first_seq;
};

/* Open the index in `dir_fd`; when it is writable, one that is absent, empty or lost its
 * header is begun anew with seq 1. -ENOENT when it is absent and not writable, -EBADMSG when it is
 * something else. */
int index_open(struct index *x, int dir_fd, bool is_writable, struct err *err);
/* The same with a file that is open. It is taken when that worked. */
int index_adopt(struct index *x, int fd, bool is_writable, struct err *err);
/* Begin one with seq 1 in a file that is open and has nothing in it, or nothing but zeros. It is
 * taken when that worked. */
int index_begin(struct index *x, int fd);
void index_fini(struct index *x);

/* Write `n` <= INDEX_BLOCK records, the first of which is `seq`, with one call. On failure none is
 * there. */
int index_write(const struct index *x, uint64_t seq, const struct index_record *records, size_t n);

/* Read at most `n` <= INDEX_BLOCK records from `seq` on. Returns how many there are before
 * the end of the file or the first that is damaged, or a negative errno. */
ssize_t index_read(const struct index *x, uint64_t seq, struct index_record *ret, size_t n);

/* Forget all behind `last_seq`. */
int index_cut(const struct index *x, uint64_t last_seq);
