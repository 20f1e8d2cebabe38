#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/links.h"
#include "api/mcp.h"
#include "api/reply.h"
#include "base/json.h"
#include "base/str.h"
#include "core/service.h"
#include "core/settings.h"
#include "mcp/call.h"
#include "mcp/revision.h"
#include "rpc/rpc.h"

/* --- posts --- */

static void free_post(struct mcp_post *post)
{
	LIST_REMOVE(post, link);
	json_decref(post->answers);
	free(post);
}

static void reply(struct mcp_post *post)
{
	struct exchange *x = TAKE(post->x);
	json_t *answers = post->answers;

	if (json_array_size(answers) == 0) {
		exchange_reply_bytes(x, 202, NULL, NULL, 0); /* all of it was canceled */
		return;
	}
	/* One that could not begin has no session afterwards. */
	if (post->session->peer->stage != MCP_PEER_NEW && post->session->id[0])
		exchange_set_header(x, "Mcp-Session-Id", post->session->id);
	exchange_set_header(x, "Cache-Control", "no-store");
	exchange_reply_json(
		x, 200, json_incref(post->is_batch ? answers : json_array_get(answers, 0)));
}

/* Is everything answered? */
static void check_post(struct mcp_post *post)
{
	struct mcp_session *s = post->session;

	if (post->n_pending > 0)
		return;
	if (post->stream)
		mcp_stream_end(post->stream);
	else
		reply(post);
	free_post(post);
	mcp_session_settle(s);
}

/* From now on what there is to say is sent as it comes; what was answered already first. */
static void begin_stream(struct mcp_post *post)
{
	size_t i;
	json_t *answer;

	post->stream = mcp_stream_new(post->session, false);
	json_array_foreach(post->answers, i, answer)
		mcp_stream_add(post->stream, json_incref(answer));
	mcp_stream_connect(post->stream, TAKE(post->x), UINT64_MAX);
}

static void take_answer(struct mcp_post *post, json_t *message)
{
	if (post->stream)
		mcp_stream_add(post->stream, message);
	else
		(void)json_array_append_new(post->answers, message);
	post->n_pending--;
	check_post(post);
}

/* The general stream that was connected last; else one whose client may come back to it. */
static struct mcp_stream *general_stream(struct mcp_session *s)
{
	struct mcp_stream *found = NULL;
	struct mcp_stream *t;

	TAILQ_FOREACH(t, &s->streams, link)
	{
		if (t->is_general && (t->pipe || !found || !found->pipe))
			found = t;
	}
	return found;
}

/* --- what the peer says --- */

static bool on_send(void *ctx, json_t *message, void *origin, bool is_answer)
{
	struct mcp_session *s = ctx;
	struct mcp_post *post = origin;

	if (post && is_answer) {
		take_answer(post, message);
		return true;
	}
	if (post && !post->stream && post->accepts_events)
		begin_stream(post);
	struct mcp_stream *t = post ? post->stream : general_stream(s);
	if (t)
		mcp_stream_add(t, message);
	else
		json_decref(message);
	return t != NULL;
}

static void on_drop(void *ctx, void *origin)
{
	struct mcp_post *post = origin;

	(void)ctx;
	post->n_pending--;
	check_post(post);
}

static void on_gone(void *ctx)
{
	free(ctx);
}

static const struct mcp_peer_ops mcp_peer_ops = {
	.send = on_send, .drop = on_drop, .gone = on_gone
};

/* --- from beginning to end --- */

static bool is_read(const struct mcp_session *s)
{
	const struct mcp_stream *t;

	TAILQ_FOREACH(t, &s->streams, link)
	{
		if (t->pipe)
			return true;
	}
	return false;
}

static bool is_idle(const struct mcp_session *s)
{
	return !is_read(s) && LIST_EMPTY(&s->posts) && s->peer->n_calls == 0;
}

/* How many this user has; and the one that was idle for longest. */
static size_t count_of(struct mcp_door *d, const char *user_id, struct mcp_session **ret_oldest)
{
	struct mcp_session *s;
	size_t n = 0;

	*ret_oldest = NULL;
	LIST_FOREACH(s, &d->sessions, link)
	{
		if (!streq(s->peer->who.user_id, user_id))
			continue;
		n++;
		if (is_idle(s) && (!*ret_oldest || s->used_ms < (*ret_oldest)->used_ms))
			*ret_oldest = s;
	}
	return n;
}

