/* The output of one run, as frames that are numbered from 1 and kept on disk: two spool
 * files with the guest's bytes, one with events, and an index of fixed-size records, one
 * for each frame. What is in a pipe or in a file is never lost: bytes go from the pipe to
 * the spool by splice(), are cut into frames, and are indexed before anybody sees them. A
 * server that is killed at any instant finds, when it comes back, bytes without an index
 * record, and goes on numbering there. (Only a terminal can not be spliced: what was read
 * from one and not yet written dies with the server.)
 *
 * A subscriber is a cursor, not a queue: it costs the same however far behind it is. The
 * newest frames are kept encoded, so that a thousand subscribers at the tail share the work.
 *
 * In a run's directory:
 *	stdout, stderr, events   spools
 *	index                    a header, and 32 bytes per frame in the order of seq
 * They may have been another run's: see index.h for how that is noticed. Who reads gets this
 * run's bytes, or none.
 *
 * Used from the loop's thread only. No callback is ever called from inside one of these
 * calls, but from the loop, soon after; any of them may be made from a callback. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct stream;
struct cursor;
struct shared;
typedef struct uv_loop_s uv_loop_t;

enum frame_kind {
	FRAME_STDOUT = 1,
	FRAME_STDERR,
	FRAME_EVENT,     /* the spool holds {"event": ..., "data": ...} without seq */
	FRAME_HEARTBEAT, /* has a seq of its own; a replay leaves it out */
	FRAME_TRUNCATED, /* the spool holds the reason */
};

/* The most bytes of an encoded frame: the protocol's 64 KiB per message. */
#define STREAM_MESSAGE_MAX (64u << 10)

/* The most bytes of one as it is kept. */
#define STREAM_FRAME_MAX ((16u << 10) + 96u)

struct stream_options {
	const char *id;        /* of the run; needed only while it is opened */
	uint64_t log_cap;      /* bytes of stdout and stderr together; then one truncated frame */
	uint64_t heartbeat_ms; /* while somebody listens and the run goes on; 0: none */
	/* The guest's ends are all closed and every byte is indexed, or dropped over the cap. */
	void (*drained)(void *ctx);
	/* The spool can not be written any more: a disk is full. The run goes on, its further
	 * output is dropped; an event "output_lost" says so if that can be written. */
	void (*failed)(void *ctx, int r);
	/* The guest printed more than log_cap; the frame that says so is written. */
	void (*capped)(void *ctx);
	void *ctx; /* must live until stream_end(), or until the stream is gone */
};

/* The files of a stream; -1 for one that is not there. */
struct stream_files {
	int dir_fd;
	int index_fd;
	int spool_fds[3]; /* stdout, stderr, events */
};

#define STREAM_FILES_NONE ((struct stream_files){ -1, -1, { -1, -1, -1 } })

/* Close them, as far as they are there. */
void stream_files_close(struct stream_files *files);

/* Open the stream in the directory `dir_fd` (borrowed for the call), making the files or
 * continuing with those of a predecessor: what is in the spools and not in the index is
 * indexed now, and a damaged end of the index is cut off. After a loss of power bytes that no
 * record is right about are cut off instead; an event "output_lost" says so if there were any.
 * -EBADMSG when a file is not one of ours. There must be only one at a time. */
int stream_open(uv_loop_t *loop, int dir_fd, const struct stream_options *options,
	struct stream **ret, struct err *err);

/* The same in files that are open and hold nothing, or zeros where stream_take_files() leaves
 * some; they are taken, also when it fails. */
int stream_open_in(uv_loop_t *loop, struct stream_files *files,
	const struct stream_options *options, struct stream **ret, struct err *err);

/* That of a run which is over, for replay only: nothing is written. -ENOENT when it was removed. */
int stream_open_ended(
	uv_loop_t *loop, int dir_fd, const char *id, struct stream **ret, struct err *err);

/* Streams are counted: the run holds one, each cursor another. The last one closes the
 * files; memory goes when the loop's handles have closed. NULL can be unref'd. */
struct stream *stream_ref(struct stream *s);
void stream_unref(struct stream *s);

/* Read the guest's output from these from now on; takes both (-1 for none), also when it
 * fails. `drained` is called once both have ended, not before stream_attach(). Reading never
 * stops for a slow subscriber, and goes on, dropping, over the cap. -EALREADY when it was
 * called before, -ESHUTDOWN when the stream has ended. */
int stream_attach(struct stream *s, int stdout_fd, int stderr_fd, struct err *err);

/* Another log_cap, before anything is attached: what a predecessor wrote stays. */
void stream_set_cap(struct stream *s, uint64_t log_cap);

/* Every process of the run is dead: take what is in its pipes now, and do not wait for their end.
 * The guest may have given its end of a pipe to another run of its session. A terminal is read
 * to its end, because the kernel hands over the last bytes of a terminal later. */
void stream_finish_pipes(struct stream *s);

/* The run is over, but an orphan of ours may hold the pipe: take what is there now and
 * call it drained. `drained` is called, unless it was. */
void stream_finish(struct stream *s);

