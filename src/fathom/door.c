#include "fathom/door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/shared.h"
#include "base/str.h"
#include "core/metrics.h"
#include "core/ratelimit.h"
#include "core/service.h"
#include "core/settings.h"
#include "fathom/envelope.h"
#include "fathom/execution.h"
#include "fathom/fathom.h"
#include "fathom/fathom_message.h"
#include "http/http.h"

#define CODE_LATER 1013u

struct answer {
	STAILQ_ENTRY(answer) link;
	struct shared *message;
};

struct door {
	LIST_ENTRY(door) link;
	struct door_place *place;
	struct execution_host host;
	void (*left)(void *ctx);
	void *left_ctx;
	struct ws *ws; /* NULL once it is closed */
	LIST_HEAD(, execution) executions;
	size_t n_executions;
	TAILQ_HEAD(, execution) ready; /* those who may have something to say, in turns */
	STAILQ_HEAD(, answer) answers; /* what is not about an execution that is there */
	size_t n_answers;
	uv_timer_t timer;  /* while it is open, to drop a client that is stuck; then, the grace */
	uint64_t moved_ms; /* when the client last took a message */
	bool is_past_grace;
};

static const struct settings *settings_of(const struct door *d)
{
	return d->place->service->settings;
}

static void count(const struct door *d, enum metric id)
{
	metrics_add(d->place->service->metrics, id, METRICS_LABELS("fathom"), 1);
}

/* --- its end --- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct door *d = handle->data;
	struct door_place *place = d->place;

	LIST_REMOVE(d, link);
	free(d);
	place->gone(place->ctx);
}

static void check_gone(struct door *d)
{
	if (!d->ws && d->n_executions == 0 && !uv_is_closing((uv_handle_t *)&d->timer))
		uv_close((uv_handle_t *)&d->timer, on_timer_closed);
}

static void drop(struct door *d, struct execution *e)
{
	if (e->is_ready)
		TAILQ_REMOVE(&d->ready, e, ready_link);
	LIST_REMOVE(e, link);
	d->n_executions--;
	execution_free(e);
}

/* With nobody to tell, only that it is over matters; and one that is decided upon too late is
 * ended then. */
static void look_after(struct door *d, struct execution *e)
{
	execution_unfollow(e);
	if (d->is_past_grace)
		execution_cancel(e);
	if (execution_is_over(e) || (d->is_past_grace && e->step != STEP_ASKED))
		drop(d, e);
}

static void look_after_all(struct door *d)
{
	for (struct execution *e = LIST_FIRST(&d->executions), *next; e; e = next) {
		next = LIST_NEXT(e, link);
		look_after(d, e);
	}
	check_gone(d);
}

static void on_grace(uv_timer_t *timer)
{
	struct door *d = timer->data;

	d->is_past_grace = true;
	look_after_all(d);
}

void door_end_all(struct door_place *place)
{
	for (struct door *d = LIST_FIRST(&place->doors), *next; d; d = next) {
		next = LIST_NEXT(d, link);
		d->is_past_grace = true;
		if (!d->ws)
			look_after_all(d);
	}
}

/* --- what we say --- */

static bool has_more(const struct door *d)
{
	return !STAILQ_EMPTY(&d->answers) || !TAILQ_EMPTY(&d->ready);
}

static void on_timer(uv_timer_t *timer)
{
	struct door *d = timer->data;
	uint64_t limit_ms = settings_of(d)->ws_poll_timeout_sec * 1000;
	uint64_t waited_ms = uv_now(timer->loop) - d->moved_ms;

	if (!d->ws || !has_more(d))
		return;
	if (waited_ms < limit_ms) {
		(void)uv_timer_start(timer, on_timer, limit_ms - waited_ms, 0);
		return;
	}
	metrics_add(d->place->service->metrics, METRIC_WS_QUEUE_DROPS,
		METRICS_LABELS("fathom", "stuck"), 1);
	ws_close(d->ws, CODE_LATER, "messages were not read for too long");
}

/* Something is about to wait for the client: before it does. */
static void want_write(struct door *d)
{
	if (!has_more(d))
		d->moved_ms = uv_now(d->timer.loop);
	if (!uv_is_active((uv_handle_t *)&d->timer))
		(void)uv_timer_start(
			&d->timer, on_timer, settings_of(d)->ws_poll_timeout_sec * 1000, 0);
	ws_want_write(d->ws);
}

/* Takes the message. */
static void post(struct door *d, struct shared *message)
{
	struct answer *a;

	if (d->n_answers >= DOOR_ANSWERS_MAX) {
		shared_unref(message);
		ws_close(d->ws, CODE_LATER, "too many answers were not read");
		return;
	}
	want_write(d);
	a = xnew(struct answer);
	a->message = message;
	STAILQ_INSERT_TAIL(&d->answers, a, link);
	d->n_answers++;
}

static struct shared *take_answer(struct door *d)
{
	AUTO_FREE struct answer *a = STAILQ_FIRST(&d->answers);

	if (!a)
		return NULL;
	STAILQ_REMOVE_HEAD(&d->answers, link);
	d->n_answers--;
	return a->message;
}

static void on_ready(void *ctx, struct execution *e)
{
	struct door *d = ctx;

	if (!d->ws) {
		look_after(d, e);
		check_gone(d);
		return;
	}
	want_write(d);
	if (!e->is_ready)
		TAILQ_INSERT_TAIL(&d->ready, e, ready_link);
	e->is_ready = true;
}

/* What the first has to say; if that is something, it waits then until all others had their
 * turn, else until it is ready again. */
static struct shared *hear_first(struct door *d, struct execution *e)
{
	struct shared *m = execution_next(e);

