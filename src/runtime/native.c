/* The native runtime: boxes, made by the keeper. One connection to its socket, which is
 * greeted, asked for what it holds from before, and then used for everything. When it
 * breaks, another is made:
 *
 *   waiting --connected--> greeting --WELCOME--> listing --RUNS, WORKSPACES--> up
 *      ^----------------------- the connection breaks --------------------------'
 *
 * If it is another keeper that answers then, or none for a while, the one before is gone and
 * with it all of its boxes. If it is the same, which hangs up on whoever does not read for too
 * long, it has everything and tells it again to whoever attaches.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/frame.h"
#include "runtime/native_private.h"

static const char *native_probe(void)
{
	return NULL;
}

static int native_open(uv_loop_t *loop, const struct runtime_options *options,
	const struct runtime_listener *listener, struct runtime_host **ret, struct err *err)
{
	struct runtime_host *h = xnew(struct runtime_host);

	(void)err;
	h->loop = loop;
	h->listener = *listener;
	h->root = xstrdup(options->root);
	h->warm = options->warm;
	h->fd = -1;
	h->retry_ms = NATIVE_RETRY_MS;
	h->unsent_end = &h->unsent;
	h->buffer = xcalloc(1, FRAME_SIZE_MAX);
	(void)uv_timer_init(loop, &h->retry);
	(void)uv_timer_init(loop, &h->pulse);
	h->retry.data = h->pulse.data = h;
	*ret = h;
	native_connect(h);
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	struct runtime_host *h = handle->data;

	while (h->jobs) {
		struct job *j = h->jobs;

		h->jobs = j->next;
		free(j);
	}
	while (h->wishes) {
		struct wish *w = h->wishes;

		h->wishes = w->next;
		free(w);
	}
	free(h->runs);
	free(h->root);
	free(h->buffer);
	free(h);
}

static void on_retry_closed(uv_handle_t *handle)
{
	struct runtime_host *h = handle->data;

	uv_close((uv_handle_t *)&h->pulse, on_closed);
}

/* What runs goes on in the keeper's care, for the next server. */
static void native_close(struct runtime_host *h)
{
	if (!h)
		return;
	h->state = STATE_CLOSED;
	native_disconnect(h);
	(void)uv_timer_stop(&h->retry);
	uv_close((uv_handle_t *)&h->retry, on_retry_closed);
}

static bool native_is_up(const struct runtime_host *h)
{
	return h->state == STATE_UP;
}

static uint64_t native_facets(const struct runtime_host *h)
{
	return h->facets;
}

static const char *native_instance(const struct runtime_host *h)
{
	return h->instance;
}

static struct job *new_job(
	struct runtime_host *h, const char *id, const struct job_events *events, void *ctx)
{
	struct job *j = xnew(struct job);

	j->host = h;
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	j->events = events;
	j->ctx = ctx;
	j->next = h->jobs;
	h->jobs = j;
	return j;
}

static void free_job(struct job *j)
{
	for (struct job **at = &j->host->jobs; *at; at = &(*at)->next) {
		if (*at == j) {
			*at = j->next;
			break;
		}
	}
	free(j);
}

/* A job that nobody wants is one as well, until it is over. */

static void on_unwanted_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct job *j = ctx;

	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&fds[i]);
	(void)native_say_id(j->host, MESSAGE_CANCEL, j->id);
}

static void on_unwanted_running(void *ctx, uint64_t started_ns)
{
	(void)ctx;
	(void)started_ns;
}

static void on_unwanted_ended(void *ctx, const struct result *result)
{
	struct job *j = ctx;

	(void)result;
	(void)native_say_id(j->host, MESSAGE_ACK, j->id);
	free_job(j);
}

static void on_unwanted_refused(void *ctx, enum reason reason, int code, const char *text)
{
	(void)reason;
	(void)code;
	(void)text;
	free_job(ctx);
}

static void on_unwanted_lost(void *ctx)
{
	free_job(ctx);
}

static const struct job_events unwanted = {
	.started = on_unwanted_started,
	.running = on_unwanted_running,
	.ended = on_unwanted_ended,
	.refused = on_unwanted_refused,
	.lost = on_unwanted_lost,
};

