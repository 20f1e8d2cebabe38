/* Subscribers. One that keeps up takes records from the stream's memory, and messages that
 * another has made before it; one that is behind reads the index in blocks and makes its
 * own. A cursor costs 80 bytes, and 3 KiB more while it is behind: a thousand of them are
 * 3.1 MiB at worst. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/frames.h"
#include "core/stream_private.h"

struct block {
	uint64_t first_seq;
	size_t n;
	struct index_record records[INDEX_BLOCK];
};

struct cursor {
	LIST_ENTRY(cursor) link;
	struct stream *stream;
	uint64_t next;    /* seq */
	uint64_t awaited; /* not 0: was asked for, and was not there */
	uint64_t wanted;  /* not 0: was asked for, and will never be there */
	bool is_waiting;  /* in the stream's list */
	bool is_broken;   /* a file can not be read */
	void (*wake)(void *ctx);
	void *ctx;
	struct block *block; /* NULL unless it is behind */
};

/* --- messages shared by those that keep up --- */

static void drop_slot(struct cache *cache, size_t i)
{
	if (!cache->slots[i].message)
		return;
	cache->bytes -= cache->slots[i].message->size;
	shared_unref(TAKE(cache->slots[i].message));
}

static void drop_all(struct cache *cache)
{
	for (size_t i = 0; i < CACHE_FRAMES_MAX; i++)
		drop_slot(cache, i);
}

static void drop_oldest(struct cache *cache)
{
	size_t oldest = CACHE_FRAMES_MAX;

	for (size_t i = 0; i < CACHE_FRAMES_MAX; i++) {
		if (cache->slots[i].message &&
			(oldest == CACHE_FRAMES_MAX ||
				cache->slots[i].seq < cache->slots[oldest].seq))
			oldest = i;
	}
	if (oldest < CACHE_FRAMES_MAX)
		drop_slot(cache, oldest);
}

static struct shared *find_message(struct stream *s, uint64_t seq)
{
	size_t i = seq % CACHE_FRAMES_MAX;

	if (!s->cache.slots[i].message || s->cache.slots[i].seq != seq)
		return NULL;
	return shared_ref(s->cache.slots[i].message);
}

static void keep_message(struct stream *s, uint64_t seq, struct shared *message)
{
	size_t i = seq % CACHE_FRAMES_MAX;

	if (s->n_cursors < 2 || seq + CACHE_FRAMES_MAX <= s->last_seq)
		return;
	drop_slot(&s->cache, i);
	while (s->cache.bytes + message->size > CACHE_BYTES_MAX)
		drop_oldest(&s->cache);
	s->cache.slots[i].seq = seq;
	s->cache.slots[i].message = shared_ref(message);
	s->cache.bytes += message->size;
}

/* --- life --- */

static void on_heartbeat(uv_timer_t *timer)
{
	struct stream *s = timer->data;
	struct index_record record = {
		.kind = FRAME_HEARTBEAT,
		.time_ns = clock_realtime_ns(),
	};

	/* Without it the run is no worse; on a full disk there is none. */
	(void)stream_append(s, &record, 1);
	stream_start_timer(s, TIMER_HEARTBEAT, s->options.heartbeat_ms, on_heartbeat);
	stream_settle(s);
}

static bool has_heartbeats(const struct stream *s)
{
	return s->is_writable && !s->has_ended && s->options.heartbeat_ms > 0;
}

struct cursor *cursor_open(struct stream *s, uint64_t from_seq, void (*wake)(void *ctx), void *ctx)
{
	struct cursor *c = xnew(struct cursor);
	uint64_t oldest = s->index.first_seq;

	c->stream = stream_ref(s);
	c->wake = wake;
	c->ctx = ctx;
	c->next = from_seq == STREAM_TAIL ? s->last_seq + 1 : from_seq;
	if (from_seq < oldest) {
		c->wanted = from_seq;
		c->next = oldest;
	} else if (from_seq != STREAM_TAIL && from_seq > s->last_seq && !s->has_ended) {
		c->awaited = from_seq;
	}
	if (s->n_cursors++ == 0 && has_heartbeats(s))
		stream_start_timer(s, TIMER_HEARTBEAT, s->options.heartbeat_ms, on_heartbeat);
	return c;
}

static void stop_waiting(struct cursor *c)
{
	if (c->is_waiting)
		LIST_REMOVE(c, link);
	c->is_waiting = false;
}

void cursor_close(struct cursor *c)
{
	if (!c)
		return;
	struct stream *s = c->stream;
	stop_waiting(c);
	if (--s->n_cursors < 2)
		drop_all(&s->cache);
	if (s->n_cursors == 0)
		stream_stop_timer(s, TIMER_HEARTBEAT);
	stream_unref(s);
	free(c->block);
	free(c);
}

