#include "keeper/boxes.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "box/net.h"
#include "keeper/real_sample.h"
#include "keeper/sample.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

static struct boxed *take(struct keeper *k, const struct root *root, const struct limits *limits)
{
	char *argv[] = { (char *)"true", NULL };
	struct spec spec = { .image = "host", .argv = argv, .limits = *limits };
	struct err err = { 0 };
	struct boxed *b = NULL;

	if (boxes_take(k, root, &spec, BOX_ANY_UID, &b, &err) < 0)
		child_fail(__FILE__, __LINE__, err.text);
	return b;
}

static void make_ready(struct keeper *k)
{
	for (int i = 0; i < 100 && k->ready.n < STOCK_MIN; i++)
		(void)boxes_tend(k, true);
	CHILD_CHECK(k->ready.n == STOCK_MIN);
}

static void use_some(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	struct spec standard;

	spec_init(&standard);
	size_t n_before = scratch_count_fds();
	real_open(&k, ctx, &root);
	struct boxed *a = take(&k, root, &standard.limits);
	struct boxed *b = take(&k, root, &standard.limits);
	CHILD_CHECK(a != b && a->box.pid != b->box.pid);
	CHILD_CHECK(a->box.uid != b->box.uid || !k.host.privileged);
	CHILD_CHECK(!k.host.privileged || a->box.uid >= 0x70000000u);
	CHILD_CHECK(boxes_use_root(&k, root));

	make_ready(&k);
	pid_t first = k.ready.boxes->box.pid;
	struct boxed *c = take(&k, root, &standard.limits);
	CHILD_CHECK(c->box.pid == first && k.ready.n == STOCK_MIN - 1);
	boxes_retire(&k, a);
	boxes_retire(&k, b);
	boxes_retire(&k, c);
	boxes_retire(&k, NULL);
	CHILD_CHECK(!k.busy && k.n_retired == 3 && !boxes_use_root(&k, root));
	real_close(&k);
	CHILD_CHECK(scratch_count_fds() == n_before);
}

TEST(boxes_are_taken_made_ahead_and_retired)
{
	SCRATCH(d);

	IN_CHILD(use_some, d.path);
}

/* Of the two that wait one is taken; is another made before there is a quiet moment? */
static bool makes_beside(struct keeper *k, const struct root *root, const struct limits *limits)
{
	make_ready(k);
	struct boxed *b = take(k, root, limits);
	(void)boxes_tend(k, false);
	bool is_made = k->ready.n + k->making.orders.n == STOCK_MIN;
	boxes_retire(k, b);
	return is_made;
}

static void make_beside(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	struct spec standard;

	spec_init(&standard);
	real_open(&k, ctx, &root);
	struct boxed *other = take(&k, root, &standard.limits);
	boxes_retire(&k, take(&k, root, &standard.limits));
	make_ready(&k);
	other->taken_ns = clock_monotonic_ns(); /* however long that took */
	CHILD_CHECK(makes_beside(&k, root, &standard.limits));
	other->taken_ns -= UINT64_C(1000000000); /* it has been there for long */
	CHILD_CHECK(!makes_beside(&k, root, &standard.limits));
	boxes_retire(&k, other);
	CHILD_CHECK(!makes_beside(&k, root, &standard.limits));
	real_close(&k);
}

TEST(nothing_is_made_beside_a_run_that_comes_alone)
{
	SCRATCH(d);

	IN_CHILD(make_beside, d.path);
}

static struct boxed *take_for(struct keeper *k, const struct root *root, const struct spec *spec)
{
	struct boxed *b = NULL;

	CHILD_CHECK(boxes_take(k, root, spec, BOX_ANY_UID, &b, NULL) == 0);
	return b;
}