	TAILQ_REMOVE(&d->ready, e, ready_link);
	e->is_ready = m != NULL;
	if (m)
		TAILQ_INSERT_TAIL(&d->ready, e, ready_link);
	else if (execution_is_done(e))
		drop(d, e);
	return m;
}

static struct shared *take_turn(struct door *d)
{
	struct shared *m = NULL;

	while (!m && !TAILQ_EMPTY(&d->ready))
		m = hear_first(d, TAILQ_FIRST(&d->ready));
	return m;
}

static struct shared *on_next(void *ctx)
{
	struct door *d = ctx;
	struct shared *m = take_answer(d);

	d->moved_ms = uv_now(d->timer.loop);
	return m ? m : take_turn(d);
}

/* --- what they say --- */

static struct execution *find(struct door *d, const char *id)
{
	struct execution *e;

	LIST_FOREACH(e, &d->executions, link)
	{
		if (streq(e->id, id))
			return e;
	}
	return NULL;
}

static void refuse(struct door *d, const char *id, enum fault fault, const char *message)
{
	post(d, envelope_error(id, fault, message));
}

static void handle_execute(struct door *d, const struct fathom_message *m)
{
	char text[96];

	if (find(d, m->id)) {
		refuse(d, m->id, FAULT_INVALID_REQUEST,
			"an execution with this id is under way, and goes on");
		return;
	}
	if (d->n_executions >= settings_of(d)->fathom_max_active) {
		(void)snprintf(text, sizeof(text),
			"%zu executions are under way on this connection", d->n_executions);
		refuse(d, m->id, FAULT_SANDBOX_OVERLOADED, text);
		return;
	}
	struct execution *e = execution_new(&d->host, m->id);
	LIST_INSERT_HEAD(&d->executions, e, link);
	d->n_executions++;
	execution_start(e, m, settings_of(d)->fathom_image);
}

static void handle_cancel(struct door *d, const struct fathom_message *m)
{
	struct execution *e = find(d, m->id);

	if (e)
		execution_cancel(e);
	else
		refuse(d, m->id, FAULT_UNKNOWN_EXECUTION,
			"no execution with this id is under way on this connection");
}

static void handle_ping(struct door *d, const struct fathom_message *m)
{
	const struct queue *q = &d->place->service->queue;

	(void)m;
	post(d, envelope_pong(q->n_active, q->n_waiting));
}

/* To cancel gives back what others wait for: that is always heard. */
static bool is_too_fast(struct door *d, const struct fathom_message *m, bool is_good)
{
	char text[96];

	if (is_good && m->type == FATHOM_CANCEL)
		return false;
	uint64_t wait =
		ratelimit_take(d->place->per_user, d->host.who.user_id, clock_monotonic_ns());
	if (wait == 0)
		return false;
	(void)snprintf(text, sizeof(text), "too many requests of one user; try again in %llu s",
		(unsigned long long)wait);
	refuse(d, m->id, FAULT_SANDBOX_OVERLOADED, text);
	return true;
}

static void on_message(void *ctx, const char *data, size_t size, bool is_text)
{
	static void (*const handlers[FATHOM_TYPE_COUNT])(
		struct door * d, const struct fathom_message *m) = {
		[FATHOM_EXECUTE] = handle_execute,
		[FATHOM_CANCEL] = handle_cancel,
		[FATHOM_PING] = handle_ping,
	};
	struct door *d = ctx;
	struct fathom_message m = { 0 };
	struct err err = { 0 };
	int r = is_text ? fathom_message_parse(data, size, &m, &err)
			: err_set(&err, -EBADMSG, "a message must be text, not binary");

	if (r == 0 && !settings_of(d)->unknown_warns && json_array_size(m.warnings) > 0)
		r = err_set(&err, -EBADMSG, "%s", json_string_value(json_array_get(m.warnings, 0)));
	if (is_too_fast(d, &m, r == 0))
		;
	else if (r < 0)
		refuse(d, m.id, FAULT_INVALID_REQUEST, err.text);
	else
		handlers[m.type](d, &m);
	fathom_message_fini(&m);
}

/* --- the connection --- */

static void on_closed(void *ctx)
{
	struct door *d = ctx;
	uint64_t grace_ms = settings_of(d)->fathom_grace_sec * 1000;

	d->ws = NULL;
	count(d, METRIC_WS_DISCONNECTS);
	for (struct shared *m; (m = take_answer(d));)
		shared_unref(m);
	d->left(d->left_ctx);
	(void)uv_timer_start(&d->timer, on_grace, grace_ms, 0);
	look_after_all(d);
}

static const struct ws_ops ops = {
	.next = on_next,
	.message = on_message,
	.closed = on_closed,
};

void door_open(struct door_place *place, struct exchange *x, const struct fathom_visitor *v)
{
	struct door *d = xnew(struct door);

	d->place = place;
	d->left = v->left;
	d->left_ctx = v->ctx;
	d->host.service = place->service;
	d->host.who = *v->who;
	d->host.ready = on_ready;
	d->host.ctx = d;
	(void)snprintf(d->host.trace_id, sizeof(d->host.trace_id), "%s", v->trace_id);
	LIST_INIT(&d->executions);
	TAILQ_INIT(&d->ready);
	STAILQ_INIT(&d->answers);
	(void)uv_timer_init(place->service->loop, &d->timer);
	d->timer.data = d;
	LIST_INSERT_HEAD(&place->doors, d, link);
	count(d, METRIC_WS_OPENED);
	d->ws = exchange_accept_ws(x, &ops, d);
	ws_set_message_max(d->ws, FATHOM_MESSAGE_MAX);
}
