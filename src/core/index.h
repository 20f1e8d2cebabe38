/* The index of a stream: a header that says whose it is and which seq it begins with, then one
 * record for each frame, 32 bytes in little-endian order:
 *
 *	header  0 "BJI2"   4 boot (32 bits)   8 first seq   16 owner   24 check
 *	record  0 kind  1 flags  2 size (16 bits)  4 sum (32 bits)  8 offset in the spool
 *	        16 time, ns since 1970   24 check
 *
 * The owner is a hash of the run's id. The check of a record is over the bytes before it, its own
 * seq and the owner; the sum is over the frame's bytes in the spool and the owner. So what a power
 * loss has torn, zeroed, or left over from elsewhere is noticed, in the index and in the spools:
 * files of short runs are overwritten and used again, and the disk may still have what another
 * run wrote there. The index of another run has no records for us. The boot says in which start of
 * the machine the header was written: in the same one all files are as they were left, and bytes
 * that have no record yet are this run's too.
 *
 * It is no protection from somebody who can write the file: what is read is within limits, not
 * true.
 *
 * The first version ("BJINDEX1", zero for the owner, no boot, no sums, and the size in 32 bits at
 * 4) is read, and continued, as it was: rows have it, directories of runs that are over, and runs
 * that go on while the server is replaced by a newer one. Nothing of the above is known of it. */
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
	uint32_t sum;  /* index_sum() of these bytes */
	uint64_t offset;
	uint64_t time_ns;
};

/* An open index. The descriptor belongs to whoever has this. */
struct index {
	int fd;
	uint64_t first_seq;
	uint64_t owner;
	bool is_old;  /* of the first version */
	bool is_sure; /* nothing was lost since it was written: the spools are this run's */
};

/* Open the index of the run `id` in `dir_fd`; when it is writable, one that is absent, empty, lost
 * its header or is another run's is begun anew with seq 1, and not sure. -ENOENT when it is absent
 * and not writable, -EBADMSG when it is something else. */
int index_open(struct index *x, int dir_fd, const char *id, bool is_writable, struct err *err);
/* To read one in a file that is open, for who knows that it is the right one. It is taken when that
 * worked. */
int index_adopt(struct index *x, int fd, struct err *err);
/* Begin that of the run `id` with seq 1 in a file that is open and has nothing in it, or nothing
 * but zeros. It is taken when that worked. */
int index_begin(struct index *x, int fd, const char *id);
/* The spools have nothing any more but bytes that records were found to be right about: from now on
 * it is sure. */
int index_assure(struct index *x);
void index_fini(struct index *x);

/* Write `n` <= INDEX_BLOCK records, the first of which is `seq`, with one call. On failure none is
 * there. */
int index_write(const struct index *x, uint64_t seq, const struct index_record *records, size_t n);

/* Read at most `n` <= INDEX_BLOCK records from `seq` on. Returns how many there are before
 * the end of the file or the first that is damaged, or a negative errno. */
ssize_t index_read(const struct index *x, uint64_t seq, struct index_record *ret, size_t n);

/* Of the bytes of a frame; and whether these are what its record is about. */
uint32_t index_sum(const struct index *x, const void *data, size_t size);
bool index_fits(const struct index *x, const struct index_record *record, const void *data);

/* Forget all behind `last_seq`. */
int index_cut(const struct index *x, uint64_t last_seq);
