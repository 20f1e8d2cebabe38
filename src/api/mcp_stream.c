#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/mcp.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/service.h"
#include "mcp/revision.h"

struct mcp_event {
	TAILQ_ENTRY(mcp_event) link;
	uint64_t seq;
	struct shared *text;
};

/* What a connection reads from. Either may end before the other. */
struct mcp_pipe {
	struct mcp_stream *stream; /* NULL: it is to end */
	struct flow *flow;
	const struct mcp_event *giving; /* given to the connection, which may not have taken it */
	bool wants_comment;
};

static uint64_t now_ms(const struct mcp_stream *t)
{
	return uv_now(t->session->door->timer.loop);
}

/* --- events --- */

static void drop_event(struct mcp_stream *t, struct mcp_event *e)
{
	TAILQ_REMOVE(&t->events, e, link);
	t->session->n_bytes -= e->text->size;
	t->session->door->n_bytes -= e->text->size;
	shared_unref(e->text);
	free(e);
}

static void append(struct mcp_stream *t, struct shared *text, uint64_t seq)
{
	struct mcp_event *e = xnew(struct mcp_event);

	e->seq = seq;
	e->text = text;
	t->session->n_bytes += text->size;
	t->session->door->n_bytes += text->size;
	TAILQ_INSERT_TAIL(&t->events, e, link);
	if (t->pipe)
		flow_want_write(t->pipe->flow);
	if (t->session->door->n_bytes > MCP_ALL_BYTES)
		mcp_door_relieve(t->session->door);
}

void mcp_stream_add(struct mcp_stream *t, json_t *message)
{
	char head[64];
	uint64_t seq = t->next_seq++;
	int n = t->session->is_single
			? snprintf(head, sizeof(head), "event: message\ndata: ")
			: snprintf(head, sizeof(head),
				  "event: message\nid: %u-%" PRIu64 "\ndata: ", t->number, seq);
	AUTO_FREE char *json = json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(12));
	size_t size = json ? strlen(json) : 0;
	struct shared *text = shared_new((size_t)n + size + 2);

	json_decref(message);
	memcpy(shared_data(text), head, (size_t)n);
	memcpy(shared_data(text) + n, json ? json : "", size);
	memcpy(shared_data(text) + n + size, "\n\n", 2);
	append(t, text, seq);
	mcp_session_trim(t->session);
}

/* An id to come back with, before there is anything to say. */
static void add_first(struct mcp_stream *t)
{
	char text[80];
	int n = snprintf(
		text, sizeof(text), "id: %u-0\nretry: %u\ndata: \n\n", t->number, MCP_RETRY_MS);
	struct shared *event = shared_new((size_t)n);

	memcpy(shared_data(event), text, (size_t)n);
	append(t, event, 0);
}

/* --- its life --- */

struct mcp_stream *mcp_stream_new(struct mcp_session *s, bool is_general)
{
	struct mcp_stream *t = xnew(struct mcp_stream);

	t->session = s;
	t->number = ++s->next_stream;
	t->is_general = is_general;
	t->next_seq = 1;
	t->sent_seq = UINT64_MAX; /* none, not even the first */
	TAILQ_INIT(&t->events);
	TAILQ_INSERT_TAIL(&s->streams, t, link);
	s->n_streams++;
	if (s->peer->revision && s->peer->revision->has_first_event)
		add_first(t);
	return t;
}

struct mcp_stream *mcp_stream_find(struct mcp_session *s, unsigned number)
{
	struct mcp_stream *t;

	TAILQ_FOREACH(t, &s->streams, link)
	{
		if (t->number == number)
			return t;
	}
	return NULL;
}

void mcp_stream_disconnect(struct mcp_stream *t)
{
	struct mcp_pipe *pipe = TAKE(t->pipe);

	if (!pipe)
		return;
	pipe->stream = NULL;
	flow_end(pipe->flow);
}

/* ... at once when it does not take what it is being given: nobody would count that any more. */
static void cut_off(struct mcp_stream *t)
{
	if (t->pipe && t->pipe->giving)
		flow_drop(t->pipe->flow);
	mcp_stream_disconnect(t);
}

void mcp_stream_free(struct mcp_stream *t)
{
	cut_off(t);
	while (!TAILQ_EMPTY(&t->events))
		drop_event(t, TAILQ_FIRST(&t->events));
	TAILQ_REMOVE(&t->session->streams, t, link);
	t->session->n_streams--;
	free(t);
}

static bool has_sent(const struct mcp_stream *t, const struct mcp_event *e)
{
	return t->sent_seq != UINT64_MAX && e->seq <= t->sent_seq;
}

/* The end of what there is to send is the end of the connection. */
static void check_over(struct mcp_stream *t)
{
	const struct mcp_event *last = TAILQ_LAST(&t->events, mcp_events);

	if (t->is_over && t->pipe && !t->pipe->giving && (!last || has_sent(t, last)))
		mcp_stream_disconnect(t);
}

void mcp_stream_end(struct mcp_stream *t)
{
	t->is_over = true;
	check_over(t);
}

/* --- its connection --- */

static struct mcp_event *next_event(const struct mcp_stream *t)
{
	struct mcp_event *e;

