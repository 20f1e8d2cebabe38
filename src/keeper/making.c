/* The keeper and its maker of boxes (box/maker.h). It is started when it is first needed, and
 * again when it has gone; as long as there is none, the keeper makes boxes itself. */
#include <errno.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "box/net.h"
#include "keeper/keeper_private.h"

/* One that ends is not replaced more often than this. */
#define RESTART_NS UINT64_C(1000000000)

/* What takes longer than this will not come. */
#define MAKING_NS UINT64_C(10000000000)

/* The next answer, for the box that is due. 1: it was one; 0: there is none yet; else there will
 * be no more, and `err` says why. */
static int hear(struct keeper *k, struct err *err)
{
	struct making *m = &k->making;
	struct box made = { .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	int r = maker_hear(&m->maker, k->buffer, &made, err);

	if (r != 1 && r != -ECANCELED)
		return r;
	struct boxed *b = orders_next(&m->orders);
	if (!b) {
		box_fini(&made);
		return err_set(err, -EBADMSG, "it made what nobody asked for");
	}
	b->box.pid = made.pid;
	b->box.pid_fd = made.pid_fd;
	boxes_add_ready(k, b, r == 1 ? NULL : err->text);
	return 1;
}

/* Whether a box that it still owes us has been made is not known: so its network and its group are
 * not for another, and its init sees our end of the socket go. */
static void end(struct keeper *k)
{
	struct making *m = &k->making;
	struct boxed *b;

	watch_stop(k, &m->watch);
	maker_fini(&m->maker);
	while ((b = orders_next(&m->orders))) {
		close_fdp(&b->box.net_fd);
		close_fdp(&b->box.control_fd);
		boxes_kill(b);
		boxes_retire(k, b);
	}
}

static void lose(struct keeper *k, const char *why)
{
	log_warn("event=maker_gone, making boxes without it: %s", why);
	end(k);
}

static void on_answer(struct keeper *k, void *owner, uint32_t events)
{
	struct err err = { 0 };

	(void)owner;
	(void)events;
	if (hear(k, &err) < 0)
		lose(k, err.text);
}

static int start(struct keeper *k, struct err *err)
{
	struct making *m = &k->making;
	uint64_t now = clock_monotonic_ns();

	if (m->maker.pid)
		return 0;
	if (m->started_ns && now - m->started_ns < RESTART_NS)
		return err_set(err, -EAGAIN, "the maker of boxes ended a moment ago");
	m->started_ns = now;
	int r = maker_start(&k->host, &m->maker, err);
	if (r < 0)
		return r;
	m->watch = (struct watch){ .fd = -1, .on_event = on_answer, .owner = m };
	r = watch_start(k, &m->watch, m->maker.control_fd, EPOLLIN);
	if (r < 0) {
		maker_fini(&m->maker);
		return err_set(err, r, "watch the maker of boxes");
	}
	return 0;
}

int making_ask(struct keeper *k, struct boxed *b, const struct box_order *order, struct err *err)
{
	struct making *m = &k->making;
	AUTO_FD init_fd = -1;
	int r = start(k, err);

	if (r == 0)
		r = box_prepare(&k->host, order, &b->box, &init_fd, err);
	if (r < 0)
		return r;
	r = maker_ask(&m->maker, order, &b->box, init_fd, err);
	if (r < 0) {
		nets_give(k->host.nets, take_fd(&b->box.net_fd));
		box_fini(&b->box);
		return r;
	}
	b->asked_ns = clock_monotonic_ns();
	orders_add(&m->orders, b);
	return 0;
}

void making_tend(struct keeper *k)
{
	const struct boxed *b = k->making.orders.first;

	if (b && clock_monotonic_ns() - b->asked_ns >= MAKING_NS)
		lose(k, "it takes too long to make a box");
}

void making_fini(struct keeper *k)
{
	struct err err = { 0 };

	if (!k->making.maker.pid)
		return;
	maker_dismiss(&k->making.maker);
	while (k->making.orders.n > 0 && hear(k, &err) == 1)
		;
	end(k);
}