static void take_sealed(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	char *argv[] = { (char *)"true", NULL };
	struct spec plain, large;

	spec_init(&plain);
	plain.argv = argv;
	large = plain;
	large.limits.tmp_bytes *= 2;
	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	k.favours = SEAL_PLAIN;
	make_ready(&k);
	CHILD_CHECK(k.ready.boxes->seal == SEAL_PLAIN && k.ready.boxes->next->seal == SEAL_NONE);
	struct boxed *a = take_for(&k, root, &large);
	CHILD_CHECK(a->is_ahead && a->seal == SEAL_NONE);
	struct boxed *b = take_for(&k, root, &large); /* that which is left is not for it */
	CHILD_CHECK(!b->is_ahead && k.ready.n == 1);
	struct boxed *c = take_for(&k, root, &plain);
	CHILD_CHECK(c->is_ahead && c->seal == SEAL_PLAIN);

	make_ready(&k);
	struct boxed *d = take_for(&k, root, &plain);
	struct boxed *e = take_for(&k, root, &plain); /* any is good for it */
	CHILD_CHECK(d->seal == SEAL_PLAIN && e->is_ahead && e->seal == SEAL_NONE);
	struct boxed *f = take_for(&k, root, &large);
	make_ready(&k);
	CHILD_CHECK(k.ready.boxes->seal == SEAL_NONE && k.ready.boxes->next->seal == SEAL_NONE);
	struct boxed *all[] = { a, b, c, d, e, f };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		boxes_retire(&k, all[i]);
	real_close(&k);
}

TEST(a_plain_run_takes_one_that_is_sealed)
{
	SCRATCH(d);

	IN_CHILD(take_sealed, d.path);
}

/* What a run with executable files leaves behind is for more of its kind, and gives way when
 * other runs come. */
static void seal_for_exec(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	char *argv[] = { (char *)"true", NULL };
	struct spec plain, own;

	spec_init(&plain);
	plain.argv = argv;
	own = plain;
	own.exec = true;
	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	k.favours = SEAL_EXEC;
	make_ready(&k);
	CHILD_CHECK(k.ready.boxes->seal == SEAL_EXEC && k.ready.boxes->next->seal == SEAL_NONE);
	struct boxed *a = take_for(&k, root, &own);
	CHILD_CHECK(a->is_ahead && a->seal == SEAL_EXEC);
	make_ready(&k);
	struct boxed *b = take_for(&k, root, &plain);
	CHILD_CHECK(b->is_ahead && b->seal == SEAL_NONE); /* never one that is sealed for others */
	make_ready(&k);
	struct boxed *c = take_for(&k, root, &plain);
	CHILD_CHECK(c->is_ahead && c->seal != SEAL_EXEC);
	boxes_retire(&k, a);
	boxes_retire(&k, b);
	boxes_retire(&k, c);
	real_close(&k);
}

TEST(a_run_takes_one_that_is_sealed_for_its_kind)
{
	SCRATCH(d);

	IN_CHILD(seal_for_exec, d.path);
}

/* Have `n` made, within a limit of as many, and as often as it takes. */
static void fill(struct keeper *k, size_t n)
{
	stock_limit(&k->ready, n, 1);
	k->ready.n_wanted = n;
	k->ready.used_ns = clock_monotonic_ns();
	for (int i = 0; i < 1000 && (boxes_tend(k, true) || k->ready.n < n); i++)
		(void)usleep(1000);
	CHILD_CHECK(k->ready.n == n);
}

static size_t count_sealed(const struct keeper *k)
{
	size_t n = 0;

	for (const struct boxed *b = k->ready.boxes; b; b = b->next)
		n += b->seal != SEAL_NONE;
	return n;
}

static void need_open_ones(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	char *argv[] = { (char *)"true", NULL };
	struct spec large;

	spec_init(&large);
	large.argv = argv;
	large.limits.tmp_bytes *= 2;
	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	k.favours = SEAL_PLAIN;
	fill(&k, 4);
	CHILD_CHECK(count_sealed(&k) == 3);
	boxes_retire(&k, take_for(&k, root, &large));
	fill(&k, 4);
	CHILD_CHECK(count_sealed(&k) == 0);
	for (int i = 0; i < 4; i++) {
		struct boxed *b = take_for(&k, root, &large);

		CHILD_CHECK(b->is_ahead);
		boxes_retire(&k, b);
	}
	real_close(&k);
}

TEST(sealed_boxes_are_not_in_the_way_of_open_ones)
{
	SCRATCH(d);

	IN_CHILD(need_open_ones, d.path);
}