/* Whoever is called may open, close and wait again: those of now are taken aside. */
void cursor_wake_all(struct stream *s)
{
	struct cursor_list now = s->waiting;
	struct cursor *c = LIST_FIRST(&now);

	if (!c)
		return;
	c->link.le_prev = &now.lh_first;
	LIST_INIT(&s->waiting);
	while ((c = LIST_FIRST(&now))) {
		stop_waiting(c);
		if (c->wake)
			c->wake(c->ctx);
	}
}

/* --- reading --- */

static const struct index_record *read_block(struct cursor *c)
{
	struct stream *s = c->stream;
	uint64_t left = s->last_seq - c->next + 1;

	if (!c->block)
		c->block = xnew(struct block);
	ssize_t n = index_read(&s->index, c->next, c->block->records,
		left < INDEX_BLOCK ? (size_t)left : INDEX_BLOCK);
	c->block->first_seq = c->next;
	c->block->n = n > 0 ? (size_t)n : 0;
	return n > 0 ? c->block->records : NULL;
}

/* The record of the frame `c->next`, which exists; NULL when it can not be read. */
static const struct index_record *find_record(struct cursor *c)
{
	struct stream *s = c->stream;

	if (c->next >= s->recent_from && c->next + RECENT_MAX > s->last_seq) {
		free(TAKE(c->block));
		return &s->recent[c->next % RECENT_MAX];
	}
	if (c->block && c->next >= c->block->first_seq &&
		c->next - c->block->first_seq < c->block->n)
		return &c->block->records[c->next - c->block->first_seq];
	return read_block(c);
}

static struct shared *make_message(
	struct stream *s, const struct index_record *record, uint64_t seq)
{
	char data[FRAMES_EVENT_MAX];
	struct frames_source f = {
		.kind = record->kind,
		.is_text = record->flags & INDEX_IS_TEXT,
		.data = data,
		.size = record->size,
		.time_ns = record->time_ns,
		.seq = seq,
	};

	_Static_assert(sizeof(data) >= FRAMES_CHUNK_MAX, "any frame fits");
	if (stream_read_data(s, record, data) < 0)
		return NULL;
	return frames_encode(&f);
}

static struct shared *get_message(struct cursor *c)
{
	struct stream *s = c->stream;
	struct shared *message = find_message(s, c->next);

	if (message)
		return message;
	const struct index_record *record = find_record(c);
	message = record ? make_message(s, record, c->next) : NULL;
	if (message)
		keep_message(s, c->next, message);
	return message;
}

/* A heartbeat is news for a moment only. */
static bool is_stale(struct cursor *c)
{
	const struct stream *s = c->stream;
	const struct index_record *record = find_record(c);

	return record && record->kind == FRAME_HEARTBEAT &&
	       (!has_heartbeats(s) ||
		       record->time_ns + s->options.heartbeat_ms * 1000000 < clock_realtime_ns());
}

/* What it waited for did not come: then it only gets the end. */
static void stop_awaiting(struct cursor *c)
{
	const struct stream *s = c->stream;

	if (c->awaited > s->last_seq && s->last_seq >= s->index.first_seq)
		c->next = s->last_seq;
	c->awaited = 0;
}

/* False, and it waits, when there is none now. */
static bool has_next(struct cursor *c)
{
	struct stream *s = c->stream;

	if (c->awaited > 0 && s->has_ended)
		stop_awaiting(c);
	while (c->next <= s->last_seq && is_stale(c))
		c->next++;
	if (c->next <= s->last_seq && !c->is_broken)
		return true;
	if (!c->is_waiting)
		LIST_INSERT_HEAD(&s->waiting, c, link);
	c->is_waiting = true;
	return false;
}

static void give_up(struct cursor *c)
{
	log_warn("frame %" PRIu64 " of a stream can not be read, ending it there", c->next);
	c->is_broken = true;
}

struct shared *cursor_next(struct cursor *c)
{
	if (!has_next(c))
		return NULL;
	if (c->wanted > 0) {
		uint64_t wanted = c->wanted;

		c->wanted = 0;
		return frames_encode_resume(wanted, c->next);
	}
	struct shared *message = get_message(c);
	if (message) {
		c->next++;
		return message;
	}
	give_up(c);
	return NULL;
}

static bool read_frame(struct cursor *c, struct stream_frame *ret)
{
	const struct index_record *record = find_record(c);

	_Static_assert(sizeof(ret->data) >= FRAMES_EVENT_MAX, "any frame fits");
	if (!record)
		return false;
	ret->kind = record->kind;
	ret->size = record->size;
	return stream_read_data(c->stream, record, ret->data) == 0;
}

bool cursor_next_frame(struct cursor *c, struct stream_frame *ret)
{
	if (!has_next(c))
		return false;
	if (!read_frame(c, ret)) {
		give_up(c);
		return false;
	}
	c->next++;
	return true;
}

bool cursor_is_broken(const struct cursor *c)
{
	return c->is_broken;
}

bool cursor_is_done(const struct cursor *c)
{
	return c->is_broken || (c->stream->has_ended && c->next > c->stream->last_seq);
}
