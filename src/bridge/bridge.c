/* The loop, and what is under way. A line becomes a job; jobs leave the queue in their order, and
 * each becomes a work: a call to the server with what belongs to it. Requests are under way at
 * the same time. What is no request goes alone, which takes a moment, so that the server hears
 * it before what the client said next; and while a session begins, all others wait. */
#include "bridge/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "bridge/call.h"
#include "bridge/line.h"
#include "bridge/message.h"
#include "bridge/outbox.h"

#define MS_NS        UINT64_C(1000000)
#define FRESH_NS     (UINT64_C(30000) * MS_NS) /* the server keeps a connection for 60 s */
#define RETRY_MS     1000u                     /* until an interrupted stream is asked for again */
#define END_WAIT_NS  (UINT64_C(2000) * MS_NS)  /* for the server to end the session */
#define N_IDLE       8u
#define N_POLLS      (BRIDGE_CALLS_MAX + 8u)
#define STREAM_TRIES 5u /* without a word in between */

enum phase {
	PHASE_NEW,     /* no session */
	PHASE_OPENING, /* initialize is under way */
	PHASE_OPEN,
};

enum work_kind {
	WORK_POST,
	WORK_RESUME, /* what is left of a stream that ended early */
	WORK_LISTEN, /* what the server says by itself */
	WORK_END,    /* of the session */
};

/* What the client said, or what we say for it. */
struct job {
	TAILQ_ENTRY(job) link;
	char *text;
	size_t size;
	struct message m;
	bool is_ours;  /* the client does not expect an answer */
	bool is_again; /* the second try, with a new session */
	bool is_tried; /* a session was begun for it; if there is none, it fails */
};

struct work {
	TAILQ_ENTRY(work) link;
	struct bridge *bridge;
	enum work_kind kind;
	struct call *call; /* NULL while it waits until `due_ns` */
	struct job *job;   /* NULL when it is not about one */
	bool is_answered;
	bool is_canceled;
	unsigned session; /* the one that it is part of, of those there were */
	uint64_t due_ns;
	uint64_t retry_ms;
	unsigned n_tries;
	char last_id[SSE_ID_MAX + 1];
};

struct idle {
	int fd;
	uint64_t since_ns;
};

struct bridge {
	const struct bridge_options *options;
	struct line_reader in;
	struct outbox out;
	struct bridge_place place;
	TAILQ_HEAD(, job) jobs;
	TAILQ_HEAD(, work) works;
	size_t n_works;
	size_t n_alone; /* works that others wait for */
	struct idle idle[N_IDLE];
	size_t n_idle;
	enum phase phase;
	char *opening; /* the client's initialize */
	size_t opening_size;
	bool was_acknowledged; /* the client said that it is initialized */
	char session[ANSWER_TEXT_MAX];
	unsigned n_sessions; /* that began or were lost; its streams are not the next one's */
	char *version;
	bool can_listen; /* the server has a stream of its own */
	bool is_listening;
	bool is_eof;
	bool is_ending; /* the session is being ended; nothing else counts */
	bool is_over;
	int fault; /* of the client's side */
};

static const char lost_answer[] =
	"the server ended before it answered; what was asked for may have happened";

static void job_free(struct job *j)
{
	if (!j)
		return;
	free(j->text);
	message_fini(&j->m);
	free(j);
}

static void say_error(struct bridge *b, const json_t *id, int code, const char *text)
{
	AUTO_FREE char *line = message_error(id, code, text);

	outbox_add(&b->out, line, strlen(line));
}

/* The client of this job hears what went wrong, if it expects to hear something. */
static void job_fail(struct bridge *b, const struct job *j, const char *text)
{
	if (j->is_ours || j->m.kind == MESSAGE_NOTIFICATION || j->m.kind == MESSAGE_RESPONSE)
		log_warn("a message did not reach the server: %s", text);
	else
		say_error(b, j->m.id, MESSAGE_SERVER_ERROR, text);
}

/* ... and of this work, if it is still expected. */
static void work_fail(const struct work *w, const char *text)
{
	if (w->job && !w->is_answered && !w->is_canceled)
		job_fail(w->bridge, w->job, text);
}

/* --- connections --- */