static void change_image(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	struct root other = { .image = "other" };

	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	k.favours = SEAL_PLAIN;
	fill(&k, 1);
	CHILD_CHECK(count_sealed(&k) == 0);
	k.ready.boxes->root = &other;
	fill(&k, 2); /* one that is open on another image is of no use */
	CHILD_CHECK(k.ready.boxes->root == root && k.ready.boxes->seal == SEAL_NONE);
	fill(&k, 3);
	CHILD_CHECK(k.ready.boxes->root == root && k.ready.boxes->seal == SEAL_PLAIN);
	k.favours = SEAL_NONE;
	fill(&k, 3);
	CHILD_CHECK(count_sealed(&k) == 0);
	for (const struct boxed *b = k.ready.boxes; b; b = b->next)
		CHILD_CHECK(b->root == root);
	real_close(&k);
}

TEST(open_ones_count_on_the_image_used_last_only)
{
	SCRATCH(d);

	IN_CHILD(change_image, d.path);
}

TEST(the_last_open_one_stays_when_there_are_too_many)
{
	SCRATCH(d);
	struct sample s;

	sample_open(&s, 0);
	CHECK_EQ(state_open(&s.k, d.path, NULL), 0);
	s.k.favourite = &s.root;
	s.k.favours = SEAL_PLAIN;
	for (int i = 0; i < 4; i++) {
		(void)close(sample_box(&s));
		s.k.ready.boxes->seal = i < 3 ? SEAL_PLAIN : SEAL_NONE;
	}
	for (int i = 0; i < 10; i++)
		(void)boxes_tend(&s.k, true);
	CHECK_EQ(s.k.ready.n, STOCK_MIN);
	CHECK(s.k.ready.boxes->seal == SEAL_NONE && s.k.ready.boxes->next->seal == SEAL_PLAIN);
	sample_close(&s);
}

static void kill_ready(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	struct spec standard;

	spec_init(&standard);
	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	make_ready(&k);
	/* Somebody kills one of those that wait. */
	struct boxed *dead = k.ready.boxes;
	CHILD_CHECK(kill(dead->box.pid, SIGKILL) == 0);
	siginfo_t info;
	CHILD_CHECK(waitid(P_PID, (id_t)dead->box.pid, &info, WEXITED | WNOWAIT) == 0);
	struct boxed *b = take(&k, root, &standard.limits);
	CHILD_CHECK(b != dead && !box_reap(&b->box));
	boxes_retire(&k, b);
	real_close(&k);
}

TEST(a_box_that_died_while_it_waited_is_not_used)
{
	SCRATCH(d);

	IN_CHILD(kill_ready, d.path);
}

static void forget(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;

	real_open(&k, ctx, &root);
	k.favourite = root;
	k.makes_ready = true;
	make_ready(&k);
	boxes_forget_root(&k, root);
	CHILD_CHECK(k.ready.n == 0 && !k.ready.boxes && !k.favourite);
	CHILD_CHECK(k.n_retired == STOCK_MIN);
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.ready.n == 0); /* nobody wants any */
	k.favourite = root;
	k.stopping = true;
	(void)boxes_tend(&k, true);
	CHILD_CHECK(k.ready.n == 0); /* nor while stopping */
	real_close(&k);
}

TEST(no_more_boxes_are_made_of_a_root_that_goes)
{
	SCRATCH(d);

	IN_CHILD(forget, d.path);
}

/* It comes late, when runs are on another image already. */
TEST(one_that_can_not_be_made_is_of_its_image_only)
{
	struct sample s;
	struct root other = { .image = "other" };

	sample_open(&s, 0);
	s.k.favourite = &s.root;
	s.k.makes_ready = true;
	boxes_add_ready(&s.k, sample_order(&other), "a test says so");
	CHECK(s.k.favourite == &s.root);
	boxes_add_ready(&s.k, sample_order(&s.root), "a test says so");
	CHECK(!s.k.favourite);
	CHECK_EQ(s.k.n_retired, 2);
	sample_close(&s);
}

