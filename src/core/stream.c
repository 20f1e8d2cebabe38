#include "core/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/frames.h"
#include "core/stream_private.h"

#define LOG_CAP "log_cap"

struct spool *stream_spool(struct stream *s, enum frame_kind kind)
{
	return &s->spools[kind == FRAME_STDOUT ? 0 : kind == FRAME_STDERR ? 1 : 2];
}

/* --- life --- */

void stream_forget_handle(struct stream *s)
{
	if (--s->n_handles == 0 && s->n_refs == 0)
		free(s);
}

static void on_closed(uv_handle_t *handle)
{
	stream_forget_handle(handle->data);
}

static void stream_free(struct stream *s)
{
	pump_close(s);
	for (size_t i = 0; i < N_TIMERS && s->loop; i++)
		uv_close((uv_handle_t *)&s->timers[i], on_closed);
	for (size_t i = 0; i < ARRAY_SIZE(s->spools); i++)
		spool_fini(&s->spools[i]);
	for (size_t i = 0; i < ARRAY_SIZE(s->channels); i++)
		excerpt_fini(&s->channels[i].over);
	index_fini(&s->index);
	close_fdp(&s->dir_fd);
	if (s->n_handles == 0)
		free(s);
}

struct stream *stream_ref(struct stream *s)
{
	s->n_refs++;
	return s;
}

void stream_unref(struct stream *s)
{
	if (s && --s->n_refs == 0)
		stream_free(s);
}

static void add_timers(struct stream *s, uv_loop_t *loop)
{
	s->loop = loop;
	for (size_t i = 0; i < N_TIMERS; i++) {
		(void)uv_timer_init(loop, &s->timers[i]); /* can not fail */
		s->timers[i].data = s;
		s->n_handles++;
	}
}

static struct stream *stream_new(bool is_writable)
{
	struct stream *s = xnew(struct stream);

	s->n_refs = 1;
	s->is_writable = is_writable;
	s->index.fd = s->dir_fd = s->null_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->spools); i++)
		s->spools[i].fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->channels); i++) {
		s->channels[i].stream = s;
		s->channels[i].kind = i == 0 ? FRAME_STDOUT : FRAME_STDERR;
		s->channels[i].fd = -1;
	}
	LIST_INIT(&s->waiting);
	return s;
}

struct stream *stream_new_ended(void)
{
	struct stream *s = stream_new(false);

	s->has_ended = true;
	s->is_drained = true;
	return s;
}

static const char *const spool_names[] = { "stdout", "stderr", "events" };

static int open_files(struct stream *s, int dir_fd, const char *id, struct err *err)
{
	s->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (s->dir_fd < 0)
		return err_errno(err, "directory of a stream");
	int r = index_open(&s->index, s->dir_fd, id, s->is_writable, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(spool_names); i++) {
		r = spool_init(&s->spools[i], spool_names[i], s->dir_fd, s->is_writable);
		if (r < 0)
			return err_set(err, r, "spool %s: %s", spool_names[i], strerror(-r));
	}
	r = recover_stream(s);
	return r < 0 ? err_set(err, r, "recover a stream: %s", strerror(-r)) : 0;
}

int stream_adopt_files(struct stream *s, struct stream_files *files, struct err *err)
{
	int r = 0;

	s->dir_fd = take_fd(&files->dir_fd);
	for (size_t i = 0; i < ARRAY_SIZE(spool_names) && r == 0; i++)
		r = spool_adopt(&s->spools[i], spool_names[i], s->dir_fd, s->is_writable,
			take_fd(&files->spool_fds[i]));
	if (r < 0)
		return err_set(err, r, "spool: %s", strerror(-r));
	r = index_adopt(&s->index, files->index_fd, err);
	if (r < 0)
		return r;
	files->index_fd = -1;
	r = recover_stream(s);
	return r < 0 ? err_set(err, r, "recover a stream: %s", strerror(-r)) : 0;
}

void stream_files_close(struct stream_files *files)
{
	close_fdp(&files->dir_fd);
	close_fdp(&files->index_fd);
	for (size_t i = 0; i < ARRAY_SIZE(files->spool_fds); i++)
		close_fdp(&files->spool_fds[i]);
	*files = STREAM_FILES_NONE;
}

int stream_open(uv_loop_t *loop, int dir_fd, const struct stream_options *options,
	struct stream **ret, struct err *err)
{
	CLEANUP(stream_unrefp) struct stream *s = stream_new(true);

