/* From the guest's pipes to frames. Nothing waits for a subscriber here, and nothing but
 * the log cap bounds what is kept. A guest is read whenever it has written: in turns, so
 * that others get theirs, and a little slower when it goes on to write byte by byte, as
 * Python does with a traceback: each frame costs 32 bytes of index and a message to everybody
 * who listens.
 *
 * The beginning of a character waits for its rest, in the spool, until that comes or the output
 * ends. So does the last byte of other encodings now and then: it is late, but nothing is
 * torn. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "core/frames.h"
#include "core/stream_private.h"

/* From one pipe in one turn of the loop, at most; the frames of a turn fit into the cache. */
#define TURN_BYTES (512u << 10)

#define PIPE_BYTES  (1 << 20) /* what we ask the kernel to let a guest write ahead, ... */
#define LARGE_BYTES (1 << 15) /* ... once it has written so much at once */
#define DROP_SIZE   (64u << 10)
#define SMALL_BYTES 512u /* a frame below that counts as small */
#define SMALL_BURST 16u  /* so many are free; then one in PACE_MS, in the long run */
#define PACE_MS     2u

/* What was spooled is read back from the page cache into here to be cut. */
#define WINDOW_BYTES (256u << 10)
static unsigned char window[WINDOW_BYTES];

/* --- cutting --- */

/* Cut the first `size` bytes of the window, which come from the offset `p->indexed`;
 * `has_more` when the spool goes on behind them. Returns how many records. */
static size_t cut_window(struct stream *s, enum frame_kind kind, size_t size, bool has_more,
	bool is_last, struct index_record *ret)
{
	uint64_t offset = stream_spool(s, kind)->indexed;
	uint64_t now = clock_realtime_ns();
	size_t at = 0;
	size_t n = 0;

	while (n < INDEX_BLOCK && at < size && (!has_more || size - at >= FRAMES_CHUNK_MAX)) {
		bool is_text;
		size_t chunk = frames_cut(window + at, size - at, is_last, &is_text);

		if (chunk == 0)
			break;
		ret[n++] = (struct index_record){
			.kind = (uint8_t)kind,
			.flags = is_text ? INDEX_IS_TEXT : 0,
			.size = (uint32_t)chunk,
			.sum = index_sum(&s->index, window + at, chunk),
			.offset = offset + at,
			.time_ns = now,
		};
		s->n_small += chunk < SMALL_BYTES;
		at += chunk;
	}
	return n;
}

static int cut_spool(struct stream *s, enum frame_kind kind, bool is_last)
{
	struct spool *p = stream_spool(s, kind);
	struct index_record records[INDEX_BLOCK];

	while (p->indexed < p->size) {
		uint64_t left = p->size - p->indexed;
		size_t size = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
		int r = spool_read(p, p->indexed, window, size);
		if (r < 0)
			return r;
		size_t n = cut_window(s, kind, size, size < left, is_last, records);
		if (n == 0)
			break;
		r = stream_append(s, records, n);
		if (r < 0)
			return r;
		p->indexed = records[n - 1].offset + records[n - 1].size;
	}
	return 0;
}

void pump_cut(struct stream *s, enum frame_kind kind, bool is_last)
{
	int r = s->failure ? 0 : cut_spool(s, kind, is_last);

	if (r < 0)
		stream_fail(s, r);
}

void pump_flush(struct stream *s)
{
	pump_cut(s, FRAME_STDOUT, true);
	pump_cut(s, FRAME_STDERR, true);
}

/* --- the cap --- */

static uint64_t room_left(const struct stream *s)
{
	uint64_t used = 0;

	for (size_t i = 0; i < 2; i++)
		used += s->spools[i].size - s->spools[i].start;
	return used < s->options.log_cap ? s->options.log_cap - used : 0;
}

/* The frame comes first: from then on a successor would drop too. What is held back at the
 * end of a spool is the beginning of a character whose rest is over the cap. */
static void close_log(struct stream *s)
{
	int64_t r = stream_truncated(s, "log_cap");

	if (r < 0) {
		stream_fail(s, (int)r);
		return;
	}
	s->is_truncated = true;
	for (size_t i = 0; i < 2; i++)
		(void)spool_cut(&s->spools[i], s->spools[i].indexed);
}

/* Is there a byte (1), the end (0), or neither (-EAGAIN)? */
static int peek(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, 0) <= 0)
		return -EAGAIN;
	return p.revents & POLLIN ? 1 : 0;
}

/* --- reading --- */

static bool is_dropping(const struct stream *s)
{
	return s->is_truncated || s->failure;
}

/* A guest that prints much gets more room to do so. It may be that its user has none left. */
static void enlarge(struct channel *ch)
{
	(void)fcntl(ch->fd, F_SETPIPE_SZ, PIPE_BYTES);
	ch->is_large = true;
}

/* What is not kept as a frame: a model that has to know how it ended reads the end of it. */
static ssize_t drop(struct channel *ch, size_t max)
{
	struct stream *s = ch->stream;
	char buf[DROP_SIZE];

	if (s->failure)
		return spool_drop(&s->null_fd, ch->fd, max);
	ssize_t n = spool_read_pipe(ch->fd, buf, max < sizeof(buf) ? max : sizeof(buf));
	if (n > 0)
		excerpt_add(&ch->over, buf, (size_t)n);
	return n;
}