/* Still open, and silent as it should be. */
static bool is_usable(const struct idle *i)
{
	char byte;

	return clock_monotonic_ns() - i->since_ns < FRESH_NS &&
	       recv(i->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Only for what the client says a server is started. */
static int get_connection(struct bridge *b, bool may_start, struct err *err)
{
	while (b->n_idle > 0) {
		struct idle *i = &b->idle[--b->n_idle];

		if (is_usable(i))
			return i->fd;
		(void)close(i->fd);
	}
	return b->options->connect(b->options->ctx, may_start, &b->place, err);
}

static void put_connection(struct bridge *b, int fd)
{
	if (fd < 0)
		return;
	if (b->n_idle == N_IDLE) {
		(void)close(fd);
		return;
	}
	b->idle[b->n_idle++] = (struct idle){ .fd = fd, .since_ns = clock_monotonic_ns() };
}

/* --- requests --- */

static const struct {
	const char *method;
	const char *accept;
} requests[] = {
	[WORK_POST] = { "POST", "application/json, text/event-stream" },
	[WORK_RESUME] = { "GET", "text/event-stream" },
	[WORK_LISTEN] = { "GET", "text/event-stream" },
	[WORK_END] = { "DELETE", "application/json" },
};

static void write_field(FILE *out, const char *name, const char *value)
{
	if (value && *value)
		(void)fprintf(out, "%s: %s\r\n", name, value);
}

static char *make_head(const struct bridge *b, const struct work *w)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	const char *fields = w->job ? w->job->m.fields : NULL;
	bool is_in_session = !fields && !(w->job && w->job->m.is_initialize);

	if (!out)
		abort();
	(void)fprintf(out, "%s /mcp HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n",
		requests[w->kind].method, b->place.host, requests[w->kind].accept);
	write_field(out, "X-API-KEY", b->options->key);
	write_field(out, "X-Forwarded-Proto", b->place.is_tls ? "https" : NULL);
	write_field(out, "Mcp-Session-Id", is_in_session ? b->session : NULL);
	write_field(out, "MCP-Protocol-Version", is_in_session ? b->version : NULL);
	(void)fputs(fields ? fields : "", out);
	write_field(out, "Last-Event-ID", w->last_id);
	if (w->kind == WORK_POST && w->job)
		(void)fprintf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			w->job->size);
	(void)fprintf(out, "\r\n");
	if (fclose(out) != 0)
		abort();
	return text;
}

static void keep_version(struct bridge *b, const char *text, size_t size)
{
	char *version = text ? message_version(text, size) : NULL;

	if (!version)
		return;
	free(b->version);
	b->version = version;
}

static void on_event(void *ctx, const struct sse *sse)
{
	struct work *w = ctx;
	struct message m = { 0 };

	if (w->job && w->job->m.is_initialize)
		keep_version(w->bridge, sse->data, sse->data_size);
	if (w->job && w->job->is_ours)
		return;
	memcpy(w->last_id, sse->id, sizeof(w->last_id));
	w->n_tries = 0;
	if (!sse->is_message || sse->data_size == 0)
		return;
	/* Only the end of the answer is looked for, and a batch has several. */
	if (w->job && message_parse(sse->data, sse->data_size, &m, NULL) == 0)
		w->is_answered =
			w->is_answered || m.kind == MESSAGE_RESPONSE || m.kind == MESSAGE_BATCH;
	message_fini(&m);
	outbox_add(&w->bridge->out, sse->data, sse->data_size);
}

/* Others wait until it is done. */
static bool is_alone(const struct work *w)
{
	return w->kind == WORK_POST &&
	       (w->job->m.is_initialize || w->job->m.kind == MESSAGE_NOTIFICATION ||
		       w->job->m.kind == MESSAGE_RESPONSE);
}

static struct work *work_new(struct bridge *b, enum work_kind kind, struct job *j)
{
	struct work *w = xnew(struct work);

	w->bridge = b;
	w->kind = kind;
	w->job = j;
	w->retry_ms = RETRY_MS;
	w->session = b->n_sessions;
	TAILQ_INSERT_TAIL(&b->works, w, link);
	b->n_works++;
	b->n_alone += is_alone(w);
	return w;
}

static void work_free(struct work *w)
{
	struct bridge *b = w->bridge;

	b->n_alone -= is_alone(w);
	b->n_works--;
	if (w->kind == WORK_LISTEN && w->session == b->n_sessions)
		b->is_listening = false;
	TAILQ_REMOVE(&b->works, w, link);
	call_free(w->call);
	job_free(w->job);
	free(w);
}

