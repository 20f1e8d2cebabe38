#include "core/feeder.h"

#include <stdlib.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/str.h"

struct feeder {
	uv_work_t work;
	int fd;
	feeder_fn *fn;
	feeder_done_cb *done;
	void *ctx;
	int r;
	struct err err;
};

static void in_thread(uv_work_t *work)
{
	struct feeder *f = work->data;

	f->r = f->fn(f->ctx, f->fd, &f->err);
	close_fdp(&f->fd);
}

static void on_loop(uv_work_t *work, int status)
{
	struct feeder *f = work->data;

	close_fdp(&f->fd); /* it may have been canceled before it began */
	f->done(f->ctx, status < 0 ? status : f->r, &f->err);
	free(f);
}

void feeder_start(uv_loop_t *loop, int fd, feeder_fn *work, feeder_done_cb *done, void *ctx)
{
	struct feeder *f = xnew(struct feeder);

	*f = (struct feeder){ .fd = fd, .fn = work, .done = done, .ctx = ctx };
	f->work.data = f;
	/* Fails only for a missing function. */
	(void)uv_queue_work(loop, &f->work, in_thread, on_loop);
}
