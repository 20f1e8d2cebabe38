/* The interpreters that warm boxes are clones of. One serves at a time. It is replaced after a
 * while, since all clones of one have the same layout of memory and the same hash seed, when the
 * next one has loaded; the one before then only waits for the end of its boxes. None is ever waited
 * for: as long as there is no template, or it has no box ready, a run starts its interpreter
 * itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/root.h"
#include "box/template.h"
#include "ipc/cur.h"
#include "keeper/keeper_private.h"

#define NS_PER_MS UINT64_C(1000000)

/* One that can not be started is not tried again at once; each time later, up to the last. */
#define RETRY_FIRST_MS UINT64_C(1000)
#define RETRY_LAST_MS  UINT64_C(300000)

/* What takes longer than this will not come: to load, and to make a box. */
#define LOADING_MS UINT64_C(60000)
#define MAKING_MS  UINT64_C(10000)

struct template
{
	struct template *next;
	uint64_t id;
	struct template_process process;
	struct watch watch;
	struct orders orders;
	size_t n_made;
	bool is_ready;
	bool is_stuck; /* and would not look at the socket */
	uint64_t started_ns;
};

/* Of those that are not dismissed, the one that serves, or the one that still loads. */
static struct template *find(const struct keeper *k, bool is_ready)
{
	struct template *t = k->templates;

	while (t && (t->watch.fd < 0 || t->is_ready != is_ready))
		t = t->next;
	return t;
}

static struct template *serving(const struct keeper *k)
{
	return find(k, true);
}

static struct template *loading(const struct keeper *k)
{
	return find(k, false);
}

bool templates_ready(const struct keeper *k)
{
	return serving(k) && clock_monotonic_ns() >= k->template_not_before_ns;
}

/* Not where memory is for none of its clones. */
static bool is_wanted(const struct keeper *k)
{
	return k->warm.warmth == WARM_LANGUAGES && k->clones.n_max > 0 && k->host_root &&
	       k->warm_library_size && !k->stopping;
}

bool templates_pending(const struct keeper *k)
{
	return is_wanted(k) && !serving(k) && !loading(k);
}

const struct orders *templates_orders(const struct keeper *k)
{
	static const struct orders none;

	return serving(k) ? &serving(k)->orders : &none;
}

bool templates_have(const struct keeper *k, pid_t pid)
{
	const struct template *t = k->templates;

	while (t && t->process.pid != pid)
		t = t->next;
	return t;
}

/* The template may be at it still, and let somebody join its group: that is not for another. */
static void drop_order(struct keeper *k, struct boxed *b)
{
	if (b)
		boxes_kill(b);
	boxes_retire(k, b);
}

/* It makes no more boxes. Those that it owes us will not come. */
static void dismiss(struct keeper *k, struct template *t)
{
	struct boxed *b;

	watch_stop(k, &t->watch);
	while ((b = orders_next(&t->orders)))
		drop_order(k, b);
	/* Who still loads would not look at the socket, and has no boxes. */
	if (!t->is_ready)
		template_kill(&t->process);
	(void)template_end(&t->process);
}

static void retry_later(struct keeper *k)
{
	k->template_retry_ms = k->template_retry_ms ? 2 * k->template_retry_ms : RETRY_FIRST_MS;
	if (k->template_retry_ms > RETRY_LAST_MS)
		k->template_retry_ms = RETRY_LAST_MS;
	k->template_not_before_ns = clock_monotonic_ns() + k->template_retry_ms * NS_PER_MS;
}

static void give_up(struct keeper *k, struct template *t, const char *why)
{
	log_warn("the warm interpreter ended, ignoring: %s", why);
	retry_later(k);
	dismiss(k, t);
}

/* We wait for its end with this one. */
static bool is_pid_fd(int fd)
{
	return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 || errno == ESRCH ||
	       errno == EPERM;
}

static void on_box(struct keeper *k, struct template *t, struct frame *f)
{
	struct boxed *b = orders_next(&t->orders);

	if (!b || f->n_fds != 3 || !is_pid_fd(f->fds[1]) || fd_set_nonblock(f->fds[0], true) < 0) {
		drop_order(k, b);
		give_up(k, t, "it sent what is no box, or that nobody asked for");
		return;
	}
	b->box.pid = BOX_OF_TEMPLATE;
	b->box.control_fd = take_fd(&f->fds[0]);
	b->box.pid_fd = take_fd(&f->fds[1]);
	b->box.net_fd = take_fd(&f->fds[2]);
	if (b->cgroup)
		cgroup_close_join(b->cgroup);
	t->n_made++;
	k->template_retry_ms = 0;
	boxes_add_warm(k, b);
}

/* It takes the place of the one before, if there is one. */
static void on_ready(struct keeper *k, struct template *t, const char *notes)
{
	if (serving(k)) {
		dismiss(k, serving(k));
		boxes_forget_clones(k);
	}
	t->is_ready = true;
	if (*notes)
		log_warn("the warm interpreter could not import all, ignoring: %s", notes);
}

static void on_failed(struct keeper *k, struct template *t, const char *why)
{
	drop_order(k, orders_next(&t->orders));
	give_up(k, t, why);
}

