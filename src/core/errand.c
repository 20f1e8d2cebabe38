#include "core/errand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/collector.h"
#include "core/lister.h"
#include "core/service.h"
#include "core/session.h"
#include "ipc/inventory.h"

struct errand {
	struct errand *next; /* of the same session, in the order they came */
	struct service *service;
	struct session *session; /* which does not go before this is over */
	struct errand_plan plan;
	errand_cb *done;
	void *ctx;
	struct job *job;
	struct collector *collector;
	struct lister *lister;
	bool is_running;
	bool is_canceled; /* by us */
	bool is_fed;
	bool is_collected;
	bool has_ended;
	uint64_t n_bytes;
	int r; /* the first failure */
	char text[256];
};

static void start(struct errand *e);

static void fail(struct errand *e, int r, const char *text)
{
	if (e->r < 0)
		return;
	e->r = r;
	(void)snprintf(e->text, sizeof(e->text), "%s", text);
}

static void unlink_errand(struct errand *e)
{
	for (struct errand **at = &e->session->errand; *at; at = &(*at)->next) {
		if (*at == e) {
			*at = e->next;
			return;
		}
	}
}

/* The next one begins before this one is reported: whoever hears of it may end the session. */
static void finish(struct errand *e)
{
	struct session *session = e->session;

	unlink_errand(e);
	close_fdp(&e->plan.capture_fd);
	if (e->job)
		e->service->runtime->release(TAKE(e->job));
	if (session->errand && !session->errand->is_running)
		start(session->errand);
	session->n_work++; /* it is not freed by who hears of this */
	session_touch(session);
	e->done(e->ctx, e->r, e->text, e->n_bytes);
	free(e);
	session->n_work--;
	session_check_ending(session);
}

static void check_over(struct errand *e)
{
	if (!e->service->is_closing && e->has_ended && e->is_fed && e->is_collected)
		finish(e);
}

static int feed(void *ctx, int fd, struct err *err)
{
	const struct errand *e = ctx;

	return e->plan.feed(e->plan.feed_ctx, fd, err);
}

static void on_fed(void *ctx, int r, const struct err *err)
{
	struct errand *e = ctx;

	/* The box hung up: it will say itself why, and better than we could. */
	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		fail(e, r, err->text);
	e->is_fed = true;
	check_over(e);
}

static void on_collected(void *ctx, int r, uint64_t n_bytes)
{
	struct errand *e = ctx;

	e->collector = NULL;
	e->n_bytes = n_bytes;
	if (r < 0)
		fail(e, r, r == -EFBIG ? "the files with their names are too large" : strerror(-r));
	e->is_collected = true;
	check_over(e);
}

static void on_listed(void *ctx, int r, struct inventory *listing)
{
	struct errand *e = ctx;

	e->lister = NULL;
	if (r < 0)
		fail(e, r == -ENODATA ? -EIO : r, "the box said nothing of use of its files");
	*e->plan.listing = *listing;
	*listing = (struct inventory){ 0 };
	e->is_collected = true;
	check_over(e);
}

static void on_started(void *ctx, int fds[CHANNEL_COUNT])
{
	struct errand *e = ctx;

	if (fds[CHANNEL_FILES] >= 0) {
		e->is_fed = false;
		feeder_start(e->service->loop, take_fd(&fds[CHANNEL_FILES]), feed, on_fed, e);
	}
	if (fds[CHANNEL_CAPTURE] >= 0) {
		e->is_collected = false;
		e->collector = collector_start(e->service->loop, take_fd(&fds[CHANNEL_CAPTURE]),
			take_fd(&e->plan.capture_fd), e->plan.capture_max, on_collected, e);
	}
	if (fds[CHANNEL_LISTING] >= 0 && e->plan.listing) {
		e->is_collected = false;
		e->lister = lister_start(
			e->service->loop, take_fd(&fds[CHANNEL_LISTING]), on_listed, e);
	}
	for (int i = 0; i < CHANNEL_COUNT; i++)
		close_fdp(&fds[i]);
}

static void on_running(void *ctx, uint64_t started_ns)
{
	(void)ctx;
	(void)started_ns;
}

