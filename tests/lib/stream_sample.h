/* For the tests of streams: one in a directory of its own on a loop of its own, the guest's
 * ends of its pipes, and a subscriber that takes frames apart and checks what is true
 * of all of them. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/stream.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define SAMPLE_PATIENCE_NS (UINT64_C(10) * 1000000000u)

struct sample_bytes {
	char *data;
	size_t size;
	size_t room;
};

static inline void sample_add(struct sample_bytes *b, const void *data, size_t size)
{
	if (b->size + size + 1 > b->room) {
		b->room = 2 * (b->size + size + 1);
		b->data = realloc(b->data, b->room);
	}
	if (!b->data)
		abort();
	if (size > 0)
		memcpy(b->data + b->size, data, size);
	b->size += size;
	b->data[b->size] = '\0';
}

struct sample {
	struct scratch dir;
	uv_loop_t loop;
	struct stream *stream;
	struct stream_options options;
	int guest[2]; /* the ends to write to */
	unsigned n_drained;
	unsigned n_failed;
	unsigned n_capped;
	int failure;
};

static inline void sample_on_drained(void *ctx)
{
	((struct sample *)ctx)->n_drained++;
}

static inline void sample_on_failed(void *ctx, int r)
{
	((struct sample *)ctx)->n_failed++;
	((struct sample *)ctx)->failure = r;
}

static inline void sample_on_capped(void *ctx)
{
	((struct sample *)ctx)->n_capped++;
}

static inline void sample_make(struct sample *m)
{
	*m = (struct sample){ .guest = { -1, -1 } };
	scratch_make(&m->dir);
	if (uv_loop_init(&m->loop) < 0)
		abort();
	m->options = (struct stream_options){
		.id = "sample",
		.log_cap = 1 << 30,
		.drained = sample_on_drained,
		.failed = sample_on_failed,
		.capped = sample_on_capped,
		.ctx = m,
	};
}

/* Let go of the stream; the loop must then have nothing left. */
static inline void sample_close(struct sample *m)
{
	stream_unref(TAKE(m->stream));
	(void)uv_run(&m->loop, UV_RUN_DEFAULT);
	close_fdp(&m->guest[0]);
	close_fdp(&m->guest[1]);
}

static inline void sample_remove(struct sample *m)
{
	sample_close(m);
	CHECK_EQ(uv_loop_close(&m->loop), 0);
	scratch_remove(&m->dir);
}

#define SAMPLE(name)                                                                               \
	CLEANUP(sample_remove) struct sample name;                                                 \
	sample_make(&name)