static void on_tick(uv_timer_t *timer);

static struct mcp_session *make(struct mcp_door *d, struct exchange *x, struct mcp_sessions *list)
{
	struct mcp_session *s = xnew(struct mcp_session);
	AUTO_FREE char *base = links_here(x);

	s->door = d;
	TAILQ_INIT(&s->streams);
	s->used_ms = uv_now(d->timer.loop);
	s->peer = mcp_peer_new(&d->host, &mcp_peer_ops, s, api_who(x), base);
	s->peer->is_local = exchange_is_local(x);
	LIST_INSERT_HEAD(list, s, link);
	if (!uv_is_active((uv_handle_t *)&d->timer))
		(void)uv_timer_start(&d->timer, on_tick, MCP_PATIENCE_MS, MCP_PATIENCE_MS);
	return s;
}

struct mcp_session *mcp_session_new(struct mcp_door *d, struct exchange *x)
{
	const struct identity *who = api_who(x);
	struct mcp_session *oldest;

	if (d->is_closing) {
		mcp_refuse(x, 503, NULL, CALL_BUSY, "the server is about to end");
		return NULL;
	}
	if (count_of(d, who->user_id, &oldest) >= d->api->settings->mcp_max_sessions) {
		if (!oldest) {
			exchange_set_header(x, "Retry-After", "1");
			mcp_refuse(x, 429, NULL, CALL_BUSY, "too many sessions are in use");
			return NULL;
		}
		mcp_session_end(oldest);
	}
	struct mcp_session *s = make(d, x, &d->sessions);
	uuid_make(s->id);
	return s;
}

struct mcp_session *mcp_session_new_single(
	struct mcp_door *d, struct exchange *x, const struct mcp_meta *meta)
{
	struct mcp_session *s = make(d, x, &d->singles);

	s->is_single = true;
	mcp_peer_meet(s->peer, meta);
	return s;
}

struct mcp_session *mcp_session_find(struct mcp_door *d, const char *id, const char *user_id)
{
	struct mcp_session *s;

	LIST_FOREACH(s, &d->sessions, link)
	{
		if (streq(s->id, id) && streq(s->peer->who.user_id, user_id))
			return s;
	}
	return NULL;
}

/* 404 would say to a client that nothing has happened, and that it shall try again with a new
 * session; only who ended the session itself knows better. */
static void refuse_rest(const struct mcp_session *s, struct exchange *x)
{
	if (s->door->is_closing || s->is_single)
		mcp_refuse(x, 503, NULL, s->is_single ? RPC_INTERNAL_ERROR : CALL_BUSY,
			"the server ends; what was asked for may have happened, or go on");
	else
		mcp_refuse(x, 404, NULL, CALL_BUSY, "the session has ended");
}

void mcp_session_end(struct mcp_session *s)
{
	LIST_REMOVE(s, link);
	s->is_ended = true;
	while (!LIST_EMPTY(&s->posts)) {
		struct mcp_post *post = LIST_FIRST(&s->posts);

		if (post->x)
			refuse_rest(s, TAKE(post->x));
		free_post(post);
	}
	while (!TAILQ_EMPTY(&s->streams))
		mcp_stream_free(TAILQ_FIRST(&s->streams));
	mcp_peer_close(s->peer);
}

void mcp_session_settle(struct mcp_session *s)
{
	if (s->is_single && LIST_EMPTY(&s->posts) && !is_read(s))
		mcp_session_end(s);
}

void mcp_session_hung_up(struct mcp_session *s)
{
	if (s->is_single && !LIST_EMPTY(&s->posts))
		mcp_peer_cancel(s->peer);
	else
		mcp_session_settle(s);
}

static void on_exchange_gone(struct exchange *x, void *ctx)
{
	(void)x;
	mcp_session_hung_up(ctx);
}

/* --- what the client says --- */

static size_t count_requests(const json_t *list)
{
	struct rpc_message m;
	struct rpc_fault fault;
	size_t n = 0;
	size_t i;
	const json_t *item;

	json_array_foreach(list, i, item) n +=
		rpc_parse(item, &m, &fault) < 0 || m.kind == RPC_REQUEST;
	return n;
}