static int work_begin(struct work *w, struct err *err)
{
	struct bridge *b = w->bridge;
	int fd = get_connection(b, w->kind == WORK_POST, err);

	if (fd < 0)
		return fd;
	bool has_body = w->kind == WORK_POST;
	w->call = call_new(
		fd, make_head(b, w), has_body ? w->job->text : NULL, has_body ? w->job->size : 0);
	w->call->on_event = w->kind == WORK_END ? NULL : on_event;
	w->call->ctx = w;
	w->due_ns = 0;
	return 0;
}

static void work_wait(struct work *w, uint64_t ms)
{
	call_free(TAKE(w->call));
	w->due_ns = clock_monotonic_ns() + ms * MS_NS;
}

/* --- the session --- */

static struct job *job_new(const char *text, size_t size)
{
	struct job *j = xnew(struct job);

	j->text = xcalloc(1, size + 1);
	memcpy(j->text, text, size);
	j->size = size;
	return j;
}

static void queue_ours(struct bridge *b, const char *text, size_t size)
{
	struct job *j = job_new(text, size);

	(void)message_parse(text, size, &j->m, NULL);
	j->is_ours = true;
	TAILQ_INSERT_HEAD(&b->jobs, j, link);
}

static void listen_to_server(struct bridge *b)
{
	if (b->is_listening || !b->can_listen || b->phase != PHASE_OPEN || b->is_eof ||
		!b->was_acknowledged)
		return;
	b->is_listening = true;
	work_new(b, WORK_LISTEN, NULL)->due_ns = 1;
}

/* A second time for the same client: it acknowledged long ago. */
static void acknowledge(struct bridge *b)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

	if (b->was_acknowledged)
		queue_ours(b, text, strlen(text));
}

static void session_opened(struct work *w)
{
	struct bridge *b = w->bridge;

	memcpy(b->session, w->call->answer.session, sizeof(b->session));
	keep_version(b, w->call->text, w->call->text_size);
	b->phase = PHASE_OPEN;
	b->can_listen = true;
	b->is_listening = false;
	w->session = ++b->n_sessions;
	if (w->job->is_ours)
		acknowledge(b);
	else
		b->was_acknowledged = false;
}

/* The server does not know the one of this work any more; there may be another one already. */
static void session_lost(const struct work *w)
{
	struct bridge *b = w->bridge;

	if (w->session != b->n_sessions)
		return;
	b->n_sessions++;
	b->session[0] = '\0';
	if (b->phase == PHASE_OPEN)
		b->phase = PHASE_NEW;
	b->is_listening = false;
}

static void keep_opening(struct bridge *b, const struct job *j)
{
	if (j->is_ours)
		return;
	free(b->opening);
	b->opening = xcalloc(1, j->size + 1);
	memcpy(b->opening, j->text, j->size);
	b->opening_size = j->size;
}

/* --- answers --- */

/* Has it to be said again, to a session that there is? */
static bool is_to_repeat(const struct work *w)
{
	return w->call->answer.status == 404 && w->bridge->opening && w->kind == WORK_POST &&
	       !w->job->m.is_initialize && !w->job->m.fields && !w->job->is_again;
}

static void repeat(struct work *w)
{
	struct bridge *b = w->bridge;
	struct job *j = w->job;

	b->n_alone -= is_alone(w);
	w->job = NULL;
	w->kind = WORK_END; /* nothing to count any more */
	j->is_again = true;
	session_lost(w);
	/* The new session is acknowledged by us. */
	if (j->m.is_initialized)
		job_free(j);
	else
		TAILQ_INSERT_HEAD(&b->jobs, j, link);
}

static void take_error(struct work *w)
{
	const struct call *c = w->call;
	const struct job *j = w->job;

	if (j->m.kind == MESSAGE_REQUEST && !j->is_ours &&
		message_is_answer(c->text, c->text_size)) {
		outbox_add(&w->bridge->out, c->text, c->text_size);
		return;
	}
	AUTO_FREE char *why = message_explain(c->answer.status, c->text, c->text_size);
	job_fail(w->bridge, j, why);
}