static int native_start(struct runtime_host *h, const struct spec *spec,
	const struct job_events *events, void *ctx, struct job **ret)
{
	struct put p;

	if (h->state != STATE_UP)
		return -EAGAIN;
	put_init(&p, SPEC_SIZE_MAX);
	spec_put(spec, &p);
	struct job *j = new_job(h, spec->id, events, ctx);
	int r = native_say(h, MESSAGE_START, &p);
	if (r < 0) {
		free_job(j);
		return r;
	}
	*ret = j;
	return 0;
}

static int native_adopt(struct runtime_host *h, const char *id, const struct job_events *events,
	void *ctx, struct job **ret)
{
	if (h->state != STATE_UP)
		return -EAGAIN;
	*ret = new_job(h, id, events, ctx);
	native_attach(*ret);
	return 0;
}

static void native_cancel(struct job *j)
{
	j->is_canceled = true;
	if (!j->is_over)
		(void)native_say_id(j->host, MESSAGE_CANCEL, j->id);
}

static void native_signal(struct job *j, int sig)
{
	struct put p;

	if (j->is_over)
		return;
	put_init(&p, 64);
	put_str(&p, j->id);
	put_u32(&p, (uint32_t)sig);
	(void)native_say(j->host, MESSAGE_SIGNAL, &p);
}

static void native_freeze(struct job *j)
{
	j->last_pause = MESSAGE_FREEZE;
	if (!j->is_over)
		(void)native_say_id(j->host, MESSAGE_FREEZE, j->id);
}

static void native_thaw(struct job *j)
{
	j->last_pause = MESSAGE_THAW;
	if (!j->is_over)
		(void)native_say_id(j->host, MESSAGE_THAW, j->id);
}

static void native_ask_usage(struct job *j)
{
	if (!j->is_over)
		(void)native_say_id(j->host, MESSAGE_USAGE, j->id);
}

static void native_close_stdin(struct job *j)
{
	j->stdin_is_closed = true;
	if (!j->is_over)
		(void)native_say_id(j->host, MESSAGE_CLOSE_STDIN, j->id);
}

/* A job that is not over is ended by the keeper, whose word of it then finds nobody. */
static void native_release(struct job *j)
{
	if (!j)
		return;
	if (!j->is_lost)
		(void)native_say_id(j->host, j->is_over ? MESSAGE_ACK : MESSAGE_CANCEL, j->id);
	native_end_attaching(j);
	free_job(j);
}

/* Attached to, or we would not hear of its end, which is to be acknowledged. What is somebody's
 * job, after a connection that broke, stays that. */
static void native_discard(struct runtime_host *h, const char *id)
{
	if (native_find_job(h, id))
		return;
	struct job *j = new_job(h, id, &unwanted, NULL);

	j->ctx = j;
	native_attach(j);
}

static void native_make_workspace(
	struct runtime_host *h, const char *id, uint64_t bytes, workspace_cb *done, void *ctx)
{
	struct put p;

	if (h->state != STATE_UP) {
		done(ctx, -EAGAIN, "the keeper is not there");
		return;
	}
	struct wish *w = xnew(struct wish);
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
	w->done = done;
	w->ctx = ctx;
	put_init(&p, 128);
	put_str(&p, id);
	put_u64(&p, bytes);
	int r = native_say(h, MESSAGE_MAKE_WORKSPACE, &p); /* takes it, sent or not */
	if (r < 0) {
		native_grant(w, r, "the keeper is not there");
		return;
	}
	/* The keeper answers in this order, and there may be two of the same id. */
	struct wish **at = &h->wishes;
	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void native_drop_workspace(struct runtime_host *h, const char *id)
{
	(void)native_say_id(h, MESSAGE_DROP_WORKSPACE, id);
}

const struct runtime runtime_native = {
	.name = "native",
	.summary = "boxes made by our own keeper; needs nothing but Linux",
	.probe = native_probe,
	.open = native_open,
	.close = native_close,
	.is_up = native_is_up,
	.facets = native_facets,
	.instance = native_instance,
	.start = native_start,
	.adopt = native_adopt,
	.cancel = native_cancel,
	.signal = native_signal,
	.freeze = native_freeze,
	.thaw = native_thaw,
	.ask_usage = native_ask_usage,
	.close_stdin = native_close_stdin,
	.release = native_release,
	.discard = native_discard,
	.make_workspace = native_make_workspace,
	.drop_workspace = native_drop_workspace,
};