/* Whoever comes meanwhile is heard in between. */
TEST(retired_boxes_are_buried_one_by_one)
{
	SCRATCH(d);
	struct sample s;
	size_t n_turns = 0;

	sample_open(&s, 0);
	CHECK_EQ(state_open(&s.k, d.path, NULL), 0);
	for (int i = 0; i < 3; i++) {
		siginfo_t info;

		(void)close(sample_box(&s));
		CHECK_EQ(kill(s.k.ready.boxes->box.pid, SIGKILL), 0);
		CHECK_EQ(
			waitid(P_PID, (id_t)s.k.ready.boxes->box.pid, &info, WEXITED | WNOWAIT), 0);
	}
	boxes_forget_root(&s.k, &s.root);
	CHECK_EQ(s.k.n_retired, 3);
	for (size_t n = 3; n > 0 && n_turns < 1000; n_turns++) {
		bool is_more = boxes_tend(&s.k, true);

		CHECK(s.k.n_retired + 1 >= n);
		CHECK(is_more || s.k.n_retired == 0);
		n = s.k.n_retired;
		(void)usleep(1000);
	}
	CHECK_EQ(s.k.n_retired, 0);
	CHECK(!s.k.retired && n_turns >= 3);
	sample_close(&s);
}

static ino_t net_of(const struct boxed *b)
{
	struct stat st;

	CHILD_CHECK(fstat(b->box.net_fd, &st) == 0);
	return st.st_ino;
}

/* End it; then which network the next box has. */
static ino_t next_net(struct keeper *k, const struct root *root, struct boxed *b)
{
	struct spec standard;

	spec_init(&standard);
	boxes_retire(k, b);
	for (int i = 0; i < 1000 && k->n_retired > 0; i++) {
		(void)boxes_tend(k, true);
		(void)usleep(1000);
	}
	CHILD_CHECK(k->n_retired == 0);
	(void)usleep((NETS_SETTLE_MS + 1) * 1000);
	b = take(k, root, &standard.limits);
	ino_t net = net_of(b);
	boxes_retire(k, b);
	return net;
}

static void use_nets(void *ctx)
{
	struct keeper k;
	struct root *root = NULL;
	struct spec standard;

	spec_init(&standard);
	real_open(&k, ctx, &root);
	k.favourite = NULL; /* none are made ahead */
	struct boxed *a = take(&k, root, &standard.limits);
	struct boxed *b = take(&k, root, &standard.limits);
	k.favourite = NULL;
	ino_t net = net_of(a);
	ino_t other = net_of(b);
	CHILD_CHECK(net != other); /* never two in one */
	CHILD_CHECK(next_net(&k, root, a) == net);
	k.favourite = NULL;
	/* While one is kept open its number is not given to another. */
	AUTO_FD held = dup(b->box.net_fd);
	CHILD_CHECK(held >= 0 && nets_enter(held) == 0);
	AUTO_FD left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	nets_leave(k.host.nets);
	CHILD_CHECK(left >= 0 && next_net(&k, root, b) != other);
	real_close(&k);
}

TEST(only_a_network_without_a_trace_is_used_again)
{
	SCRATCH(d);

	IN_CHILD(use_nets, d.path);
}

TEST(what_is_not_executed_is_no_python)
{
	char *none[] = { NULL };
	char *python[] = { (char *)"/usr/bin/python3", NULL };
	struct spec s = { .image = "host", .argv = none, .deed = DEED_FILES };

	CHECK(!boxes_is_python(&s));
	s.argv = NULL;
	CHECK(!boxes_is_python(&s));
	s.deed = DEED_EXECUTE;
	s.argv = python;
	CHECK(boxes_is_python(&s));
	s.tty = true;
	CHECK(!boxes_is_python(&s));
}

TESTS(UNIT(retired_boxes_are_buried_one_by_one), UNIT(sealed_boxes_are_not_in_the_way_of_open_ones),
	UNIT(open_ones_count_on_the_image_used_last_only),
	UNIT(the_last_open_one_stays_when_there_are_too_many),
	UNIT(a_plain_run_takes_one_that_is_sealed),
	UNIT(a_run_takes_one_that_is_sealed_for_its_kind), UNIT(what_is_not_executed_is_no_python),
	UNIT(boxes_are_taken_made_ahead_and_retired),
	UNIT(nothing_is_made_beside_a_run_that_comes_alone),
	UNIT(one_that_can_not_be_made_is_of_its_image_only),
	UNIT(a_box_that_died_while_it_waited_is_not_used),
	UNIT(no_more_boxes_are_made_of_a_root_that_goes),
	UNIT(only_a_network_without_a_trace_is_used_again))