/* The answer to a message is complete. True when more of it is to come by another call. */
static bool finish_post(struct work *w)
{
	const struct call *c = w->call;
	struct job *j = w->job;

	if (j->m.is_initialize) {
		w->bridge->phase = PHASE_NEW;
		if (c->answer.status == 200)
			session_opened(w);
	}
	if (is_to_repeat(w))
		repeat(w);
	else if (c->is_stream && !w->is_answered && !w->is_canceled && w->last_id[0])
		return true;
	else if (c->answer.status >= 300)
		take_error(w);
	else if (c->text_size > 0 && !j->is_ours)
		outbox_add(&w->bridge->out, c->text, c->text_size);
	else if (j->m.kind == MESSAGE_REQUEST && !w->is_answered && !w->is_canceled && !j->is_ours)
		job_fail(w->bridge, j, "the server ended the call without an answer");
	if (w->job && w->job->m.is_initialized && c->answer.status < 300)
		w->bridge->was_acknowledged = true;
	return false;
}

static bool finish_listen(struct work *w)
{
	int status = w->call->answer.status;

	if (status == 404)
		session_lost(w);
	else if (status != 200)
		w->bridge->can_listen = false;
	return status == 200;
}

static bool finish_resume(struct work *w)
{
	if (w->is_answered || w->is_canceled)
		return false;
	if (w->call->answer.status == 200 && ++w->n_tries <= STREAM_TRIES)
		return true;
	job_fail(w->bridge, w->job, "the server does not know the rest of the answer");
	return false;
}

static bool finish_end(struct work *w)
{
	w->bridge->is_over = true;
	return false;
}

static bool (*const finishers[])(struct work *w) = {
	[WORK_POST] = finish_post,
	[WORK_RESUME] = finish_resume,
	[WORK_LISTEN] = finish_listen,
	[WORK_END] = finish_end,
};

/* Come back for the rest of a stream, after the time that the server named. */
static void work_go_on(struct work *w)
{
	if (w->call->sse.has_retry)
		w->retry_ms = w->call->sse.retry_ms;
	w->bridge->n_alone -= is_alone(w);
	w->kind = w->kind == WORK_POST ? WORK_RESUME : w->kind;
	work_wait(w, w->retry_ms);
}

static void work_done(struct work *w)
{
	bool goes_on = finishers[w->kind](w);

	put_connection(w->bridge, call_take_fd(w->call));
	if (!goes_on) {
		work_free(w);
		return;
	}
	work_go_on(w);
}

static bool can_resume(struct work *w)
{
	return w->job && w->last_id[0] && !w->is_answered && !w->is_canceled &&
	       w->n_tries++ < STREAM_TRIES;
}

/* The connection broke. */
static void work_broke(struct work *w, int code)
{
	struct bridge *b = w->bridge;

	log_warn("lost the connection to the server: %s", strerror(-code));
	if (w->kind == WORK_LISTEN || can_resume(w)) {
		work_go_on(w);
		return;
	}
	if (w->kind == WORK_END)
		b->is_over = true;
	if (w->job && w->job->m.is_initialize)
		b->phase = PHASE_NEW;
	work_fail(w, lost_answer);
	work_free(w);
}

/* Nobody to talk to. */
static void work_refused(struct work *w, const struct err *err)
{
	struct bridge *b = w->bridge;

	if (w->job && w->job->m.is_initialize)
		b->phase = PHASE_NEW;
	if (w->kind == WORK_END)
		b->is_over = true;
	if (w->kind == WORK_LISTEN)
		session_lost(w);
	work_fail(w, err->text);
	work_free(w);
}

/* What it waits to hear more of was said in a session that is no more. */
static bool is_stale(const struct work *w)
{
	return !w->call && w->kind != WORK_POST && w->session != w->bridge->n_sessions;
}

static void work_step(struct work *w)
{
	struct err err = { 0 };

	if (is_stale(w)) {
		work_fail(w, lost_answer);
		work_free(w);
		return;
	}
	int r = w->call ? 0 : work_begin(w, &err);
	if (r < 0) {
		work_refused(w, &err);
		return;
	}
	r = call_step(w->call);
	if (r < 0)
		work_broke(w, r);
	else if (r > 0)
		work_done(w);
}

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
		keep_opening(b, j);
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
			queue_ours(b, b->opening, b->opening_size);
			continue;
		}
		start_job(b, j);
	}
	listen_to_server(b);
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
		say_error(b, m.id, r == -EBADMSG ? MESSAGE_PARSE_ERROR : MESSAGE_INVALID_REQUEST,
			err.text);
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
		say_error(b, NULL, MESSAGE_INVALID_REQUEST, why);
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
