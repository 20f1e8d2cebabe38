#include <signal.h>

#include "base/clock.h"
#include "base/str.h"
#include "keeper/real_sample.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* Give those who have something to say their turn, for a moment at most. */
static void listen_a_moment(struct keeper *k)
{
	struct epoll_event event;

	if (epoll_wait(k->epoll_fd, &event, 1, 20) == 1) {
		struct watch *w = event.data.ptr;

		w->on_event(k, w->owner, event.events);
	}
}

static void open_listening(struct keeper *k, const char *dir, struct root **ret)
{
	real_open(k, dir, ret);
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	k->buffer = xcalloc(1, FRAME_SIZE_MAX);
	k->makes_ready = true;
	k->favourite = *ret;
}

static void close_listening(struct keeper *k)
{
	real_close(k);
	close_fdp(&k->epoll_fd);
	free(k->buffer);
}

static void wait_for_stock(struct keeper *k)
{
	for (int i = 0; i < 1000 && k->ready.n < STOCK_MIN; i++) {
		(void)boxes_tend(k, true);
		listen_a_moment(k);
	}
	CHILD_CHECK(k->ready.n == STOCK_MIN && k->making.orders.n == 0);
}

static void have_them_made(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	size_t n_before = scratch_count_fds();

	open_listening(&k, ctx, &root);
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.maker.pid > 0);
	CHILD_CHECK(k.making.orders.n == 1 && k.ready.n == 0); /* we did not wait for it */
	wait_for_stock(&k);
	CHILD_CHECK(k.ready.n_made == STOCK_MIN && k.ready.made_ns > 0);
	close_listening(&k);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(boxes_are_made_by_another)
{
	SCRATCH(d);

	IN_CHILD(have_them_made, d.path);
}

static void lose_it(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	size_t n_before = scratch_count_fds();

	open_listening(&k, ctx, &root);
	wait_for_stock(&k);
	pid_t first = k.making.maker.pid;
	CHILD_CHECK(kill(first, SIGSTOP) == 0);
	boxes_forget_root(&k, root);
	k.favourite = root;
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.orders.n == 1);
	CHILD_CHECK(kill(first, SIGKILL) == 0);
	for (int i = 0; i < 1000 && k.making.orders.n > 0; i++)
		listen_a_moment(&k);
	CHILD_CHECK(k.making.orders.n == 0 && k.making.maker.pid == 0);
	wait_for_stock(&k); /* by ourselves: it is too early for another */
	CHILD_CHECK(k.making.maker.pid == 0);
	close_listening(&k);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(without_it_we_make_them_ourselves)
{
	SCRATCH(d);

	IN_CHILD(lose_it, d.path);
}

/* No box, and no process of one, is left that nobody knows of. */
static void end_while_it_works(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;

	open_listening(&k, ctx, &root);
	(void)boxes_tend(&k, true);
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.orders.n == 2);
	uint64_t begin_ns = clock_monotonic_ns();
	close_listening(&k);
	CHILD_CHECK(clock_monotonic_ns() - begin_ns < UINT64_C(1000000000));
}

TEST(a_keeper_that_ends_has_its_orders_finished)
{
	SCRATCH(d);

	IN_CHILD(end_while_it_works, d.path);
}

static void lose_patience(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;

	open_listening(&k, ctx, &root);
	wait_for_stock(&k);
	CHILD_CHECK(kill(k.making.maker.pid, SIGSTOP) == 0);
	boxes_forget_root(&k, root);
	k.favourite = root;
	(void)boxes_tend(&k, true);
	making_tend(&k);
	CHILD_CHECK(k.making.orders.n == 1);
	k.making.orders.first->asked_ns = 1; /* long ago */
	making_tend(&k);
	CHILD_CHECK(k.making.orders.n == 0 && k.making.maker.pid == 0);
	close_listening(&k);
}

TEST(one_that_hangs_is_given_up)
{
	SCRATCH(d);

	IN_CHILD(lose_patience, d.path);
}

static void forget_what_was_asked_for(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;

	open_listening(&k, ctx, &root);
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.orders.n == 1);
	boxes_forget_root(&k, root);
	for (int i = 0; i < 1000 && k.making.orders.n > 0; i++)
		listen_a_moment(&k);
	CHILD_CHECK(k.making.orders.n == 0 && k.ready.n == 0 && k.n_retired == 1);
	close_listening(&k);
}

TEST(one_of_an_image_that_is_gone_is_not_used)
{
	SCRATCH(d);

	IN_CHILD(forget_what_was_asked_for, d.path);
}

TESTS(UNIT(one_that_hangs_is_given_up), UNIT(a_keeper_that_ends_has_its_orders_finished),
	UNIT(boxes_are_made_by_another), UNIT(without_it_we_make_them_ourselves),
	UNIT(one_of_an_image_that_is_gone_is_not_used))
