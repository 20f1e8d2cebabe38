#include "core/log_reader.h"

#include <string.h>

#include "base/shared.h"
#include "base/str.h"
#include "core/stream.h"

/* Frames that are passed over in one call, before others have their turn. */
#define FRAMES_A_TURN 64u

struct log_reader {
	struct log_options options;
	struct stream *stream;
	struct cursor *cursor;
	uint64_t to_skip; /* bytes of the text */
	uint64_t left;    /* likewise */
};

struct log_reader *log_reader_new(struct stream *stream, const struct log_options *options,
	void (*wake)(void *ctx), void *ctx)
{
	struct log_reader *r = xnew(struct log_reader);

	r->options = *options;
	r->stream = stream_ref(stream);
	r->cursor = cursor_open(stream, options->from_seq, wake, ctx);
	r->to_skip = options->offset;
	r->left = options->size;
	return r;
}

void log_reader_free(struct log_reader *r)
{
	if (!r)
		return;
	cursor_close(r->cursor);
	stream_unref(r->stream);
	free(r);
}

uint64_t log_reader_total(const struct stream *stream, enum log_which which)
{
	uint64_t n = 0;

	if (which != LOG_STDERR)
		n += stream_output_bytes(stream, FRAME_STDOUT);
	if (which != LOG_STDOUT)
		n += stream_output_bytes(stream, FRAME_STDERR);
	return n;
}

/* --- text --- */

static bool is_asked_for(const struct log_reader *r, enum frame_kind kind)
{
	return (kind == FRAME_STDOUT && r->options.which != LOG_STDERR) ||
	       (kind == FRAME_STDERR && r->options.which != LOG_STDOUT);
}

/* What is asked for of a frame; NULL for nothing. */
static struct shared *take_bytes(struct log_reader *r, const struct stream_frame *frame)
{
	if (!is_asked_for(r, frame->kind))
		return NULL;
	if (frame->size <= r->to_skip) {
		r->to_skip -= frame->size;
		return NULL;
	}
	size_t at = (size_t)r->to_skip;
	size_t size = frame->size - at;
	if (size > r->left)
		size = (size_t)r->left;
	struct shared *m = shared_new(size);
	memcpy(shared_data(m), frame->data + at, size);
	r->to_skip = 0;
	r->left -= size;
	return m;
}

/* `*ret_has_frame` false when there is none now. */
static struct shared *next_text(struct log_reader *r, bool *ret_has_frame)
{
	struct stream_frame frame;

	*ret_has_frame = cursor_next_frame(r->cursor, &frame);
	return *ret_has_frame ? take_bytes(r, &frame) : NULL;
}

/* --- JSON lines --- */

static bool is_of(struct shared *m, const char *kind)
{
	static const char head[] = "{\"type\":\"";
	size_t n = sizeof(head) - 1;
	size_t size = strlen(kind);

	return m->size > n + size && memcmp(shared_data(m), head, n) == 0 &&
	       memcmp(shared_data(m) + n, kind, size) == 0 && shared_data(m)[n + size] == '"';
}

/* Takes the message. */
static struct shared *line_of(struct shared *m)
{
	struct shared *line = shared_new(m->size + 1);

	memcpy(shared_data(line), shared_data(m), m->size);
	shared_data(line)[m->size] = '\n';
	shared_unref(m);
	return line;
}

static struct shared *next_line(struct log_reader *r, bool *ret_has_frame)
{
	struct shared *m = cursor_next(r->cursor);

	*ret_has_frame = m;
	if (!m)
		return NULL;
	if ((r->options.which == LOG_STDOUT && is_of(m, "stderr")) ||
		(r->options.which == LOG_STDERR && is_of(m, "stdout"))) {
		shared_unref(m);
		return NULL;
	}
	return line_of(m);
}

/* --- both --- */

static enum log_state state_of(const struct log_reader *r)
{
	if (cursor_is_done(r->cursor))
		return cursor_is_broken(r->cursor) ? LOG_BROKEN : LOG_OVER;
	return r->options.follows ? LOG_WAITS : LOG_OVER;
}

struct shared *log_reader_next(struct log_reader *r, enum log_state *ret_state)
{
	for (unsigned i = 0; i < FRAMES_A_TURN && r->left > 0; i++) {
		bool has_frame;
		struct shared *m =
			r->options.is_json ? next_line(r, &has_frame) : next_text(r, &has_frame);

		*ret_state = LOG_READY;
		if (m)
			return m;
		if (!has_frame) {
			*ret_state = state_of(r);
			return NULL;
		}
	}
	*ret_state = r->left > 0 ? LOG_READY : LOG_OVER;
	return NULL;
}
