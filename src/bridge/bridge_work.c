/* Calls to the server: a message is posted, the rest of an answer is asked for again when its
 * stream broke, the server is listened to, and at last the session is ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "bridge/bridge_private.h"

#define FRESH_NS     (UINT64_C(30000) * MS_NS) /* the server keeps a connection for 60 s */
#define RETRY_MS     1000u                     /* until an interrupted stream is asked for again */
#define STREAM_TRIES 5u                        /* without a word in between */

static const char lost_answer[] =
	"the server ended before it answered; what was asked for may have happened";

/* The client hears it, if it still expects an answer. */
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

static void on_event(void *ctx, const struct sse *sse)
{
	struct work *w = ctx;
	struct message m = { 0 };

	if (w->job && w->job->m.is_initialize)
		bridge_session_set_version(w->bridge, sse->data, sse->data_size);
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
	const struct job *j = w->kind == WORK_POST ? w->job : NULL;

	return j && (j->m.is_initialize || j->m.kind == MESSAGE_NOTIFICATION ||
			    j->m.kind == MESSAGE_RESPONSE);
}

struct work *work_new(struct bridge *b, enum work_kind kind, struct job *j)
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

void work_free(struct work *w)
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
	bridge_session_lost(w);
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
			bridge_session_opened(w);
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
		bridge_session_lost(w);
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
		bridge_session_lost(w);
	work_fail(w, err->text);
	work_free(w);
}

/* What it waits to hear more of was said in a session that is no more. */
static bool is_stale(const struct work *w)
{
	return !w->call && w->kind != WORK_POST && w->session != w->bridge->n_sessions;
}

void work_step(struct work *w)
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
