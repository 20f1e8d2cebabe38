/* What people type into an interactive run: bytes go to the guest's stdin as it takes them,
 * within four limits. What passes one is dropped, and the stream says so; what is within them
 * is taken. An idle run, or one that used up its total, has its stdin closed.
 *
 * A run that has not begun has no stdin yet: what is typed by then is held, and so is what the
 * stream has to say about it, since its first word is that the run began. The same goes for one
 * of a predecessor's until the keeper has told how far it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/problem.h"
#include "core/run_private.h"
#include "core/service.h"
#include "core/stream.h"

#define NS_PER_SEC 1e9

/* What was accepted and the guest does not read. */
#define PENDING_MAX (1u << 20)

/* Frames that say that something was dropped: each is kept with the run. */
#define VIOLATIONS_MAX 1000u

static uint64_t or_default(uint64_t asked, uint64_t most)
{
	return asked > 0 && asked < most ? asked : most;
}

/* What the stream says of each limit, in the order of the protocol. */
static const char *const reasons[INPUT_LIMIT_COUNT] = {
	[INPUT_LIMIT_FRAME] = "stdin_frame_cap",
	[INPUT_LIMIT_RATE] = "stdin_rate",
	[INPUT_LIMIT_TOTAL] = "stdin_cap",
};

static void set_limits(struct run *run, const struct request *r)
{
	const struct settings *c = run->service->settings;
	struct run_input *in = &run->input;

	in->has_limits = true;
	in->is_typed = r->interactive;
	in->max_bytes = or_default(r->stdin_max_bytes, c->stdin_max_bytes);
	in->max_frame_bytes = or_default(r->stdin_max_frame_bytes, c->stdin_max_frame_bytes);
	in->bytes_per_sec = or_default(r->stdin_bps, c->stdin_bps);
	in->idle_sec = or_default(r->stdin_idle_timeout_sec, c->stdin_idle_sec);
	in->tokens = (double)in->bytes_per_sec;
	in->last_ns = clock_monotonic_ns();
}

/* Of a run of a predecessor's, only the store's text is there before the keeper knows it. */
static void read_limits(struct run *run)
{
	struct problem problem = { 0 };
	struct request request = { 0 };

	/* One that can not be read takes no input; with the keeper's answer its end is told. */
	if (run_read_request(run, &request, NULL, &problem) < 0)
		request = (struct request){ 0 };
	set_limits(run, &request);
	request_fini(&request);
	problem_fini(&problem);
}

/* The limits are known from the beginning, and counted from the first byte or the start. */
static void know_limits(struct run *run)
{
	if (run->input.has_limits)
		return;
	if (run->request.body)
		set_limits(run, &run->request);
	else
		read_limits(run);
}

bool run_input_is_typed(struct run *run)
{
	if (run->request.body)
		return run->request.interactive;
	know_limits(run);
	return run->input.is_typed;
}

static bool has_begun(const struct run *run)
{
	return run->phase == PHASE_RUNNING;
}

static void stop_poll(struct run_input *in)
{
	if (!in->poll)
		return;
	(void)uv_poll_stop(in->poll);
	uv_close((uv_handle_t *)in->poll, (uv_close_cb)free);
	in->poll = NULL;
}

void run_input_fini(struct run *run)
{
	struct run_input *in = &run->input;

	stop_poll(in);
	close_fdp(&in->fd);
	free(in->pending);
	in->pending = NULL;
	in->n_pending = 0;
}

/* The keeper has a duplicate, which must go as well for the guest to see the end. */
static void close_now(struct run *run)
{
	run_input_fini(run);
	run->input.closes = true;
	if (run->job)
		run->service->runtime->close_stdin(run->job);
}

void run_input_close(struct run *run)
{
	struct run_input *in = &run->input;

	if (in->closes || run->has_result)
		return;
	in->closes = true;
	if (has_begun(run) && in->n_pending == 0)
		close_now(run);
}

static void say_closed(struct run *run, const char *reason)
{
	char data[64];

	(void)snprintf(data, sizeof(data), "{\"reason\":\"%s\"}", reason);
	(void)stream_event(run->stream, "stdin_closed", data);
}

/* Write what is pending; false when the guest does not want any more. */
static bool push(struct run_input *in)
{
	while (in->n_pending > 0) {
		ssize_t n = write(in->fd, in->pending, in->n_pending);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		in->n_pending -= (size_t)n;
		memmove(in->pending, in->pending + n, in->n_pending);
	}
	return true;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct run *run = poll->data;
	struct run_input *in = &run->input;

	(void)events;
	if (status < 0 || !push(in)) {
		close_now(run);
	} else if (in->n_pending == 0) {
		stop_poll(in);
		if (in->closes)
			close_now(run);
	}
}

