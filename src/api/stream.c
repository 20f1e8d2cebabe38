/* WS /runs/{id}/stream: the output of a run, as it is made and as it was.
 *
 * Whether a subscriber is let in is decided before the upgrade: a live run knows its owner, of
 * one that is over the store does. Then a socket is a cursor (core/stream.h): frames go from the
 * spool to the wire as the client takes them, shared with every other subscriber who keeps up. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "api/api.h"
#include "api/input.h"
#include "api/reply.h"
#include "api/seat.h"
#include "base/err.h"
#include "base/log.h"
#include "base/shared.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/auth.h"
#include "core/metrics.h"
#include "core/run.h"
#include "core/service.h"
#include "core/settings.h"
#include "core/sign.h"
#include "core/stream.h"

/* What is replayed to somebody who does not say where to begin. */
#define REPLAY_FRAMES 100u

/* After the last frame a client may close first, which it should. */
#define FAREWELL_MS 5000u

#define CODE_DONE   1000u
#define CODE_FAILED 1011u
#define CODE_LATER  1013u

struct subscriber {
	struct seat seat;
	struct api *api;
	struct ws *ws; /* NULL once it is closed */
	struct stream *stream;
	struct cursor *cursor;
	char run_id[UUID_SIZE + 1];
	bool has_more;     /* there are frames that the socket was not asked for yet */
	bool is_leaving;   /* all frames are out */
	uint64_t moved_ms; /* when it last took one */
	uv_timer_t timer;  /* to drop it when it is stuck, and to part from it at the end */
};

static void count(const struct subscriber *s, enum metric id)
{
	metrics_add(s->api->service->metrics, id, METRICS_LABELS("ws"), 1);
}

/* --- the socket --- */

static void on_timer(uv_timer_t *timer)
{
	struct subscriber *s = timer->data;
	uint64_t limit_ms = s->api->settings->ws_poll_timeout_sec * 1000;
	uint64_t waited_ms = uv_now(timer->loop) - s->moved_ms;

	if (s->is_leaving) {
		ws_close(s->ws, CODE_DONE, "the run is over");
	} else if (s->has_more && waited_ms >= limit_ms) {
		metrics_add(s->api->service->metrics, METRIC_WS_QUEUE_DROPS,
			METRICS_LABELS("ws", "stuck"), 1);
		ws_close(s->ws, CODE_LATER, "too slow; resume with from_seq");
	} else if (s->has_more) {
		(void)uv_timer_start(timer, on_timer, limit_ms - waited_ms, 0);
	}
}

static void on_wake(void *ctx)
{
	struct subscriber *s = ctx;

	if (!s->ws)
		return;
	s->has_more = true;
	s->moved_ms = uv_now(s->timer.loop);
	if (!uv_is_active((uv_handle_t *)&s->timer))
		(void)uv_timer_start(
			&s->timer, on_timer, s->api->settings->ws_poll_timeout_sec * 1000, 0);
	ws_want_write(s->ws);
}

/* Nothing more will come: by its end, or because a file of it can not be read. */
static void leave(struct subscriber *s)
{
	if (s->is_leaving)
		return;
	s->is_leaving = true;
	if (stream_has_ended(s->stream))
		(void)uv_timer_start(&s->timer, on_timer, FAREWELL_MS, 0);
	else
		ws_close(s->ws, CODE_FAILED, "the output can not be read any more");
}

static bool is_heartbeat(struct shared *m)
{
	static const char head[] = "{\"type\":\"heartbeat\"";

	return m->size > sizeof(head) && memcmp(shared_data(m), head, sizeof(head) - 1) == 0;
}

static struct shared *on_next(void *ctx)
{
	struct subscriber *s = ctx;
	struct shared *m = cursor_next(s->cursor);

	s->moved_ms = uv_now(s->timer.loop);
	if (!m) {
		s->has_more = false;
		if (cursor_is_done(s->cursor))
			leave(s);
	} else if (is_heartbeat(m)) {
		count(s, METRIC_WS_HEARTBEATS);
	}
	return m;
}