/* Append a frame: {"type":"event","event":NAME,"data":DATA,"seq":n}. `data` is a JSON text of
 * at most 16 KiB, `name` at most 64 letters, digits and "_.-". Returns its seq, or a negative
 * errno: -EINVAL or -E2BIG for these, -ESHUTDOWN when the stream has ended, or why it can
 * not be written. */
int64_t stream_event(struct stream *s, const char *name, const char *data);

/* {"type":"truncated","reason":REASON,"seq":n}, for what is not the log cap: "stdin_cap". */
int64_t stream_truncated(struct stream *s, const char *reason);

/* No frame follows: cursors end after the last, what is still in a pipe is not read, and
 * neither `drained` nor `failed` is called any more. Idempotent; also true of an opened stream
 * whose last frame is the "end" event. */
void stream_end(struct stream *s);
bool stream_has_ended(const struct stream *s);

uint64_t stream_last_seq(const struct stream *s);  /* 0: none */
uint64_t stream_log_bytes(const struct stream *s); /* kept of stdout and stderr */
bool stream_was_truncated(const struct stream *s); /* by the log cap */
/* Kept of stdout, or of stderr. */
uint64_t stream_output_bytes(const struct stream *s, enum frame_kind which);
bool stream_is_drained(const struct stream *s);

/* The first `max` bytes of stdout or stderr: for answers that carry the output. The caller
 * frees `*ret`, which a NUL follows. `*ret_total` is how many bytes are kept in all. -EBADMSG when
 * they are not what was written. */
int stream_read_output(struct stream *s, enum frame_kind which, size_t max, char **ret,
	size_t *ret_size, uint64_t *ret_total);

/* The same of what follows `offset`. */
struct stream_part {
	enum frame_kind which;
	uint64_t offset;
	size_t max;
};
int stream_read_part(struct stream *s, const struct stream_part *part, char **ret, size_t *ret_size,
	uint64_t *ret_total);

/* The last bytes, at most `max`, of what stdout or stderr printed over the log cap: this server
 * remembers some of that while it has the stream open. The caller frees `*ret`, which is NULL
 * for none, and which a NUL follows. Returns how many bytes there were. */
uint64_t stream_read_over(
	struct stream *s, enum frame_kind which, size_t max, char **ret, size_t *ret_size);

/* --- short streams, stream_pack.c --- */

/* Most runs print little. The stream of one that is over is then a text of at most
 * STREAM_PACKED_MAX characters, kept by whoever keeps the rest of what is known of the run, and
 * its files, whose making would cost more than all else, serve another. */
#define STREAM_PACKED_MAX 2000u

/* All frames of a stream that has ended; the caller frees the text. -EFBIG when they are too
 * many, -EIO when something of them was lost. */
int stream_pack(struct stream *s, char **ret);

/* Can it be, even with the events of its end, of STREAM_LAST_EVENTS bytes with their records? */
#define STREAM_LAST_EVENTS 512u
bool stream_is_short(const struct stream *s);

/* For replay. -EBADMSG when it is not such a text. */
int stream_open_packed(const char *text, struct stream **ret, struct err *err);

/* Hand over the files of a stream that is over, without what is in them: those of output are
 * empty, the others may have zeros, which no reader takes for a frame. False when somebody else
 * still reads it, or that fails; else it can only be unref'd any more. */
bool stream_take_files(struct stream *s, struct stream_files *ret);

/* --- subscribers --- */

/* Where to begin: from_seq >= 1 is that frame (if retention removed it, the oldest, after a
 * "resume" event frame; if there is no such frame yet, wait for it, and if the stream ends without
 * it, give its last frame, the end; of a stream that has ended already, nothing); 0 is the oldest
 * there is; STREAM_TAIL is what comes next. */
#define STREAM_TAIL UINT64_MAX

/* `wake` is called on the loop when there may be a frame after cursor_next() had none, or the
 * stream has ended; it may be NULL. */
struct cursor *cursor_open(struct stream *s, uint64_t from_seq, void (*wake)(void *ctx), void *ctx);
void cursor_close(struct cursor *c); /* NULL is allowed */

/* The next frame as JSON text, with a reference for the caller; NULL when there is none now: `wake`
 * will tell, or when cursor_is_done(). */
struct shared *cursor_next(struct cursor *c);

/* A frame as it is kept, for who has words of his own for it. */
struct stream_frame {
	enum frame_kind kind;
	size_t size;
	char data[STREAM_FRAME_MAX];
};

/* The same as cursor_next(), but bytes: of output, as the guest wrote them. False when there is
 * none now. A note that frames were removed does not come. */
bool cursor_next_frame(struct cursor *c, struct stream_frame *ret);

/* All frames were given and none will follow, or a file can not be read any more. Ask after
 * cursor_next() had none. */
bool cursor_is_done(const struct cursor *c);
/* ... which was for the latter. */
bool cursor_is_broken(const struct cursor *c);

DEFINE_CLEANUP(struct stream, stream_unref)
DEFINE_CLEANUP(struct cursor, cursor_close)