static void append(struct run_input *in, const void *data, size_t size)
{
	char *grown = realloc(in->pending, in->n_pending + size);

	if (!grown)
		abort(); /* bounded by PENDING_MAX */
	memcpy(grown + in->n_pending, data, size);
	in->pending = grown;
	in->n_pending += size;
}

static void start_poll(struct run *run)
{
	struct run_input *in = &run->input;

	if (in->fd < 0 || in->n_pending == 0 || in->poll)
		return;
	in->poll = xnew(uv_poll_t);
	(void)uv_poll_init(run->service->loop, in->poll, in->fd);
	in->poll->data = run;
	(void)uv_poll_start(in->poll, UV_WRITABLE, on_poll);
}

static void refill(struct run_input *in)
{
	uint64_t now = clock_monotonic_ns();

	in->tokens += (double)(now - in->last_ns) / NS_PER_SEC * (double)in->bytes_per_sec;
	if (in->tokens > (double)in->bytes_per_sec)
		in->tokens = (double)in->bytes_per_sec;
	in->last_ns = now;
}

static void say_truncated(struct run *run, enum input_limit which)
{
	struct run_input *in = &run->input;

	if (in->n_violations >= VIOLATIONS_MAX)
		return;
	in->n_violations++;
	if (has_begun(run))
		(void)stream_truncated(run->stream, reasons[which]);
	else
		in->n_owed[which]++;
}

static void say_owed(struct run *run)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		for (; run->input.n_owed[i] > 0; run->input.n_owed[i]--)
			(void)stream_truncated(run->stream, reasons[i]);
	}
}

static size_t within_limits(struct run *run, size_t size)
{
	struct run_input *in = &run->input;
	struct {
		uint64_t most;
		enum input_limit which;
	} limits[] = {
		{ in->max_frame_bytes, INPUT_LIMIT_FRAME },
		{ (uint64_t)in->tokens, INPUT_LIMIT_RATE },
		{ in->max_bytes - in->n_bytes, INPUT_LIMIT_TOTAL },
		{ PENDING_MAX - in->n_pending, INPUT_LIMIT_RATE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (size <= limits[i].most)
			continue;
		size = (size_t)limits[i].most;
		say_truncated(run, limits[i].which);
	}
	return size;
}

static bool is_used_up(const struct run_input *in)
{
	return in->n_bytes > 0 && in->n_bytes >= in->max_bytes;
}

/* Give the guest what is pending, and the end when that is due. */
static void pass_on(struct run *run)
{
	struct run_input *in = &run->input;

	if (!push(in) || (in->closes && in->n_pending == 0))
		close_now(run); /* the guest does not want to read, or has it all */
	else
		start_poll(run);
}

void run_input_write(struct run *run, const void *data, size_t size)
{
	struct run_input *in = &run->input;

	if (in->closes || run->has_result || !run->stream)
		return;
	know_limits(run);
	refill(in);
	size = within_limits(run, size);
	if (size == 0)
		return;
	in->tokens -= (double)size;
	in->n_bytes += size;
	append(in, data, size);
	in->closes = is_used_up(in);
	if (!has_begun(run))
		return;
	if (in->closes)
		say_closed(run, "stdin_cap");
	pass_on(run);
}

void run_input_open(struct run *run, int fd)
{
	(void)fd_set_nonblock(fd, true);
	run->input.fd = fd;
	know_limits(run);
}

void run_input_begin(struct run *run)
{
	struct run_input *in = &run->input;

	if (in->fd < 0 || !in->has_limits || !run->stream)
		return;
	refill(in); /* nobody was idle before */
	say_owed(run);
	if (is_used_up(in))
		say_closed(run, "stdin_cap");
	pass_on(run);
}

void run_input_retract(struct run *run)
{
	if (run->request.interactive)
		close_fdp(&run->input.fd);
	else
		run_input_fini(run);
}

void run_input_give(struct run *run, int fd)
{
	struct run_input *in = &run->input;

	(void)fd_set_nonblock(fd, true);
	in->fd = fd;
	if (run->request.input[0])
		append(in, run->request.input, strlen(run->request.input));
	in->closes = true;
	pass_on(run);
}

void run_input_tick(struct run *run, uint64_t now_ns)
{
	struct run_input *in = &run->input;

	if (in->fd < 0 || in->idle_sec == 0 || run->phase != PHASE_RUNNING || !run->stream)
		return;
	if ((double)(now_ns - in->last_ns) / NS_PER_SEC < (double)in->idle_sec)
		return;
	(void)stream_truncated(run->stream, "stdin_idle");
	say_closed(run, "stdin_idle");
	close_now(run);
}