/* For an interactive run that lives; else it is ignored. */
static void on_message(void *ctx, const char *data, size_t size, bool is_text)
{
	struct subscriber *s = ctx;
	struct run *run = run_find(s->api->service, s->run_id, NULL);

	if (!is_text || !run || !run_input_is_typed(run))
		return;
	struct input in = input_parse(data, size);
	if (in.kind == INPUT_DATA)
		run_input_write(run, in.data, in.size);
	else if (in.kind == INPUT_CLOSE)
		run_input_close(run);
	input_fini(&in);
}

static void on_timer_closed(uv_handle_t *timer)
{
	free(timer->data);
}

static void on_closed(void *ctx)
{
	struct subscriber *s = ctx;

	s->ws = NULL;
	count(s, METRIC_WS_DISCONNECTS);
	seat_leave(&s->seat);
	cursor_close(TAKE(s->cursor));
	stream_unref(TAKE(s->stream));
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

static const struct ws_ops stream_ops = {
	.next = on_next,
	.message = on_message,
	.closed = on_closed,
};

/* --- letting somebody in --- */

/* Whose run it may be, or is: what the query and the credentials come to. */
struct visitor {
	struct identity who; /* for quotas, and where a run that is over is looked for */
	bool is_anybodys;    /* a signature stands for the owner ... */
	bool is_named;       /* ... whom somebody named */
};

/* The gate has looked at headers and auth_token; without signed URLs, some clients say "token"
 * for the latter. */
static bool identify_by_token(struct exchange *x, struct identity *ret)
{
	const char *token = exchange_query(x, "token");

	if (!token || exchange_query(x, "exp") || api_of(x)->settings->ws_signed_urls)
		return false;
	size_t size = strlen(token) + sizeof("Bearer ");
	AUTO_FREE char *header = xcalloc(1, size);
	(void)snprintf(header, size, "Bearer %s", token);
	return auth_check(api_of(x)->auth, NULL, header, ret) == 0;
}

static bool identify(struct exchange *x, struct identity *ret)
{
	const struct identity *who = api_who(x);

	if (who)
		*ret = *who;
	return who || identify_by_token(x, ret);
}

/* An owner that is named: by a signature, whoever carries it, or by an admin. */
static int take_owner(struct exchange *x, struct visitor *v)
{
	const char *owner = exchange_query(x, "u");

	if (!owner || (!v->is_anybodys && !v->who.admin))
		return 0;
	v->is_named = true;
	if (identity_make(owner, false, &v->who))
		return 0;
	reply_field(x, PROBLEM_IN_QUERY, "u", "it is no user id");
	return -EINVAL;
}

/* A signature that is there must be right, whoever brings it. */
static int check_signature(struct exchange *x, const char *id, const char *exp)
{
	int r = sign_check(api_of(x)->signing_secret, id, exp, exchange_query(x, "token"),
		(uint64_t)time(NULL));

	if (r < 0)
		reply_refusal(x, "forbidden",
			r == -ETIME ? "this signed URL has expired" : "the signature is wrong");
	return r;
}

/* Who comes; on failure it has answered. */
static int admit(struct exchange *x, const char *id, struct visitor *ret)
{
	const char *exp = exchange_query(x, "exp");
	bool is_known = identify(x, &ret->who);

	if (exp && check_signature(x, id, exp) < 0)
		return -EACCES;
	ret->is_anybodys = exp;
	if (!is_known && !exp) {
		reply_unauthorized(x);
		return -EACCES;
	}
	return take_owner(x, ret);
}

/* A signature stands for the owner, whoever that is, unless it names one. */
static bool is_owner(struct visitor *v, const char *user_id)
{
	if (v->is_anybodys && !v->is_named)
		(void)identity_make(user_id, false, &v->who);
	return streq(user_id, v->who.user_id);
}

/* The stream of a run that lives and is this visitor's, or NULL. */
static struct stream *find_live(struct service *service, const char *id, struct visitor *v)
{
	struct run *run = run_find(service, id, NULL);

	if (!run || !run->stream)
		return NULL;
	return is_owner(v, run->row.user_id) ? stream_ref(run->stream) : NULL;
}

/* Where to begin: what is no number from 1 is the beginning, nothing at all is near the end. */
static uint64_t first_seq(const char *from_seq, const struct stream *stream)
{
	uint64_t last = stream_last_seq(stream);
	uint64_t seq = 0;

	if (!from_seq)
		return last > REPLAY_FRAMES ? last - REPLAY_FRAMES + 1 : 0;
	return str_parse_u64(from_seq, STREAM_TAIL - 1, &seq) == 0 ? seq : 0;
}

/* Others have no use for large messages. */
static bool takes_input(const struct subscriber *s)
{
	struct run *run = run_find(s->api->service, s->run_id, NULL);

	return run && !stream_has_ended(s->stream) && run_input_is_typed(run);
}

/* Takes the stream. */
static void subscribe(
	struct exchange *x, const char *id, const struct visitor *v, struct stream *stream)
{
	struct subscriber *s = xnew(struct subscriber);
	uint64_t from = first_seq(exchange_query(x, "from_seq"), stream);

	if (seat_take(x, v->who.user_id, &s->seat) < 0) {
		stream_unref(stream);
		free(s);
		return;
	}
	s->api = api_of(x);
	s->stream = stream;
	(void)snprintf(s->run_id, sizeof(s->run_id), "%s", id);
	(void)uv_timer_init(s->api->service->loop, &s->timer);
	s->timer.data = s;
	s->cursor = cursor_open(stream, from, on_wake, s);
	count(s, METRIC_WS_OPENED);
	s->ws = exchange_accept_ws(x, &stream_ops, s);
	if (takes_input(s))
		ws_set_message_max(
			s->ws, input_message_max(s->api->settings->stdin_max_frame_bytes));
	on_wake(s);
}

/* --- one that is over: the store is asked --- */

struct lookup {
	struct exchange *x;
	struct visitor visitor;
};

static void refuse(struct exchange *x, int r)
{
	static const struct {
		int r;
		const char *code;
		const char *text;
	} refusals[] = {
		{ -ENOENT, "run_not_found", "there is no such run" },
		{ -EAGAIN, "store_unavailable", "the server is still looking for its runs" },
		{ 0, "internal_error", "the output of this run can not be read" },
	};
	size_t i = 0;

	while (refusals[i].r != r && refusals[i].r != 0)
		i++;
	reply_refusal(x, refusals[i].code, "%s", refusals[i].text);
}

/* Of one that is not over, and yet not alive, the server does not know yet how it goes on. */
static int open_ended(
	struct service *service, const struct run_row *row, struct visitor *v, struct stream **ret)
{
	enum phase phase;

	if (!is_owner(v, row->user_id))
		return -ENOENT;
	if (phase_find(row->phase, &phase) < 0 || !phase_is_over(phase))
		return -EAGAIN;
	return run_open_output(service, row, ret);
}

static void on_row(void *ctx, const struct run_row *row, struct problem *problem)
{
	AUTO_FREE struct lookup *l = ctx;
	struct exchange *x = l->x;
	struct stream *stream = NULL;

	if (!row) {
		reply_problem(x, problem);
		return;
	}
	int r = exchange_is_gone(x) ? -ENOENT
				    : open_ended(api_of(x)->service, row, &l->visitor, &stream);
	if (r < 0)
		refuse(x, r);
	else
		subscribe(x, row->id, &l->visitor, stream);
}

static void look_up(struct exchange *x, const char *id, const struct visitor *v)
{
	struct service *service = api_of(x)->service;
	struct lookup *l;

	if (!uuid_is_valid(id) || run_find(service, id, NULL)) {
		refuse(x, -ENOENT);
		return;
	}
	if (!service->is_recovered && !service->host) {
		refuse(x, -EAGAIN);
		return;
	}
	l = xnew(struct lookup);
	*l = (struct lookup){ x, *v };
	run_get(service, id, NULL, on_row, l);
}

static void handle_stream(struct exchange *x)
{
	const char *id = exchange_param(x, "id");
	struct visitor v = { 0 };
	struct stream *live;

	api_note_run(x, id);
	if (admit(x, id, &v) < 0)
		return;
	live = find_live(api_of(x)->service, id, &v);
	if (live)
		subscribe(x, id, &v, live);
	else
		look_up(x, id, &v);
}

/* Public for the gate: a signature is as good as credentials, and only known here. */
const struct route routes_stream[] = {
	{ "WS", API_BASE "/runs/{id}/stream", ACCESS_PUBLIC, BODY_NONE, 0, handle_stream },
	{ 0 },
};
