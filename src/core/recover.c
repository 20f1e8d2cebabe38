/* What a predecessor left in the files of a stream. Records are believed one after the
 * other, as long as each is whole and its bytes directly follow those of the frame before
 * it and are there. With the first that is not, the index ends: bytes behind it
 * are indexed again, which loses none of them.
 *
 * That is so while the machine has not been started again since. Else a file may have what another
 * run left there, or anybody: then frames are compared with their sums, and bytes without a frame
 * are dropped. */
#include <errno.h>

#include "core/frames.h"
#include "core/stream_private.h"

static bool is_output(const struct index_record *record)
{
	return record->kind == FRAME_STDOUT || record->kind == FRAME_STDERR;
}

/* Where retention has removed the beginning, the first record says where the rest begins. */
static bool begins_late(const struct stream *s, const struct spool *p)
{
	return s->index.first_seq > 1 && p->indexed == 0;
}

/* Is it known that its bytes are the right ones? Who only reads finds out when he comes to them.
 * Events are few, and one of them says how the run ended. */
static bool is_known(const struct stream *s, const struct index_record *record)
{
	return !s->is_writable || (s->index.is_sure && is_output(record));
}

static bool has_its_bytes(struct stream *s, const struct index_record *record)
{
	char data[FRAMES_EVENT_MAX];

	return stream_read_data(s, record, data) == 0;
}

static bool accept_record(struct stream *s, const struct index_record *record)
{
	struct spool *p = stream_spool(s, record->kind);

	if (record->kind == FRAME_HEARTBEAT)
		return true;
	if (record->offset + record->size > p->size || (is_output(record) && record->size == 0))
		return false;
	if (begins_late(s, p))
		p->start = p->indexed = record->offset;
	if (record->offset != p->indexed || (!is_known(s, record) && !has_its_bytes(s, record)))
		return false;
	p->indexed += record->size;
	if (record->flags & INDEX_IS_LOG_CAP && record->kind == FRAME_TRUNCATED)
		s->is_truncated = true;
	if (s->is_writable)
		s->has_ended = record->kind == FRAME_EVENT && record->flags & INDEX_IS_END;
	return true;
}

static int read_records(struct stream *s)
{
	struct index_record block[INDEX_BLOCK];

	s->last_seq = s->index.first_seq - 1;
	for (;;) {
		ssize_t n = index_read(&s->index, s->last_seq + 1, block, INDEX_BLOCK);
		if (n < 0)
			return (int)n;
		for (ssize_t i = 0; i < n; i++) {
			if (!accept_record(s, &block[i]))
				return 0;
			s->recent[++s->last_seq % RECENT_MAX] = block[i];
		}
		if (n < INDEX_BLOCK)
			return 0;
	}
}

static void remember_recent(struct stream *s)
{
	uint64_t n = s->last_seq - s->index.first_seq + 1;

	s->recent_from = n > RECENT_MAX ? s->last_seq - RECENT_MAX + 1 : s->index.first_seq;
}

/* Bytes of output that have no frame. */
static int recover_output(struct stream *s, enum frame_kind kind)
{
	struct spool *p = stream_spool(s, kind);

	if (s->is_truncated || s->has_ended || !s->index.is_sure)
		return spool_cut(p, p->indexed);
	pump_cut(s, kind, false);
	return 0;
}

static bool lacks_frames(const struct stream *s)
{
	return !s->is_truncated && !s->has_ended &&
	       (s->spools[0].indexed < s->spools[0].size ||
		       s->spools[1].indexed < s->spools[1].size);
}

/* The files as they are to go on. */
static int recover_files(struct stream *s)
{
	int r = index_cut(&s->index, s->last_seq);

	/* An event without a record was not made: whoever wanted it was not told of one. */
	if (r == 0)
		r = spool_cut(&s->spools[2], s->spools[2].indexed);
	if (r == 0)
		r = recover_output(s, FRAME_STDOUT);
	if (r == 0)
		r = recover_output(s, FRAME_STDERR);
	return r;
}

int recover_stream(struct stream *s)
{
	int r = read_records(s);

	remember_recent(s);
	if (r < 0 || !s->is_writable)
		return r;
	bool is_lost = !s->index.is_sure && lacks_frames(s);
	r = recover_files(s);
	if (r == 0 && !s->index.is_sure)
		r = index_assure(&s->index);
	if (r == 0 && is_lost)
		(void)stream_event(s, "output_lost", "{\"reason\":\"damaged\"}");
	s->is_drained = s->has_ended;
	return r;
}

/* --- parts of the output --- */

static bool overlaps(const struct index_record *record, uint64_t from, uint64_t to)
{
	return record->offset < to && record->offset + record->size > from;
}

int recover_check_part(struct stream *s, enum frame_kind which, uint64_t from, uint64_t to)
{
	struct index_record block[INDEX_BLOCK];
	ssize_t n;

	for (uint64_t seq = s->index.first_seq; seq <= s->last_seq; seq += (uint64_t)n) {
		uint64_t left = s->last_seq - seq + 1;

		n = index_read(&s->index, seq, block, left < INDEX_BLOCK ? left : INDEX_BLOCK);
		if (n <= 0)
			return n < 0 ? (int)n : -EBADMSG;
		for (ssize_t i = 0; i < n; i++) {
			if (block[i].kind == which && overlaps(&block[i], from, to) &&
				!has_its_bytes(s, &block[i]))
				return -EBADMSG;
		}
	}
	return 0;
}
