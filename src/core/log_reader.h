/* The output of a run, read from front to back, a piece at a time: as the bytes that the guest
 * wrote, or as JSON lines, which are the messages of the stream. A reader is a cursor of the
 * stream and holds no output, so one that is slow costs nobody else anything.
 *
 * Used from the loop's thread only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct log_reader;
struct shared;
struct stream;

enum log_which {
	LOG_BOTH, /* in the order in which the server read them */
	LOG_STDOUT,
	LOG_STDERR,
};

struct log_options {
	enum log_which which;
	bool is_json;      /* a line per frame, events and heartbeats included */
	bool follows;      /* wait for what is not there yet, until the run is over */
	uint64_t from_seq; /* the first frame; 0: all */
	uint64_t offset;   /* bytes of the text to leave out ... */
	uint64_t size;     /* ... and to give then; UINT64_MAX: all */
};

enum log_state {
	LOG_READY,  /* there is more, or there may be: ask again */
	LOG_WAITS,  /* there is nothing now; `wake` tells when to ask again */
	LOG_OVER,   /* all was given */
	LOG_BROKEN, /* the files can not be read any more: what was given is not all */
};

/* `wake` is called on the loop when a reader that waits should be asked again. The stream is
 * referenced until log_reader_free(). */
struct log_reader *log_reader_new(struct stream *stream, const struct log_options *options,
	void (*wake)(void *ctx), void *ctx);
void log_reader_free(struct log_reader *r); /* NULL is allowed */

/* The next piece, with a reference for the caller; or NULL, and `*ret_state` says why. */
struct shared *log_reader_next(struct log_reader *r, enum log_state *ret_state);

/* How many bytes the text of these has now; from_seq, offset and size do not count. */
uint64_t log_reader_total(const struct stream *stream, enum log_which which);

DEFINE_CLEANUP(struct log_reader, log_reader_free)
