/* The keeper and its maker of boxes (box/maker.h). It is started when it is first needed, and
 * again when it has gone; as long as there is none, the keeper makes boxes itself. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/wait.h>

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

/* What it answered before its end. That it left orders unread the kernel says first. */
static void hear_last(struct keeper *k)
{
	struct err err = { 0 };
	int r = hear(k, &err);

	if (r == -ECONNRESET)
		r = hear(k, &err);
	while (r == 1)
		r = hear(k, &err);
}

/* Whether a box that it owes us has been made is not known: so its network and its group are not
 * for another, and its init sees our end of the socket go. */
static void drop_order(struct keeper *k, struct boxed *b)
{
	close_fdp(&b->box.net_fd);
	close_fdp(&b->box.control_fd);
	boxes_kill(b);
	boxes_retire(k, b);
}

/* It is dead, so that no answer will come which is not there. The box that it was at, if any, is
 * our child all the same. */
static void clear(struct keeper *k)
{
	struct making *m = &k->making;
	struct boxed *b;

	hear_last(k);
	maker_fini(&m->maker);
	m->is_dying = false;
	if (m->orders.n > 0)
		m->n_strays++;
	while ((b = orders_next(&m->orders)))
		drop_order(k, b);
}

/* The rest is done when it is dead. We do not wait for that: the kernel may hold it up. */
static void end(struct keeper *k)
{
	watch_stop(k, &k->making.watch);
	maker_kill(&k->making.maker);
	k->making.is_dying = true;
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

	if (m->is_dying)
		return err_set(err, -EAGAIN, "the maker of boxes is still dying");
	if (m->maker.pid)
		return 0;
	if (m->started_ns && now - m->started_ns < RESTART_NS)
		return err_set(err, -EAGAIN, "the maker of boxes ended a moment ago");
	m->started_ns = now;
	int r = maker_start(&k->host, &m->maker, err);
	if (r < 0)
		return r;
	m->watch =
		(struct watch){ .fd = -1, .name = "the maker", .on_event = on_answer, .owner = m };
	r = watch_start(k, &m->watch, m->maker.control_fd, EPOLLIN);
	if (r < 0) {
		end(k);
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

const struct orders *making_orders(const struct keeper *k)
{
	static const struct orders none;

	return k->making.is_dying ? &none : &k->making.orders;
}

/* Not ours to reap. */
static bool is_known(const struct keeper *k, pid_t pid)
{
	return boxes_have(k, pid) || templates_have(k, pid) || k->making.maker.pid == pid ||
	       k->disposer.pid == pid;
}

bool making_seek_strays(struct keeper *k)
{
	struct making *m = &k->making;
	siginfo_t info = { 0 };

	if (m->n_strays == 0)
		return false;
	/* One that is known hides others, until who knows it has reaped it. */
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		m->n_strays = 0; /* we have no children */
	else if (info.si_pid > 0 && !is_known(k, info.si_pid) &&
		 waitpid(info.si_pid, NULL, WNOHANG) == info.si_pid)
		m->n_strays--;
	return m->n_strays > 0;
}

void making_tend(struct keeper *k)
{
	struct making *m = &k->making;
	const struct boxed *b = m->orders.first;

	if (m->is_dying && maker_reap(&m->maker, false))
		clear(k);
	else if (!m->is_dying && b && clock_monotonic_ns() - b->asked_ns >= MAKING_NS)
		lose(k, "it takes too long to make a box");
	(void)making_seek_strays(k);
}

bool making_pending(const struct keeper *k)
{
	return k->making.is_dying || k->making.orders.n > 0;
}

void making_fini(struct keeper *k)
{
	struct making *m = &k->making;
	struct err err = { 0 };

	if (!m->maker.pid)
		return;
	if (!m->is_dying) {
		maker_dismiss(&m->maker);
		while (m->orders.n > 0 && hear(k, &err) == 1)
			;
		end(k);
	}
	(void)maker_reap(&m->maker, true);
	clear(k);
}