/* The keeper cancels by itself what belongs to a connection that broke. */
static int code_of(const struct errand *e, const struct result *r)
{
	if (r->reason == REASON_CANCELED_BY_USER)
		return e->is_canceled ? -ECANCELED : -ECONNRESET;
	if (e->plan.feed && (r->error == ENOSPC || r->error == EDQUOT || r->error == EFBIG))
		return -ENOSPC;
	return r->error ? -r->error : -EIO;
}

static void on_ended(void *ctx, const struct result *result)
{
	struct errand *e = ctx;

	e->has_ended = true;
	/* A box that could not send all there is has ended well otherwise. */
	if (result->reason != REASON_EXIT_CODE_0 || result->error != 0)
		fail(e, code_of(e, result), result->message);
	check_over(e);
}

static void on_refused(void *ctx, enum reason reason, int code, const char *text)
{
	struct errand *e = ctx;

	(void)reason;
	e->has_ended = true;
	fail(e, code, text);
	check_over(e);
}

static void on_lost(void *ctx)
{
	struct errand *e = ctx;

	e->has_ended = true;
	fail(e, -ECONNRESET, "the keeper is gone");
	check_over(e);
}

static const struct job_events events = {
	.started = on_started,
	.running = on_running,
	.ended = on_ended,
	.refused = on_refused,
	.lost = on_lost,
};

static void fill_spec(const struct errand *e, struct spec *spec)
{
	const struct session *session = e->session;

	spec_init(spec);
	spec_make_id(spec->id);
	spec->deed = e->plan.only ? DEED_FETCH : DEED_FILES;
	if (e->plan.listing)
		spec->deed = DEED_LIST;
	spec->lists = spec->deed == DEED_LIST;
	spec->digests = spec->lists && e->plan.digests;
	spec->deaf = true;
	spec->argv = xcalloc(1, sizeof(*spec->argv));
	spec->env = xcalloc(1, sizeof(*spec->env));
	spec->globs = xcalloc(2, sizeof(*spec->globs));
	if (e->plan.capture_fd >= 0)
		spec->globs[0] = xstrdup(e->plan.only ? e->plan.only : "**");
	spec->cwd = xstrdup("/");
	spec->takes_files = e->plan.feed != NULL;
	spec->clears = e->plan.clears;
	spec->limits.workspace_bytes = session->workspace_bytes;
	spec->limits.capture_bytes = e->plan.capture_max;
	spec->limits.startup_ms = 600000; /* files come as fast as they come */
	/* What is unpacked counts as memory of the box that does it. */
	spec->limits.memory_bytes += 2 * session->workspace_bytes;
	memcpy(spec->workspace, session->workspace, sizeof(spec->workspace));
	if (session->mark != SESSION_WHOLE)
		memcpy(spec->change, session->change, sizeof(spec->change));
}

static void start(struct errand *e)
{
	struct spec spec;

	e->is_running = true;
	e->is_fed = e->is_collected = true;
	fill_spec(e, &spec);
	struct service *s = e->service;
	int r = s->host ? s->runtime->start(s->host, &spec, &events, e, &e->job) : -EAGAIN;
	spec_fini(&spec);
	if (r < 0) {
		fail(e, -ECONNRESET, "the keeper is not there");
		e->has_ended = true;
		check_over(e);
	}
}

void errand_start(
	struct session *session, const struct errand_plan *plan, errand_cb *done, void *ctx)
{
	struct errand *e = xnew(struct errand);
	struct errand **at = &session->errand;

	*e = (struct errand){ .service = session->service, .session = session, .plan = *plan };
	e->done = done;
	e->ctx = ctx;
	while (*at)
		at = &(*at)->next;
	*at = e;
	if (session->errand == e)
		start(e);
}

/* Take it off the list and tell, without having done it. */
static void forget(struct errand *e, const char *text)
{
	unlink_errand(e);
	collector_free(e->collector);
	lister_free(e->lister);
	close_fdp(&e->plan.capture_fd);
	e->done(e->ctx, -ECANCELED, text, 0);
	free(e);
}

void errand_cancel_all(struct session *session)
{
	struct errand *running = session->errand;

	if (!running)
		return;
	while (running->next)
		forget(running->next, "the session ended");
	running->is_canceled = true;
	if (running->job)
		running->service->runtime->cancel(running->job);
}

void errand_forget_all(struct session *session)
{
	session->n_work++;
	while (session->errand)
		forget(session->errand, "the server is about to end");
	session->n_work--;
	session_check_ending(session);
}