static inline void sample_open(struct sample *m)
{
	struct err err = { 0 };

	if (stream_open(&m->loop, m->dir.fd, &m->options, &m->stream, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void sample_open_ended(struct sample *m)
{
	struct err err = { 0 };

	if (stream_open_ended(&m->loop, m->dir.fd, m->options.id, &m->stream, &err) < 0)
		fail_msg("%s", err.text);
}

/* Give it two pipes. */
static inline void sample_attach(struct sample *m)
{
	struct err err = { 0 };
	int ends[2];

	for (size_t i = 0; i < 2; i++)
		CHECK_EQ(fd_pipe(&ends[i], &m->guest[i]), 0);
	CHECK_EQ(stream_attach(m->stream, ends[0], ends[1], &err), 0);
}

static inline void sample_start(struct sample *m)
{
	sample_open(m);
	sample_attach(m);
}

static inline void sample_write(struct sample *m, int which, const void *data, size_t size)
{
	CHECK_EQ(fd_write_full(m->guest[which], data, size), 0);
}

/* Close the guest's ends and wait until all is drained. */
static inline void sample_drain(struct sample *m)
{
	uint64_t deadline = clock_monotonic_ns() + SAMPLE_PATIENCE_NS;

	close_fdp(&m->guest[0]);
	close_fdp(&m->guest[1]);
	while (m->n_drained == 0) {
		CHECK(clock_monotonic_ns() < deadline);
		(void)uv_run(&m->loop, UV_RUN_ONCE);
	}
}

/* Let the loop go on until the stream has the frame `seq`. */
static inline void sample_wait(struct sample *m, uint64_t seq)
{
	uint64_t deadline = clock_monotonic_ns() + SAMPLE_PATIENCE_NS;

	while (stream_last_seq(m->stream) < seq) {
		CHECK(clock_monotonic_ns() < deadline);
		(void)uv_run(&m->loop, UV_RUN_NOWAIT);
	}
}

/* Turns of the loop for `ms`, whatever happens. */
static inline void sample_idle(struct sample *m, uint64_t ms)
{
	uint64_t deadline = clock_monotonic_ns() + ms * 1000000u;

	while (clock_monotonic_ns() < deadline) {
		(void)uv_run(&m->loop, UV_RUN_NOWAIT);
		(void)usleep(500);
	}
}

/* --- what a subscriber gets --- */

struct sample_view {
	struct sample_bytes output[2]; /* stdout, stderr */
	uint64_t n_frames;
	uint64_t last_seq;
	unsigned n_base64;
	unsigned n_truncated;
	unsigned n_heartbeats;
	bool allows_gaps;
};

static inline void sample_view_free(struct sample_view *v)
{
	free(v->output[0].data);
	free(v->output[1].data);
}

#define SAMPLE_VIEW(name) CLEANUP(sample_view_free) struct sample_view name = { 0 }

static inline void sample_decode_base64(const char *text, struct sample_bytes *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	CHECK(strlen(text) % 4 == 0);
	for (; *text; text += 4) {
		unsigned bits = 0;
		size_t n = text[2] == '=' ? 1 : text[3] == '=' ? 2 : 3;

		for (size_t i = 0; i < 4; i++) {
			const char *digit = strchr(digits, text[i]);
			CHECK(digit || (i > n && text[i] == '='));
			bits = bits << 6 | (digit ? (unsigned)(digit - digits) : 0);
		}
		unsigned char bytes[3] = { bits >> 16, bits >> 8 & 0xff, bits & 0xff };
		sample_add(to, bytes, n);
	}
}

static inline void sample_view_output(struct sample_view *v, const json_t *frame, int which)
{
	const char *encoding = json_string_value(json_object_get(frame, "encoding"));
	const json_t *data = json_object_get(frame, "data");

	CHECK(encoding && json_is_string(data) && json_object_size(frame) == 4);
	if (streq(encoding, "utf8")) {
		sample_add(&v->output[which], json_string_value(data), json_string_length(data));
		return;
	}
	CHECK_STR(encoding, "base64");
	v->n_base64++;
	sample_decode_base64(json_string_value(data), &v->output[which]);
}

/* Take one message apart and add it to what was seen. */
static inline void sample_view_add(struct sample_view *v, struct shared *message)
{
	json_t *frame = json_loadb(shared_data(message), message->size, JSON_ALLOW_NUL, NULL);
	const char *type = json_string_value(json_object_get(frame, "type"));
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(frame, "seq"));

	CHECK(message->size <= STREAM_MESSAGE_MAX && frame && type);
	CHECK(v->n_frames == 0 || v->allows_gaps || seq == v->last_seq + 1);
	CHECK(seq > v->last_seq);
	v->last_seq = seq;
	v->n_frames++;
	if (streq(type, "stdout") || streq(type, "stderr"))
		sample_view_output(v, frame, streq(type, "stderr"));
	v->n_truncated += streq(type, "truncated");
	v->n_heartbeats += streq(type, "heartbeat");
	json_decref(frame);
}

static inline void sample_pull(struct sample_view *v, struct cursor *c)
{
	struct shared *message;

	while ((message = cursor_next(c))) {
		sample_view_add(v, message);
		shared_unref(message);
	}
}

/* All frames there are. */
static inline void sample_replay(struct sample *m, struct sample_view *v)
{
	struct cursor *c = cursor_open(m->stream, 0, NULL, NULL);

	sample_pull(v, c);
	cursor_close(c);
}

/* The text of the next frame; the caller frees it. NULL for none. */
static inline char *sample_next(struct cursor *c)
{
	CLEANUP(shared_unrefp) struct shared *message = cursor_next(c);

	return message ? strndup(shared_data(message), message->size) : NULL;
}

#define CHECK_NEXT(c, text)                                                                        \
	do {                                                                                       \
		AUTO_FREE char *next_ = sample_next(c);                                            \
		CHECK(next_ != NULL);                                                              \
		CHECK_STR(next_, text);                                                            \
	} while (0)
