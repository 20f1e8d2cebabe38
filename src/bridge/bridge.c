/* The loop, and what is under way. A line becomes a job; jobs leave the queue in their order, and
 * each becomes a work: a call to the server with what belongs to it. Requests are under way at
 * the same time. What is no request goes alone, which takes a moment, so that the server hears
 * it before what the client said next; and while a session begins, all others wait. */
#include "bridge/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "bridge/bridge_private.h"

#define END_WAIT_NS (UINT64_C(2000) * MS_NS) /* for the server to end the session */
#define N_POLLS     (BRIDGE_CALLS_MAX + 8u)

/* --- jobs --- */

/* True when that was all: the server notices that we hang up. */
static bool cancel(struct bridge *b, const json_t *id)
{
	struct work *w;

	TAILQ_FOREACH(w, &b->works, link)
	{
		if (w->job && w->job->m.id && json_equal(w->job->m.id, id))
			break;
	}
	if (!w)
		return false;
	w->is_canceled = true;
	if (!w->job->m.fields)
		return false;
	work_free(w);
	return true;
}

static void start_job(struct bridge *b, struct job *j)
{
	TAILQ_REMOVE(&b->jobs, j, link);
	if (j->m.is_initialize) {
		bridge_session_keep(b, j);
		b->phase = PHASE_OPENING;
	}
	if (j->m.cancels && cancel(b, j->m.cancels)) {
		job_free(j);
		return;
	}
	work_step(work_new(b, WORK_POST, j));
}

static bool is_full(const struct bridge *b)
{
	return b->n_works >= BRIDGE_CALLS_MAX || outbox_size(&b->out) >= BRIDGE_OUT_MAX;
}

/* Send what may be sent. */
static void pump(struct bridge *b)
{
	struct job *j;

	while (!b->is_ending && b->n_alone == 0 && b->phase != PHASE_OPENING && !is_full(b) &&
		(j = TAILQ_FIRST(&b->jobs))) {
		bool needs_session = !j->m.is_initialize && !j->m.fields && !j->is_tried;

		if (b->phase == PHASE_NEW && b->opening && needs_session) {
			j->is_tried = true;
			bridge_session_begin(b);
			continue;
		}
		start_job(b, j);
	}
	bridge_session_listen(b);
}

/* --- the client --- */

static void take_line(struct bridge *b, const char *text, size_t size)
{
	struct err err = { 0 };
	struct message m = { 0 };

	if (strspn(text, " \t") >= size)
		return;
	int r = message_parse(text, size, &m, &err);
	if (r < 0) {
		job_say_error(b, m.id,
			r == -EBADMSG ? MESSAGE_PARSE_ERROR : MESSAGE_INVALID_REQUEST, err.text);
		message_fini(&m);
		return;
	}
	struct job *j = job_new(text, size);
	j->m = m;
	TAILQ_INSERT_TAIL(&b->jobs, j, link);
}

static void take_lines(struct bridge *b)
{
	char why[80];
	char *text = NULL;
	size_t size = 0;
	int r;

	while ((r = line_next(&b->in, b->is_eof, &text, &size)) != 0) {
		if (r > 0) {
			text[size] = '\0'; /* in place of what ended it, or behind all */
			take_line(b, text, size);
			continue;
		}
		(void)snprintf(why, sizeof(why), "a message of more than %zu bytes", b->in.max);
		job_say_error(b, NULL, MESSAGE_INVALID_REQUEST, why);
	}
}

static void read_client(struct bridge *b)
{
	size_t room = 0;
	char *to = line_room(&b->in, &room);
	ssize_t n = read(b->options->in_fd, to, room - 1);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		line_added(&b->in, (size_t)n);
	else
		b->is_eof = true;
	take_lines(b);
}

/* --- the loop --- */

static bool wants_input(const struct bridge *b)
{
	return !b->is_eof && !b->is_ending && TAILQ_EMPTY(&b->jobs) && !is_full(b);
}

static bool is_client_waiting(const struct bridge *b)
{
	const struct work *w;

	TAILQ_FOREACH(w, &b->works, link)
	{
		if (w->kind != WORK_LISTEN && !(w->job && w->job->m.is_listen))
			return true;
	}
	return !TAILQ_EMPTY(&b->jobs) || outbox_size(&b->out) > 0;
}