	s->options = *options;
	add_timers(s, loop);
	int r = open_files(s, dir_fd, options->id, err);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

/* There is nothing to recover in them. */
static int begin_files(struct stream *s, struct stream_files *files, struct err *err)
{
	s->dir_fd = take_fd(&files->dir_fd);
	for (size_t i = 0; i < ARRAY_SIZE(spool_names); i++)
		spool_begin(
			&s->spools[i], spool_names[i], s->dir_fd, take_fd(&files->spool_fds[i]));
	int r = index_begin(&s->index, files->index_fd, s->options.id);
	if (r < 0)
		return err_set(err, r, "index of a stream: %s", strerror(-r));
	files->index_fd = -1;
	s->recent_from = s->index.first_seq;
	return 0;
}

int stream_open_in(uv_loop_t *loop, struct stream_files *files,
	const struct stream_options *options, struct stream **ret, struct err *err)
{
	CLEANUP(stream_unrefp) struct stream *s = stream_new(true);

	s->options = *options;
	add_timers(s, loop);
	int r = begin_files(s, files, err);
	stream_files_close(files);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

int stream_open_ended(
	uv_loop_t *loop, int dir_fd, const char *id, struct stream **ret, struct err *err)
{
	CLEANUP(stream_unrefp) struct stream *s = stream_new_ended();

	(void)loop; /* nothing is awaited */
	int r = open_files(s, dir_fd, id, err);
	if (r < 0)
		return r;
	*ret = TAKE(s);
	return 0;
}

/* --- callbacks --- */

void stream_start_timer(struct stream *s, enum stream_timer which, uint64_t ms, uv_timer_cb on)
{
	if (s->loop)
		(void)uv_timer_start(&s->timers[which], on, ms, 0);
}

void stream_stop_timer(struct stream *s, enum stream_timer which)
{
	if (s->loop)
		(void)uv_timer_stop(&s->timers[which]);
}

void stream_settle(struct stream *s)
{
	stream_ref(s);
	stream_stop_timer(s, TIMER_SETTLE);
	if (s->failure && !s->failed_is_told && !s->has_ended) {
		s->failed_is_told = true;
		if (s->options.failed)
			s->options.failed(s->options.ctx, s->failure);
	}
	if (s->is_truncated && !s->capped_is_told && !s->has_ended) {
		s->capped_is_told = true;
		if (s->options.capped)
			s->options.capped(s->options.ctx);
	}
	cursor_wake_all(s);
	if (s->is_drained && !s->drained_is_told && !s->has_ended) {
		s->drained_is_told = true;
		if (s->options.drained)
			s->options.drained(s->options.ctx);
	}
	stream_unref(s);
}

static void on_settle(uv_timer_t *timer)
{
	stream_settle(timer->data);
}

void stream_settle_later(struct stream *s)
{
	stream_start_timer(s, TIMER_SETTLE, 0, on_settle);
}

/* --- frames --- */

int stream_append(struct stream *s, const struct index_record *records, size_t n)
{
	int r = index_write(&s->index, s->last_seq + 1, records, n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		s->recent[++s->last_seq % RECENT_MAX] = records[i];
	if (!LIST_EMPTY(&s->waiting))
		stream_settle_later(s);
	return 0;
}

int stream_read_data(struct stream *s, const struct index_record *record, void *buf)
{
	int r = record->size == 0 ? 0
				  : spool_read(stream_spool(s, record->kind), record->offset, buf,
					    record->size);

	if (r < 0)
		return r;
	return index_fits(&s->index, record, buf) ? 0 : -EBADMSG;
}

static int64_t append_text(
	struct stream *s, enum frame_kind kind, unsigned flags, const char *text, size_t size)
{
	struct spool *p = stream_spool(s, kind);
	struct index_record record = {
		.kind = (uint8_t)kind,
		.flags = (uint8_t)flags,
		.size = (uint32_t)size,
		.sum = index_sum(&s->index, text, size),
		.offset = p->size,
		.time_ns = clock_realtime_ns(),
	};
	int r = spool_append(p, text, size);

	if (r < 0)
		return r;
	r = stream_append(s, &record, 1);
	if (r < 0) {
		(void)spool_cut(p, record.offset);
		return r;
	}
	p->indexed = p->size;
	return (int64_t)s->last_seq;
}

/* What may be appended, and may what is held back be followed by it? */
static int begin_append(struct stream *s)
{
	if (!s->is_writable || s->has_ended)
		return -ESHUTDOWN;
	if (!s->is_attached || s->is_drained)
		pump_flush(s);
	return 0;
}

int64_t stream_event(struct stream *s, const char *name, const char *data)
{
	AUTO_FREE char *text = NULL;
	int r = frames_format_event(name, data, &text);

	if (r < 0)
		return r;
	r = begin_append(s);
	if (r < 0)
		return r;
	return append_text(
		s, FRAME_EVENT, streq(name, "end") ? INDEX_IS_END : 0, text, strlen(text));
}

int64_t stream_truncated(struct stream *s, const char *reason)
{
	if (!frames_name_is_valid(reason))
		return -EINVAL;
	int r = begin_append(s);
	if (r < 0)
		return r;
	return append_text(s, FRAME_TRUNCATED, streq(reason, LOG_CAP) ? INDEX_IS_LOG_CAP : 0,
		reason, strlen(reason));
}

void stream_fail(struct stream *s, int r)
{
	char data[160];

	if (s->failure)
		return;
	s->failure = r;
	/* What has no frame is not kept; to free its room may be what lets the event in. */
	(void)spool_cut(stream_spool(s, FRAME_STDOUT), stream_spool(s, FRAME_STDOUT)->indexed);
	(void)spool_cut(stream_spool(s, FRAME_STDERR), stream_spool(s, FRAME_STDERR)->indexed);
	(void)snprintf(data, sizeof(data), "{\"reason\":\"%s\",\"message\":\"%s\"}",
		r == -ENOSPC || r == -EDQUOT ? "disk_full" : "write_failed", strerror(-r));
	(void)stream_event(s, "output_lost", data);
	stream_settle_later(s);
}

void stream_set_cap(struct stream *s, uint64_t log_cap)
{
	s->options.log_cap = log_cap;
}

void stream_end(struct stream *s)
{
	if (s->has_ended)
		return;
	s->has_ended = true;
	s->is_drained = true;
	pump_close(s);
	stream_stop_timer(s, TIMER_HEARTBEAT);
	stream_settle_later(s);
}

/* --- questions --- */

bool stream_has_ended(const struct stream *s)
{
	return s->has_ended;
}

uint64_t stream_last_seq(const struct stream *s)
{
	return s->last_seq;
}

static uint64_t kept_in(const struct spool *p)
{
	return p->indexed - p->start;
}

uint64_t stream_log_bytes(const struct stream *s)
{
	return kept_in(&s->spools[0]) + kept_in(&s->spools[1]);
}

uint64_t stream_output_bytes(const struct stream *s, enum frame_kind which)
{
	return kept_in(&s->spools[which == FRAME_STDERR]);
}

bool stream_was_truncated(const struct stream *s)
{
	return s->is_truncated;
}

bool stream_is_drained(const struct stream *s)
{
	return s->is_drained;
}

int stream_read_output(struct stream *s, enum frame_kind which, size_t max, char **ret,
	size_t *ret_size, uint64_t *ret_total)
{
	struct stream_part part = { .which = which, .max = max };

	return stream_read_part(s, &part, ret, ret_size, ret_total);
}

int stream_read_part(struct stream *s, const struct stream_part *part, char **ret, size_t *ret_size,
	uint64_t *ret_total)
{
	if (part->which != FRAME_STDOUT && part->which != FRAME_STDERR)
		return -EINVAL;
	struct spool *p = stream_spool(s, part->which);
	uint64_t total = kept_in(p);
	uint64_t left = part->offset < total ? total - part->offset : 0;
	size_t size = left < part->max ? (size_t)left : part->max;

	AUTO_FREE char *data = malloc(size + 1);
	if (!data)
		return -ENOMEM;
	uint64_t from = p->start + part->offset;
	int r = size > 0 ? spool_read(p, from, data, size) : 0;
	if (r == 0 && size > 0 && !s->index.is_sure)
		r = recover_check_part(s, part->which, from, from + size);
	if (r < 0)
		return r;
	data[size] = '\0';
	*ret = TAKE(data);
	*ret_size = size;
	*ret_total = total;
	return 0;
}

uint64_t stream_read_over(
	struct stream *s, enum frame_kind which, size_t max, char **ret, size_t *ret_size)
{
	struct excerpt *e = &s->channels[which == FRAME_STDERR].over;
	const char *end = excerpt_end(e);
	/* Without a gap between them both parts are one. */
	size_t n_head = e->total == e->n_head + e->n_ring ? e->n_head : 0;
	size_t size = n_head + e->n_ring;
	size_t skip = size > max ? size - max : 0;

	*ret = NULL;
	*ret_size = size - skip;
	if (size == skip)
		return e->total;
	char *text = xcalloc(1, size + 1);
	if (n_head > 0)
		memcpy(text, e->head, n_head);
	if (e->n_ring > 0)
		memcpy(text + n_head, end, e->n_ring);
	memmove(text, text + skip, size - skip + 1);
	*ret = text;
	return e->total;
}
