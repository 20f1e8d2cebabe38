#include "api/wait.h"

#include <stddef.h>
#include <stdlib.h>
#include <uv.h>

#include "api/api.h"
#include "base/str.h"
#include "core/run.h"
#include "core/service.h"

struct wait {
	struct run_waiter waiter;
	struct wait *next;
	struct api *api;
	struct exchange *x;
	struct run *run;
	uv_timer_t timer;
	wait_cb *done;
	void *ctx;
};

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void unlist(struct wait *w)
{
	for (struct wait **at = &w->api->waits; *at; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			return;
		}
	}
}

/* Nobody calls us any more; the answer may free the run or end the exchange. */
static void finish(struct wait *w)
{
	unlist(w);
	(void)uv_timer_stop(&w->timer);
	uv_close((uv_handle_t *)&w->timer, on_closed);
	exchange_on_gone(w->x, NULL, NULL);
	w->done(w->ctx, w->run);
}

static void give_up(struct wait *w)
{
	run_unwait(w->run, &w->waiter);
	finish(w);
}

static void on_over(struct run_waiter *waiter, struct run *run)
{
	(void)run;
	finish((struct wait *)((char *)waiter - offsetof(struct wait, waiter)));
}

static void on_time(uv_timer_t *timer)
{
	give_up(timer->data);
}

static void on_gone(struct exchange *x, void *ctx)
{
	(void)x;
	give_up(ctx);
}

void wait_start(struct exchange *x, struct run *run, uint64_t ms, wait_cb *done, void *ctx)
{
	if (ms == 0 || exchange_is_gone(x)) {
		done(ctx, run);
		return;
	}
	struct api *api = api_of(x);
	struct wait *w = xnew(struct wait);
	*w = (struct wait){ .api = api, .x = x, .run = run, .done = done, .ctx = ctx };
	w->waiter.over = on_over;
	w->next = api->waits;
	api->waits = w;
	(void)uv_timer_init(api->service->loop, &w->timer);
	w->timer.data = w;
	(void)uv_timer_start(&w->timer, on_time, ms, 0);
	run_wait(run, &w->waiter);
	exchange_on_gone(x, on_gone, w);
}

void wait_end_all(struct api *api)
{
	while (api->waits)
		give_up(api->waits);
}
