/* What the files that make up a stream share: stream.c (its life, events), pump.c (from
 * the guest's pipes to frames), recover.c (what a predecessor left), cursor.c
 * (subscribers). All of it is used from the loop's thread only. */
#pragma once
#include <sys/queue.h>
#include <uv.h>

#include "core/excerpt.h"
#include "core/index.h"
#include "core/spool.h"
#include "core/stream.h"

/* Newest frames that are kept encoded while there are two cursors or more. */
#define CACHE_FRAMES_MAX 64u
#define CACHE_BYTES_MAX  (1u << 20)

/* Records of the newest frames, for cursors that keep up: they never read the index. */
#define RECENT_MAX 128u

enum stream_timer {
	TIMER_SETTLE,    /* at once: callbacks, when the cause was not the loop */
	TIMER_PACE,      /* until a guest that writes byte by byte is read again */
	TIMER_HEARTBEAT, /* while there are cursors */
	N_TIMERS,
};

/* One pipe of the guest. */
struct channel {
	struct stream *stream;
	enum frame_kind kind;
	int fd;              /* -1: none, or it has ended */
	bool is_large;       /* its pipe has been enlarged */
	struct excerpt over; /* what came over the cap: its end is kept while the stream is */
	uv_poll_t poll;
};

struct cache {
	size_t bytes;
	struct {
		uint64_t seq;
		struct shared *message; /* NULL: empty */
	} slots[CACHE_FRAMES_MAX];      /* a frame's slot is its seq, modulo */
};

struct stream {
	unsigned n_refs;
	unsigned n_handles; /* of the loop, still open */
	uv_loop_t *loop;
	struct stream_options options;

	bool is_writable;
	bool is_attached;
	bool is_truncated; /* the frame that says so is written: drop what comes */
	bool is_drained;
	bool has_ended;
	bool drained_is_told;
	bool failed_is_told;
	bool capped_is_told;
	int failure; /* negative errno: output can not be kept any more */

	int dir_fd;
	int null_fd; /* opened when output is dropped */
	struct index index;
	struct spool spools[3]; /* see stream_spool() */
	uint64_t last_seq;
	uint64_t recent_from; /* the first seq of which `recent` knows */
	struct index_record recent[RECENT_MAX];

	struct channel channels[2];
	uint64_t n_small;    /* frames so small that the index outgrows them, lately */
	uint64_t small_time; /* of the loop, up to which they are forgiven */
	uv_timer_t timers[N_TIMERS];

	unsigned n_cursors;
	LIST_HEAD(cursor_list, cursor) waiting; /* had no frame, and were not woken since */
	struct cache cache;
};

/* The file that has the data of such frames. */
struct spool *stream_spool(struct stream *s, enum frame_kind kind);

/* One for replay, without files yet; and files that are open, as far as they are taken. */
struct stream *stream_new_ended(void);
int stream_adopt_files(struct stream *s, struct stream_files *files, struct err *err);

/* Write `n` <= INDEX_BLOCK records as the next frames and show them to cursors, which are
 * woken when the stream settles. On failure there is no frame more than before. */
int stream_append(struct stream *s, const struct index_record *records, size_t n);

/* The bytes of a frame, at most FRAMES_EVENT_MAX. -EBADMSG when they are others. */
int stream_read_data(struct stream *s, const struct index_record *record, void *buf);

/* Output can not be kept any more, because of `r`: drop it from now on, and say so. */
void stream_fail(struct stream *s, int r);

/* Call back whoever is to hear of something: from a callback of the loop at once, from a
 * call of our owner's when that is over. The stream may be gone after the first. */
void stream_settle(struct stream *s);
void stream_settle_later(struct stream *s);

void stream_start_timer(struct stream *s, enum stream_timer which, uint64_t ms, uv_timer_cb on);
void stream_stop_timer(struct stream *s, enum stream_timer which);

/* A handle of the loop's has closed; with the last one the memory goes. */
void stream_forget_handle(struct stream *s);

/* recover.c: find the last frame and what is behind it in the files. When the stream is
 * writable, what is damaged is cut off and bytes without a frame get theirs. */
int recover_stream(struct stream *s);

/* Whether every frame that has bytes of this part is what was written: 0, or a negative errno. */
int recover_check_part(struct stream *s, enum frame_kind which, uint64_t from, uint64_t to);

/* pump.c */

/* Make frames of the bytes of `kind` that have none. Those that begin a character stay,
 * unless `is_last`. A failure is the stream's. */
void pump_cut(struct stream *s, enum frame_kind kind, bool is_last);

/* Make frames of all bytes there are. */
void pump_flush(struct stream *s);

/* Read no more, whatever may still come. */
void pump_close(struct stream *s);

/* cursor.c */
void cursor_wake_all(struct stream *s);
