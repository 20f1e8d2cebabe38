#include "core/feeder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/str.h"

struct feeder {
	struct feeder *next;
	uv_work_t work;
	uv_sem_t finished; /* the thread is done with it */
	int fd;
	feeder_fn *fn;
	feeder_done_cb *done;
	void *ctx;
	bool is_told;
	int r;
	struct err err;
};

/* All that are under way, on whatever loop; touched by the thread of the loops only. */
static struct feeder *feeders;

static void in_thread(uv_work_t *work)
{
	struct feeder *f = work->data;

	f->r = f->fn(f->ctx, f->fd, &f->err);
	uv_sem_post(&f->finished);
}

static void unlist(struct feeder *f)
{
	for (struct feeder **at = &feeders; *at; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			return;
		}
	}
}

/* The descriptor is closed here, not by the thread: feeder_finish_all() may want to shut it. */
static void tell(struct feeder *f, int r)
{
	unlist(f);
	close_fdp(&f->fd);
	f->is_told = true;
	f->done(f->ctx, r, &f->err);
}

static void on_loop(uv_work_t *work, int status)
{
	struct feeder *f = work->data;

	if (!f->is_told)
		tell(f, status < 0 ? status : f->r);
	uv_sem_destroy(&f->finished);
	free(f);
}

void feeder_start(uv_loop_t *loop, int fd, feeder_fn *work, feeder_done_cb *done, void *ctx)
{
	struct feeder *f = xnew(struct feeder);

	*f = (struct feeder){ .fd = fd, .fn = work, .done = done, .ctx = ctx };
	f->work.data = f;
	if (uv_sem_init(&f->finished, 0) < 0)
		abort();
	f->next = feeders;
	feeders = f;
	/* Fails only for a missing function. */
	(void)uv_queue_work(loop, &f->work, in_thread, on_loop);
}

static struct feeder *find_of(const uv_loop_t *loop)
{
	struct feeder *f = feeders;

	while (f && f->work.loop != loop)
		f = f->next;
	return f;
}

void feeder_finish_all(uv_loop_t *loop)
{
	for (struct feeder *f; (f = find_of(loop));) {
		if (uv_cancel((uv_req_t *)&f->work) == 0) {
			tell(f, -ECANCELED);
			continue;
		}
		if (f->fd >= 0)
			(void)shutdown(f->fd, SHUT_RDWR);
		uv_sem_wait(&f->finished);
		tell(f, f->r);
	}
}