	TAILQ_FOREACH(e, &t->events, link)
	{
		if (!has_sent(t, e))
			return e;
	}
	return NULL;
}

static struct shared *say_comment(struct mcp_pipe *pipe)
{
	struct shared *m = shared_new(3);

	pipe->wants_comment = false;
	memcpy(shared_data(m), ":\n\n", 3);
	return m;
}

/* Nobody can come back for what was taken. */
static void drop_sent(struct mcp_stream *t)
{
	struct mcp_event *e;

	while ((e = TAILQ_FIRST(&t->events)) && has_sent(t, e))
		drop_event(t, e);
}

static struct shared *on_next(void *ctx)
{
	struct mcp_pipe *pipe = ctx;
	struct mcp_stream *t = pipe->stream;

	if (t && t->session->is_single)
		drop_sent(t);
	struct mcp_event *e = t ? next_event(t) : NULL;
	if (t && !e && t->is_over) { /* the last was taken */
		struct mcp_session *s = t->session;

		mcp_stream_disconnect(t);
		mcp_session_settle(s);
		return NULL;
	}
	pipe->giving = e;
	if (!e)
		return t && pipe->wants_comment ? say_comment(pipe) : NULL;
	t->sent_seq = e->seq;
	t->told_ms = now_ms(t);
	return shared_ref(e->text);
}

static void on_closed(void *ctx)
{
	struct mcp_pipe *pipe = ctx;
	struct mcp_session *s = pipe->stream ? pipe->stream->session : NULL;

	if (s) {
		pipe->stream->pipe = NULL;
		s->used_ms = now_ms(pipe->stream);
		mcp_session_hung_up(s);
	}
	free(pipe);
}

void mcp_stream_connect(struct mcp_stream *t, struct exchange *x, uint64_t seq)
{
	static const struct flow_ops ops = { .next = on_next, .closed = on_closed };
	struct mcp_pipe *pipe = xnew(struct mcp_pipe);

	cut_off(t); /* who lost it, and does not know yet */
	pipe->stream = t;
	exchange_set_header(x, "Cache-Control", "no-cache, no-transform");
	exchange_set_header(x, "X-Accel-Buffering", "no");
	if (t->session->id[0])
		exchange_set_header(x, "Mcp-Session-Id", t->session->id);
	t->sent_seq = seq;
	t->told_ms = now_ms(t);
	pipe->flow = exchange_reply_flow(x, 200, "text/event-stream", &ops, pipe);
	if (!pipe->flow) {
		free(pipe);
		return;
	}
	t->pipe = pipe;
	check_over(t);
}

void mcp_stream_tick(struct mcp_stream *t, uint64_t now)
{
	if (!t->pipe || now - t->told_ms < MCP_KEEP_ALIVE_MS)
		return;
	t->told_ms = now;
	t->pipe->wants_comment = true;
	flow_want_write(t->pipe->flow);
}

bool mcp_stream_parse_id(const char *text, unsigned *ret_number, uint64_t *ret_seq)
{
	size_t size = strspn(text, "0123456789");
	char number[16] = "";
	uint64_t n = 0;
	uint64_t seq = 0;

	if (size == 0 || size >= sizeof(number) || text[size] != '-')
		return false;
	memcpy(number, text, size);
	if (str_parse_u64(number, UINT32_MAX, &n) < 0 ||
		str_parse_u64(text + size + 1, UINT64_MAX - 1, &seq) < 0)
		return false;
	*ret_number = (unsigned)n;
	*ret_seq = seq;
	return true;
}

/* --- room --- */

/* The oldest that nobody reads, and preferably nobody will. */
static struct mcp_stream *find_spare(struct mcp_session *s, bool is_over)
{
	struct mcp_stream *t;

	TAILQ_FOREACH(t, &s->streams, link)
	{
		if (!t->pipe && (t->is_over || (!is_over && t->is_general)))
			return t;
	}
	return NULL;
}

/* One that was sent; else one that is not the last of its stream, which may be its answer. What a
 * connection is being given is held by it, dropped or not. */
static bool drop_oldest_event(struct mcp_session *s, bool only_sent)
{
	struct mcp_stream *t;

	TAILQ_FOREACH(t, &s->streams, link)
	{
		struct mcp_event *e = TAILQ_FIRST(&t->events);

		if (!e || (t->pipe && t->pipe->giving == e))
			continue;
		if (has_sent(t, e) || (!only_sent && TAILQ_NEXT(e, link))) {
			drop_event(t, e);
			return true;
		}
	}
	return false;
}

bool mcp_session_drop_sent(struct mcp_session *s)
{
	struct mcp_stream *t = find_spare(s, true);

	if (t)
		mcp_stream_free(t);
	return t || drop_oldest_event(s, true);
}

void mcp_session_trim(struct mcp_session *s)
{
	struct mcp_stream *t;

	while (s->n_bytes > MCP_EVENTS_BYTES || s->n_streams > MCP_STREAMS_MAX) {
		t = find_spare(s, true);
		if (!t)
			t = find_spare(s, false);
		if (t)
			mcp_stream_free(t);
		else if (s->n_bytes <= MCP_EVENTS_BYTES ||
			 (!drop_oldest_event(s, true) && !drop_oldest_event(s, false)))
			return;
	}
}