static void hear(
	struct mcp_session *s, struct mcp_post *post, const json_t *json, const char *trace_id)
{
	struct rpc_message m;
	struct rpc_fault fault;

	bool is_wrong = rpc_parse(json, &m, &fault) < 0;

	if (is_wrong && post) /* which counts it */
		take_answer(post, rpc_error(m.id, fault.code, fault.text, NULL));
	else if (!is_wrong)
		mcp_peer_hear(s->peer, &m, m.kind == RPC_REQUEST ? post : NULL, trace_id);
}

void mcp_session_hear(
	struct mcp_session *s, struct exchange *x, const json_t *json, bool accepts_events)
{
	AUTO_JSON *list =
		json_is_array(json) ? json_incref((json_t *)json) : json_pack("[O]", json);
	AUTO_JSON *trace = json_string(api_trace_id(x));
	size_t n = count_requests(list);
	struct mcp_post *post = NULL;
	size_t i;
	const json_t *item;

	s->used_ms = uv_now(s->door->timer.loop);
	if (n > 0) {
		post = xnew(struct mcp_post);
		*post = (struct mcp_post){ .session = s, .x = x, .n_pending = n + 1 };
		post->since_ms = s->used_ms;
		post->accepts_events = accepts_events;
		post->is_batch = json_is_array(json);
		post->answers = json_array();
		LIST_INSERT_HEAD(&s->posts, post, link);
		if (s->is_single)
			exchange_on_gone(x, on_exchange_gone, s);
	}
	json_array_foreach(list, i, item) hear(s, post, item, json_string_value(trace));
	if (!post) {
		exchange_reply_bytes(x, 202, NULL, NULL, 0);
		return;
	}
	post->n_pending--;
	check_post(post);
}

/* --- time --- */

static void tick_session(struct mcp_session *s, uint64_t now)
{
	const struct settings *settings = s->door->api->settings;
	struct mcp_post *post;
	struct mcp_stream *t;

	LIST_FOREACH(post, &s->posts, link)
	{
		if (!post->stream && post->accepts_events &&
			now - post->since_ms >= MCP_PATIENCE_MS)
			begin_stream(post);
	}
	TAILQ_FOREACH(t, &s->streams, link)
	mcp_stream_tick(t, now);
	if (!s->is_single && is_idle(s) && now - s->used_ms >= settings->mcp_session_ttl_sec * 1000)
		mcp_session_end(s);
}

static void tick(const struct mcp_sessions *list, uint64_t now)
{
	for (struct mcp_session *s = LIST_FIRST(list), *next; s; s = next) {
		next = LIST_NEXT(s, link);
		tick_session(s, now);
	}
}

static void find_larger(const struct mcp_sessions *list, struct mcp_session **largest)
{
	struct mcp_session *s;

	LIST_FOREACH(s, list, link)
	{
		if (!*largest || s->n_bytes > (*largest)->n_bytes)
			*largest = s;
	}
}

static struct mcp_session *find_largest(const struct mcp_door *d)
{
	struct mcp_session *largest = NULL;

	find_larger(&d->sessions, &largest);
	find_larger(&d->singles, &largest);
	return largest;
}

/* What nobody waits for goes first: single ones keep no such thing. Then it is who lets most
 * wait: a client that asks for more than it reads. */
static void relieve(struct mcp_door *d)
{
	struct mcp_session *s;

	LIST_FOREACH(s, &d->sessions, link)
	{
		while (d->n_bytes > MCP_ALL_BYTES && mcp_session_drop_sent(s))
			continue;
	}
	while (d->n_bytes > MCP_ALL_BYTES && (s = find_largest(d)))
		mcp_session_end(s);
}

static void on_tick(uv_timer_t *timer)
{
	struct mcp_door *d = timer->data;

	relieve(d);
	tick(&d->sessions, uv_now(timer->loop));
	tick(&d->singles, uv_now(timer->loop));
	if (LIST_EMPTY(&d->sessions) && LIST_EMPTY(&d->singles))
		(void)uv_timer_stop(timer);
}

void mcp_door_relieve(struct mcp_door *d)
{
	(void)uv_timer_start(&d->timer, on_tick, 0, MCP_PATIENCE_MS);
}