/* Move at most `max` bytes out of the pipe. How many; 0 at its end, -EAGAIN for none now. */
static ssize_t take(struct channel *ch, size_t max)
{
	struct stream *s = ch->stream;
	struct spool *p = stream_spool(s, ch->kind);
	uint64_t room = room_left(s);

	/* Only for a byte that comes a file is made, or is the cap exceeded. */
	if ((room == 0 || p->fd < 0) && !is_dropping(s)) {
		int r = peek(ch->fd);

		if (r <= 0)
			return r;
		if (room == 0)
			close_log(s);
	}
	if (is_dropping(s))
		return drop(ch, max);
	ssize_t n = spool_take(p, ch->fd, max < room ? max : (size_t)room);
	if (n < 0 && n != -EAGAIN) {
		stream_fail(s, (int)n);
		return -EAGAIN;
	}
	if (n >= LARGE_BYTES && !ch->is_large)
		enlarge(ch);
	if (n > 0)
		pump_cut(s, ch->kind, false);
	return n;
}

static bool is_open(const struct stream *s)
{
	return s->channels[0].fd >= 0 || s->channels[1].fd >= 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct channel *ch = handle->data;

	stream_forget_handle(ch->stream);
}

static void close_channel(struct channel *ch)
{
	if (ch->fd < 0)
		return;
	uv_close((uv_handle_t *)&ch->poll, on_closed);
	close_fdp(&ch->fd);
}

static void end_channel(struct channel *ch)
{
	struct stream *s = ch->stream;

	pump_cut(s, ch->kind, true);
	close_channel(ch);
	if (is_open(s))
		return;
	pump_close(s);
	s->is_drained = true;
}

static void on_readable(uv_poll_t *handle, int status, int events);

static void watch(struct stream *s)
{
	for (size_t i = 0; i < 2; i++) {
		if (s->channels[i].fd >= 0)
			(void)uv_poll_start(&s->channels[i].poll, UV_READABLE, on_readable);
	}
}

static void on_pace(uv_timer_t *timer)
{
	watch(timer->data);
}

/* Small frames are forgiven with time. With too many of them the pipe fills for a moment,
 * and the next frame is larger. */
static void keep_pace(struct stream *s)
{
	uint64_t forgiven = (uv_now(s->loop) - s->small_time) / PACE_MS;

	s->small_time += forgiven * PACE_MS;
	s->n_small -= forgiven < s->n_small ? forgiven : s->n_small;
	if (s->n_small <= SMALL_BURST)
		return;
	for (size_t i = 0; i < 2; i++) {
		if (s->channels[i].fd >= 0)
			(void)uv_poll_stop(&s->channels[i].poll);
	}
	stream_start_timer(s, TIMER_PACE, PACE_MS, on_pace);
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
	struct channel *ch = handle->data;
	struct stream *s = ch->stream;
	ssize_t n = take(ch, TURN_BYTES);

	(void)events;
	/* With an error of the descriptor's the loop has stopped watching it. */
	if (n == 0 || (n < 0 && (n != -EAGAIN || status < 0))) {
		end_channel(ch);
	} else {
		keep_pace(s);
	}
	stream_settle(s);
}

/* --- attaching --- */

static int open_channel(struct channel *ch, int *fd, struct err *err)
{
	struct stream *s = ch->stream;

	if (*fd < 0)
		return 0;
	int r = uv_poll_init(s->loop, &ch->poll, *fd); /* makes it non-blocking */
	if (r < 0)
		return err_set(err, r, "watch the guest's output: %s", uv_strerror(r));
	ch->fd = take_fd(fd);
	ch->poll.data = ch;
	s->n_handles++;
	return 0;
}

int stream_attach(struct stream *s, int stdout_fd, int stderr_fd, struct err *err)
{
	AUTO_FD first = stdout_fd;
	AUTO_FD second = stderr_fd;

	if (!s->is_writable || s->has_ended)
		return err_set(err, -ESHUTDOWN, "the stream has ended");
	if (s->is_attached)
		return err_set(err, -EALREADY, "the stream has its input");
	int r = open_channel(&s->channels[0], &first, err);
	if (r == 0)
		r = open_channel(&s->channels[1], &second, err);
	if (r < 0) {
		pump_close(s);
		return r;
	}
	s->is_attached = true;
	s->small_time = uv_now(s->loop);
	watch(s);
	if (!is_open(s))
		stream_finish(s);
	return 0;
}

/* What is in the pipe now, and no more: somebody may go on writing. */
static void take_rest(struct channel *ch)
{
	int left = 0;

	if (ioctl(ch->fd, FIONREAD, &left) < 0)
		return;
	while (left > 0) {
		ssize_t n = take(ch, (size_t)left);

		if (n <= 0 && !(n == -EAGAIN && peek(ch->fd) > 0))
			break;
		left -= n > 0 ? (int)n : 0;
	}
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

void stream_finish_pipes(struct stream *s)
{
	for (size_t i = 0; i < 2; i++) {
		struct channel *ch = &s->channels[i];

		if (!is_pipe(ch->fd))
			continue;
		take_rest(ch);
		end_channel(ch);
	}
	stream_settle_later(s);
}

void stream_finish(struct stream *s)
{
	if (s->is_drained)
		return;
	for (size_t i = 0; i < 2; i++) {
		if (s->channels[i].fd >= 0)
			take_rest(&s->channels[i]);
	}
	pump_flush(s);
	pump_close(s);
	s->is_drained = true;
	stream_settle_later(s);
}

void pump_close(struct stream *s)
{
	for (size_t i = 0; i < 2; i++)
		close_channel(&s->channels[i]);
	close_fdp(&s->null_fd);
	stream_stop_timer(s, TIMER_PACE);
}
