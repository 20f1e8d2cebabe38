#include "mcp/turns.h"

#include <stdlib.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/fd.h"
#include "base/str.h"
#include "core/service.h"
#include "core/session.h"
#include "mcp/mcp_peer.h"

struct turns_waiter {
	TAILQ_ENTRY(turns_waiter) link;
	struct session_file file;
	turns_cb *done;
	void *ctx;
};

/* There while somebody waits. */
struct turns {
	uv_idle_t idle; /* first: it is freed by its handle */
	struct mcp_host *host;
	TAILQ_HEAD(, turns_waiter) waiting;
};

static void take_turn(struct turns_waiter *t)
{
	t->done(t->ctx, &t->file);
	close_fdp(&t->file.fd);
	free(t);
}

static void on_closed(uv_handle_t *handle)
{
	free(handle);
}

static void on_turn(uv_idle_t *idle)
{
	struct turns *turns = (struct turns *)idle;
	struct turns_waiter *t = TAILQ_FIRST(&turns->waiting);

	TAILQ_REMOVE(&turns->waiting, t, link);
	if (TAILQ_EMPTY(&turns->waiting)) {
		turns->host->turns = NULL;
		uv_close((uv_handle_t *)idle, on_closed);
	}
	take_turn(t); /* the host may be gone then */
}

static struct turns *turns_new(struct mcp_host *host)
{
	struct turns *turns = xnew(struct turns);

	turns->host = host;
	TAILQ_INIT(&turns->waiting);
	(void)uv_idle_init(host->service->loop, &turns->idle);
	(void)uv_idle_start(&turns->idle, on_turn);
	return turns;
}

void turns_wait(struct mcp_host *host, struct session_file *file, turns_cb *done, void *ctx)
{
	struct turns_waiter *t = xnew(struct turns_waiter);

	*t = (struct turns_waiter){ .file = *file, .done = done, .ctx = ctx };
	file->fd = -1;
	if (t->file.size <= TURNS_SMALL) {
		take_turn(t);
		return;
	}
	if (!host->turns)
		host->turns = turns_new(host);
	TAILQ_INSERT_TAIL(&host->turns->waiting, t, link);
}
