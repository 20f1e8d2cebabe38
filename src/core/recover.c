/* What a predecessor left in the files of a stream. Records are believed one after the
 * other, as long as each is whole and its bytes directly follow those of the frame before
 * it and are there. With the first that is not, the index ends: bytes behind it
 * are indexed again, which loses none of them. */
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

static bool accept_record(struct stream *s, const struct index_record *record)
{
	struct spool *p = stream_spool(s, record->kind);

	if (record->kind == FRAME_HEARTBEAT)
		return true;
	if (record->offset + record->size > p->size || (is_output(record) && record->size == 0))
		return false;
	if (begins_late(s, p))
		p->start = p->indexed = record->offset;
	if (record->offset != p->indexed)
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

	if (s->is_truncated || s->has_ended)
		return spool_cut(p, p->indexed);
	pump_cut(s, kind, false);
	return 0;
}

int recover_stream(struct stream *s)
{
	int r = read_records(s);

	remember_recent(s);
	if (r < 0 || !s->is_writable)
		return r;
	r = index_cut(&s->index, s->last_seq);
	/* An event without a record was not made: whoever wanted it was not told of one. */
	if (r == 0)
		r = spool_cut(&s->spools[2], s->spools[2].indexed);
	if (r == 0)
		r = recover_output(s, FRAME_STDOUT);
	if (r == 0)
		r = recover_output(s, FRAME_STDERR);
	s->is_drained = s->has_ended;
	return r;
}
