#include <signal.h>
#include <sys/ioctl.h>

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

static void wait_for_boxes(struct keeper *k)
{
	for (int i = 0; i < 1000 && k->ready.n < STOCK_MIN; i++) {
		(void)boxes_tend(k, true);
		listen_a_moment(k);
	}
	CHILD_CHECK(k->ready.n == STOCK_MIN);
}

static void wait_for_stock(struct keeper *k)
{
	wait_for_boxes(k);
	CHILD_CHECK(k->making.orders.n == 0);
}

/* Until the maker is gone, and what it owed us. */
static void wait_for_its_end(struct keeper *k)
{
	for (int i = 0; i < 1000 && (k->making.maker.pid || k->making.orders.n > 0); i++) {
		making_tend(k);
		listen_a_moment(k);
	}
	CHILD_CHECK(k->making.orders.n == 0 && k->making.maker.pid == 0);
	CHILD_CHECK(!k->making.is_dying && k->making.maker.control_fd == -1);
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
	CHILD_CHECK(k.ready.tally[STOCK_HOST].made == STOCK_MIN &&
		    k.ready.tally[STOCK_HOST].made_us > 0);
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
	wait_for_its_end(&k);
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
	for (int i = 0; i < 100 && (k.making.orders.n < STOCK_MIN || k.n_retired > 0); i++) {
		(void)boxes_tend(&k, true);
		(void)usleep(1000);
	}
	making_tend(&k);
	CHILD_CHECK(k.making.orders.n == STOCK_MIN);
	CHILD_CHECK(boxes_tend(&k, true));   /* else nobody would look at it for long */
	k.making.orders.first->asked_ns = 1; /* long ago */
	making_tend(&k);
	wait_for_its_end(&k);
	close_listening(&k);
}

TEST(one_that_hangs_is_given_up)
{
	SCRATCH(d);

	IN_CHILD(lose_patience, d.path);
}

/* Until it has answered for `n` that we have not heard of. */
static void wait_for_answers(const struct keeper *k, int n)
{
	const int size = 12; /* a header and a number */
	int waiting = 0;

	for (int i = 0; i < 1000 && waiting < n * size; i++) {
		(void)usleep(5000);
		CHILD_CHECK(ioctl(k->making.maker.control_fd, FIONREAD, &waiting) == 0);
	}
	CHILD_CHECK(waiting == n * size);
}

static void answer_and_die(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	siginfo_t info;

	open_listening(&k, ctx, &root);
	(void)boxes_tend(&k, true);
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.orders.n == 2);
	wait_for_answers(&k, 2);
	CHILD_CHECK(kill(k.making.maker.pid, SIGSTOP) == 0);
	stock_limit(&k.ready, 3, 1);
	stock_count(&k.ready, STOCK_HOST, false, clock_monotonic_ns());
	(void)boxes_tend(&k, true); /* one that it does not read */
	CHILD_CHECK(k.making.orders.n == 3);
	CHILD_CHECK(kill(k.making.maker.pid, SIGKILL) == 0);
	CHILD_CHECK(waitid(P_PID, (id_t)k.making.maker.pid, &info, WEXITED | WNOWAIT) == 0);
	wait_for_its_end(&k);
	CHILD_CHECK(k.ready.n == 2 && k.n_retired == 1);
	for (const struct boxed *b = k.ready.boxes; b; b = b->next)
		CHILD_CHECK(b->box.pid > 0 && b->box.pid_fd >= 0 && kill(b->box.pid, 0) == 0);
	close_listening(&k);
}

TEST(what_it_made_before_its_end_is_used)
{
	SCRATCH(d);

	IN_CHILD(answer_and_die, d.path);
}

/* As in the middle of a system call that does not end. */
static void die_slowly(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;

	open_listening(&k, ctx, &root);
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	k.making.maker = (struct maker){ .pid = pid, .control_fd = -1 };
	k.making.is_dying = true;
	wait_for_boxes(&k); /* by ourselves, and we did not wait for it */
	CHILD_CHECK(k.making.is_dying && k.making.maker.pid == pid && making_pending(&k));
	CHILD_CHECK(kill(pid, SIGKILL) == 0);
	wait_for_its_end(&k);
	CHILD_CHECK(!making_pending(&k));
	(void)boxes_tend(&k, true);
	boxes_forget_root(&k, root);
	k.favourite = root;
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.making.maker.pid > 0 && k.making.orders.n == 1); /* another */
	close_listening(&k);
}

TEST(one_that_does_not_die_is_not_waited_for)
{
	SCRATCH(d);

	IN_CHILD(die_slowly, d.path);
}

static pid_t end_at_once(void)
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHILD_CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	return pid;
}

static void leave_a_stray(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	siginfo_t info;

	open_listening(&k, ctx, &root);
	wait_for_stock(&k);
	const struct boxed *b = k.ready.boxes;
	CHILD_CHECK(kill(b->box.pid, SIGKILL) == 0);
	CHILD_CHECK(waitid(P_PID, (id_t)b->box.pid, &info, WEXITED | WNOWAIT) == 0);
	k.making.n_strays = 1;
	making_tend(&k);
	CHILD_CHECK(k.making.n_strays == 1); /* it is dead, but not ours */
	CHILD_CHECK(waitid(P_PID, (id_t)b->box.pid, &info, WEXITED | WNOWAIT) == 0);
	boxes_forget_root(&k, root);
	for (int i = 0; i < 1000 && k.n_retired > 0; i++) {
		(void)boxes_tend(&k, true);
		(void)usleep(1000);
	}
	pid_t stray = end_at_once();
	making_tend(&k);
	CHILD_CHECK(k.making.n_strays == 0);
	CHILD_CHECK(waitpid(stray, NULL, 0) < 0 && errno == ECHILD);
	close_listening(&k);
}

TEST(a_child_that_no_list_has_is_reaped)
{
	SCRATCH(d);

	IN_CHILD(leave_a_stray, d.path);
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

TESTS(UNIT(what_it_made_before_its_end_is_used), UNIT(one_that_does_not_die_is_not_waited_for),
	UNIT(a_child_that_no_list_has_is_reaped), UNIT(one_that_hangs_is_given_up),
	UNIT(a_keeper_that_ends_has_its_orders_finished), UNIT(boxes_are_made_by_another),
	UNIT(without_it_we_make_them_ourselves), UNIT(one_of_an_image_that_is_gone_is_not_used))