static void on_message(struct keeper *k, void *owner, uint32_t events)
{
	struct template *t = owner;
	struct frame f = { 0 };
	struct cur c;
	char text[256];

	(void)events;
	int r = frame_recv(t->watch.fd, k->buffer, &f);
	if (r == -EAGAIN)
		return;
	if (r != 1) {
		give_up(k, t, r == 0 ? "it is gone" : strerror(-r));
		return;
	}
	cur_init(&c, f.data, f.size);
	AUTO_FREE char *full = cur_str(&c, FRAME_SIZE_MAX);
	(void)snprintf(text, sizeof(text), "%s", full ? full : "");
	if (cur_end(&c) < 0)
		give_up(k, t, "it is not understood");
	else if (f.type == MESSAGE_TEMPLATE_READY)
		on_ready(k, t, text);
	else if (f.type == MESSAGE_TEMPLATE_BOX)
		on_box(k, t, &f);
	else
		on_failed(k, t, text);
	frame_close_fds(&f);
}

static int open_library(struct keeper *k, struct err *err)
{
	if (k->library_fd >= 0)
		return 0;
	AUTO_FD fd = memfd_create("belljar-warm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || fd_write_full(fd, k->warm_library, k->warm_library_size) < 0)
		return err_errno(err, "write a library into memory");
	if (fcntl(fd, F_ADD_SEALS,
		    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return err_errno(err, "seal a library in memory");
	k->library_fd = take_fd(&fd);
	return 0;
}

static int start(struct keeper *k, const struct root *root, struct err *err)
{
	struct template *t = xnew(struct template);
	int r = open_library(k, err);

	if (r == 0)
		r = template_start(
			&k->host, root, k->library_fd, k->warm.imports, &t->process, err);
	if (r < 0) {
		free(t);
		return r;
	}
	t->id = ++k->n_templates;
	t->started_ns = clock_monotonic_ns();
	t->watch = (struct watch){
		.fd = -1, .name = "a template", .on_event = on_message, .owner = t
	};
	t->next = k->templates;
	k->templates = t;
	r = watch_start(k, &t->watch, t->process.control_fd, EPOLLIN);
	return r < 0 ? err_set(err, r, "watch a template") : 0;
}

static bool is_older(uint64_t since_ns, uint64_t now_ns, uint64_t ms)
{
	return now_ns - since_ns >= ms * NS_PER_MS;
}

static bool is_worn(const struct template *t, uint64_t now)
{
	return t->n_made >= TEMPLATE_BOXES_MAX || is_older(t->started_ns, now, TEMPLATE_AGE_MS);
}

/* It hangs. */
static void drop_stuck(struct keeper *k, struct template *t, uint64_t now)
{
	if (!t->is_ready && is_older(t->started_ns, now, LOADING_MS)) {
		give_up(k, t, "it takes too long to load");
		return;
	}
	if (t->orders.first && is_older(t->orders.first->asked_ns, now, MAKING_MS)) {
		t->is_stuck = true;
		give_up(k, t, "it takes too long to make a box");
		boxes_forget_clones(k); /* they end with it */
	}
}

/* Those that serve no more and whose last box is gone. */
static void reap(struct keeper *k)
{
	for (struct template **at = &k->templates; *at;) {
		struct template *t = *at;

		/* Its end is that of all its boxes. */
		if (t->is_stuck && !boxes_run_on_template(k, t->id))
			template_kill(&t->process);
		if (t->watch.fd >= 0 || !template_end(&t->process)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		free(t);
	}
}

/* While its successor loads, one that is worn goes on. */
static bool wants_another(const struct keeper *k, uint64_t now)
{
	const struct template *t = serving(k);

	return is_wanted(k) && !loading(k) && (!t || is_worn(t, now)) &&
	       now >= k->template_not_before_ns;
}

void templates_tend(struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();
	struct err err = { 0 };

	if (loading(k))
		drop_stuck(k, loading(k), now);
	if (serving(k))
		drop_stuck(k, serving(k), now);
	reap(k);
	if (!wants_another(k, now))
		return;
	if (start(k, k->host_root, &err) < 0) {
		log_warn("cannot start a warm interpreter, ignoring: %s", err.text);
		retry_later(k);
	}
}

void templates_fail(struct keeper *k, const char *why)
{
	log_warn("cannot make a warm box, ignoring: %s", why);
	retry_later(k);
}

int templates_ask(struct keeper *k, struct boxed *b, uid_t uid, struct err *err)
{
	struct template *t = serving(k);
	int fds[FRAME_FDS_MAX];
	struct put p;

	int n = b->cgroup ? cgroup_open_entrances(b->cgroup, fds, ARRAY_SIZE(fds)) : 0;
	if (n < 0)
		return err_set(err, n, "open the entrances of a cgroup");
	put_init(&p, 64);
	put_u32(&p, uid);
	put_u8(&p, (uint8_t)b->seal);
	int r = frame_send(t->watch.fd, MESSAGE_TEMPLATE_MAKE, &p, fds, (size_t)n);
	put_fini(&p);
	while (n-- > 0)
		(void)close(fds[n]);
	if (r < 0)
		return err_set(err, r, "ask a template: %s", strerror(-r));
	b->box.uid = uid;
	b->template_id = t->id;
	orders_add(&t->orders, b);
	return 0;
}

void templates_give_net(struct keeper *k, uint64_t id, int fd)
{
	const struct template *t = serving(k);

	if (t && t->id == id)
		(void)frame_send(t->watch.fd, MESSAGE_TEMPLATE_NET, NULL, &fd, 1);
	(void)close(fd);
}

void templates_dismiss(struct keeper *k)
{
	if (serving(k))
		dismiss(k, serving(k));
	if (loading(k))
		dismiss(k, loading(k));
	k->template_retry_ms = k->template_not_before_ns = 0;
}

void templates_fini(struct keeper *k)
{
	struct template *t;

	while ((t = k->templates)) {
		dismiss(k, t);
		k->templates = t->next;
		template_fini(&t->process);
		free(t);
	}
	close_fdp(&k->library_fd);
}
