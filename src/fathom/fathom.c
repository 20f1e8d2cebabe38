#include "fathom/fathom.h"

#include <stdlib.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/run.h"
#include "core/service.h"
#include "core/settings.h"
#include "fathom/door.h"

#define LOOK_MS 500u /* whether what a predecessor left is known by now */

struct fathom {
	struct door_place place;
	uint64_t opened_ns; /* CLOCK_REALTIME */
	uv_timer_t timer;   /* until the executions of a predecessor are ended */
	bool is_closing;
	void (*done)(void *ctx);
	void *ctx;
};

/* --- what a server that died left behind --- */

static bool is_left_behind(const struct fathom *f, const struct run *run)
{
	return run->row.source && streq(run->row.source, "fathom") &&
	       (uint64_t)run->row.created_ns < f->opened_ns;
}

/* Each of them may end and be freed on the way. */
static void on_grace(uv_timer_t *timer)
{
	struct fathom *f = timer->data;

	for (struct run *run = f->place.service->runs, *next; run; run = next) {
		next = run->next;
		if (is_left_behind(f, run) && run_cancel(run))
			log_info("run %s lost its connection with the server before", run->row.id);
	}
}

static void on_look(uv_timer_t *timer)
{
	struct fathom *f = timer->data;
	const struct service *s = f->place.service;

	if (!s->is_recovered)
		return;
	(void)uv_timer_start(timer, on_grace, s->settings->fathom_grace_sec * 1000, 0);
}

/* --- its life --- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct fathom *f = handle->data;
	void (*done)(void *ctx) = f->done;
	void *ctx = f->ctx;

	free(f);
	done(ctx);
}

static void check_closed(void *ctx)
{
	struct fathom *f = ctx;

	if (f->is_closing && LIST_EMPTY(&f->place.doors) &&
		!uv_is_closing((uv_handle_t *)&f->timer))
		uv_close((uv_handle_t *)&f->timer, on_timer_closed);
}

struct fathom *fathom_open(struct service *service, struct ratelimit *per_user)
{
	struct fathom *f = xnew(struct fathom);

	f->place.service = service;
	f->place.per_user = per_user;
	f->place.gone = check_closed;
	f->place.ctx = f;
	LIST_INIT(&f->place.doors);
	f->opened_ns = clock_realtime_ns();
	(void)uv_timer_init(service->loop, &f->timer);
	f->timer.data = f;
	(void)uv_timer_start(&f->timer, on_look, 0, LOOK_MS);
	return f;
}

void fathom_accept(struct fathom *f, struct exchange *x, const struct fathom_visitor *v)
{
	door_open(&f->place, x, v);
}

void fathom_close(struct fathom *f, void (*done)(void *ctx), void *ctx)
{
	f->is_closing = true;
	f->done = done;
	f->ctx = ctx;
	door_end_all(&f->place);
	check_closed(f);
}