/* End the session; whatever is still under way does not matter any more. */
static void begin_end(struct bridge *b)
{
	b->is_ending = true;
	for (struct work *w; (w = TAILQ_FIRST(&b->works));)
		work_free(w);
	for (struct job *j; (j = TAILQ_FIRST(&b->jobs));) {
		TAILQ_REMOVE(&b->jobs, j, link);
		job_free(j);
	}
	if (b->phase == PHASE_OPEN && b->session[0])
		work_step(work_new(b, WORK_END, NULL));
	else
		b->is_over = true;
}

static int timeout_of(const struct bridge *b, uint64_t end_ns)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t due = b->is_ending ? end_ns : UINT64_MAX;
	const struct work *w;

	TAILQ_FOREACH(w, &b->works, link)
	{
		if (!w->call && w->due_ns < due)
			due = w->due_ns;
	}
	if (due == UINT64_MAX)
		return -1;
	return due <= now ? 0 : (int)((due - now + MS_NS - 1) / MS_NS);
}

enum { POLL_IN, POLL_OUT, POLL_SIGNAL, POLL_WORKS };

static nfds_t fill_polls(const struct bridge *b, struct pollfd *polls, struct work **works)
{
	nfds_t n = POLL_WORKS;
	struct work *w;
	bool reads = outbox_size(&b->out) < BRIDGE_OUT_MAX;

	polls[POLL_IN] =
		(struct pollfd){ .fd = wants_input(b) ? b->options->in_fd : -1, .events = POLLIN };
	polls[POLL_OUT] = (struct pollfd){ .fd = b->out.fd,
		.events = outbox_size(&b->out) > 0 ? POLLOUT : 0 };
	polls[POLL_SIGNAL] = (struct pollfd){ .fd = b->options->signal_fd, .events = POLLIN };
	TAILQ_FOREACH(w, &b->works, link)
	{
		if (!w->call || n == N_POLLS || (!reads && call_events(w->call) == POLLIN))
			continue;
		polls[n] = (struct pollfd){ .fd = w->call->fd, .events = call_events(w->call) };
		works[n++] = w;
	}
	return n;
}

static void step_due(struct bridge *b)
{
	uint64_t now = clock_monotonic_ns();
	struct work *next = NULL;

	for (struct work *w = TAILQ_FIRST(&b->works); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (!w->call && w->due_ns <= now)
			work_step(w);
	}
}

static void turn(struct bridge *b, uint64_t *end_ns)
{
	struct pollfd polls[N_POLLS];
	struct work *works[N_POLLS];
	nfds_t n = fill_polls(b, polls, works);

	if (poll(polls, n, timeout_of(b, *end_ns)) < 0)
		return;
	for (nfds_t i = POLL_WORKS; i < n; i++) {
		if (polls[i].revents)
			work_step(works[i]);
	}
	step_due(b);
	if (polls[POLL_IN].revents)
		read_client(b);
	pump(b);
	b->fault = outbox_flush(&b->out);
	if (polls[POLL_OUT].revents & (POLLERR | POLLHUP))
		b->fault = -EPIPE; /* whoever read it is gone */
	bool is_told = polls[POLL_SIGNAL].revents || b->fault < 0;
	if (!b->is_ending && (is_told || (b->is_eof && !is_client_waiting(b)))) {
		*end_ns = clock_monotonic_ns() + END_WAIT_NS;
		begin_end(b);
	}
	if (b->is_ending && clock_monotonic_ns() >= *end_ns)
		b->is_over = true;
}

static void bridge_fini(struct bridge *b)
{
	for (struct work *w; (w = TAILQ_FIRST(&b->works));)
		work_free(w);
	while (b->n_idle > 0)
		(void)close(b->idle[--b->n_idle].fd);
	line_fini(&b->in);
	outbox_fini(&b->out);
	free(b->opening);
	free(b->version);
}

int bridge_run(const struct bridge_options *options, struct err *err)
{
	struct bridge b = {
		.options = options,
		.in = { .max = options->line_max ? options->line_max : BRIDGE_LINE_MAX },
		.out = { .fd = options->out_fd },
	};
	uint64_t end_ns = UINT64_MAX;

	TAILQ_INIT(&b.jobs);
	TAILQ_INIT(&b.works);
	while (!b.is_over)
		turn(&b, &end_ns);
	int fault = b.fault;
	bridge_fini(&b);
	if (fault < 0 && fault != -EPIPE)
		return err_set(err, fault, "write to the client: %s", strerror(-fault));
	return 0;
}
