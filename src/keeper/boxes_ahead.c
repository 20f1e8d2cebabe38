/* The boxes that wait for a run, made ahead while nobody waits for them.
 *
 * A ready box is of the image used last: it has its namespaces, mounts and cgroup,
 * and its init waits for a specification. A clone is the same of a template. */
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/root.h"
#include "keeper/boxes.h"
#include "keeper/boxes_private.h"
#include "keeper/keeper_private.h"

/* A run that came within this time of the one before it did not come alone. */
#define CROWDED_NS UINT64_C(20000000)

static struct warm_stock *tally_of(struct stock *s, const struct root *root)
{
	return &s->tally[boxes_image_of(root)];
}

static void remove_waiting(struct stock *s, const struct boxed *b)
{
	boxed_unlink(&s->boxes, b);
	s->n--;
	tally_of(s, b->root)->waiting--;
}

static void add_waiting(struct stock *s, struct boxed *b)
{
	boxed_push(&s->boxes, b);
	s->n++;
	tally_of(s, b->root)->waiting++;
}

static struct boxed *find_waiting(
	struct keeper *k, struct stock *s, const struct root *root, enum seal seal)
{
	for (struct boxed *b = s->boxes, *next; b; b = next) {
		next = b->next;
		if (b->root != root || b->seal != seal)
			continue;
		bool dead = box_reap(&b->box);
		remove_waiting(s, b);
		b->is_ahead = true;
		if (!dead) {
			/* Whatever rang while it waited was not about its run. */
			(void)cgroup_ack_event(b->cgroup);
			return b;
		}
		boxes_retire(k, b); /* somebody killed it while it waited */
	}
	return NULL;
}

enum stock_image boxes_image_of(const struct root *root)
{
	return streq(root->image, "host") ? STOCK_HOST : STOCK_IMPORTED;
}

bool boxes_is_python(const struct spec *s)
{
	/* Only what is executed has arguments. */
	if (s->deed != DEED_EXECUTE || s->tty || !streq(s->image, "host"))
		return false;
	const char *slash = strrchr(s->argv[0], '/');
	return str_after(slash ? slash + 1 : s->argv[0], "python") != NULL;
}

/* The box looks closer, and executes what is not for a clone. */
static bool may_be_clone(const struct spec *s)
{
	return boxes_is_python(s) && s->argv[1] &&
	       (s->argv[1][0] != '-' || streq(s->argv[1], "-c"));
}

static struct boxed *take_waiting(
	struct keeper *k, struct stock *s, const struct root *root, const struct spec *spec)
{
	struct boxed *b = find_waiting(k, s, root, box_seal_for(spec));

	if (!b)
		b = find_waiting(k, s, root, SEAL_NONE);
	stock_count(s, boxes_image_of(root), b != NULL, clock_monotonic_ns());
	return b;
}

struct boxed *boxes_take_waiting(struct keeper *k, const struct root *root, const struct spec *spec)
{
	struct boxed *b = NULL;

	if (k->warm.warmth == WARM_LANGUAGES && may_be_clone(spec))
		b = take_waiting(k, &k->clones, root, spec);
	return b ? b : take_waiting(k, &k->ready, root, spec);
}

static bool is_open_on(const struct boxed *b, const struct root *root)
{
	return root && b->root == root && b->seal == SEAL_NONE;
}

static size_t count_open(const struct boxed *list, const struct root *root)
{
	size_t n = 0;

	for (; list; list = list->next)
		n += is_open_on(list, root);
	return n;
}

static bool is_sealed_for_others(const struct keeper *k, const struct boxed *b)
{
	return b->seal != SEAL_NONE && b->seal != k->favours;
}

/* Sealed, or on another image; first one that does not suit a run like the last one. */
static struct boxed *find_other(
	const struct keeper *k, const struct stock *s, const struct root *root)
{
	struct boxed *b = s->boxes;

	while (b && !is_sealed_for_others(k, b))
		b = b->next;
	if (b)
		return b;
	b = s->boxes;
	while (b && is_open_on(b, root))
		b = b->next;
	return b;
}

/* As long as runs are plain, all but one of those that wait are sealed for them. */
static enum seal choose_seal(const struct keeper *k, const struct stock *s, const struct orders *o,
	const struct root *root)
{
	size_t n_open = count_open(s->boxes, root) + count_open(o->first, root);

	return n_open > 0 ? k->favours : SEAL_NONE;
}

/* How many of them suit a run like the last one. One that is not plain needs an open box. */
static size_t count_suiting(
	const struct keeper *k, const struct boxed *list, const struct root *root)
{
	size_t n = 0;

	if (k->favours == SEAL_NONE)
		return count_open(list, root);
	for (; list; list = list->next)
		n += !is_sealed_for_others(k, list);
	return n;
}

static bool wants_more(const struct keeper *k, const struct stock *s, const struct orders *o,
	const struct root *root)
{
	size_t n = count_suiting(k, s->boxes, root) + count_suiting(k, o->first, root);

	return !k->stopping && n < stock_wanted(s, clock_monotonic_ns()) &&
	       (s->n + o->n < s->n_max || find_other(k, s, root));
}

static void retire_waiting(struct keeper *k, struct stock *s, struct boxed *b)
{
	remove_waiting(s, b);
	boxes_retire(k, b);
}

/* For one more, in the place of one that does not suit. */
static void make_room(
	struct keeper *k, struct stock *s, const struct orders *o, const struct root *root)
{
	if (s->n + o->n >= s->n_max)
		retire_waiting(k, s, find_other(k, s, root));
}

static bool wants_ready(const struct keeper *k)
{
	return k->favourite && k->makes_ready &&
	       wants_more(k, &k->ready, making_orders(k), k->favourite);
}

static void add_made(struct stock *s, struct boxed *b)
{
	add_waiting(s, b);
	tally_of(s, b->root)->made++;
	tally_of(s, b->root)->made_us += (clock_monotonic_ns() - b->asked_ns) / 1000;
}

void boxes_add_ready(struct keeper *k, struct boxed *b, const char *why)
{
	if (!why && b->root && k->makes_ready) {
		add_made(&k->ready, b);
		return;
	}
	const struct root *root = b->root;
	boxes_retire(k, b);
	if (!why)
		return;
	log_warn("cannot make a box ahead, ignoring: %s", why);
	if (k->favourite == root)
		k->favourite = NULL; /* the next run tries again, and says so */
}

static void make_ready(struct keeper *k)
{
	struct err err = { 0 };
	struct boxed *b = boxes_new(k->favourite);

	b->asked_ns = clock_monotonic_ns();
	b->seal = choose_seal(k, &k->ready, making_orders(k), k->favourite);
	make_room(k, &k->ready, making_orders(k), k->favourite);
	int r = boxes_make_group(k, &k->favourite_limits, b, &err);
	if (r < 0) {
		boxes_add_ready(k, b, err.text);
		return;
	}
	struct box_order order = boxes_order_for(b, boxes_choose_uid(k));
	bool is_asked = making_ask(k, b, &order, &err) == 0;
	if (!is_asked)
		r = box_start(&k->host, &order, &b->box, &err);
	cgroup_close_join(b->cgroup);
	if (!is_asked)
		boxes_add_ready(k, b, r < 0 ? err.text : NULL);
}

/* Those on `root`, or all if it is NULL. */
static void forget_waiting(struct keeper *k, struct stock *s, const struct root *root)
{
	for (struct boxed *b = s->boxes, *next; b; b = next) {
		next = b->next;
		if (root && b->root != root)
			continue;
		retire_waiting(k, s, b);
	}
}

void boxes_forget_clones(struct keeper *k)
{
	forget_waiting(k, &k->clones, NULL);
}

void boxes_set_warm(struct keeper *k, const struct warm *warm)
{
	bool is_other = !streq(k->warm.imports, warm->imports);

	k->warm = *warm;
	/* Half for each kind; a template itself is what makes its clones small. */
	stock_limit(&k->ready, warm->memory_bytes / 2, BOX_WAITING_BYTES);
	stock_limit(&k->clones, warm->memory_bytes / 2, CLONE_WAITING_BYTES);
	if (is_other || warm->warmth != WARM_LANGUAGES) {
		templates_dismiss(k);
		boxes_forget_clones(k);
	}
	if (warm->warmth == WARM_OFF)
		forget_waiting(k, &k->ready, NULL);
	/* Who asks for it is about to use it. */
	k->makes_ready = warm->warmth != WARM_OFF;
}

void boxes_add_warm(struct keeper *k, struct boxed *b)
{
	add_made(&k->clones, b);
}

static bool wants_warm(const struct keeper *k)
{
	return k->warm.warmth == WARM_LANGUAGES && templates_ready(k) &&
	       wants_more(k, &k->clones, templates_orders(k), k->host_root);
}

/* The template does it while we go on. */
static void make_warm(struct keeper *k)
{
	struct err err = { 0 };
	struct boxed *b = boxes_new(k->host_root);

	b->asked_ns = clock_monotonic_ns();
	b->seal = choose_seal(k, &k->clones, templates_orders(k), k->host_root);
	make_room(k, &k->clones, templates_orders(k), k->host_root);
	int r = boxes_make_group(k, &k->favourite_limits, b, &err);
	if (r == 0)
		r = templates_ask(k, b, boxes_choose_uid(k), &err);
	if (r < 0) {
		boxes_retire(k, b);
		templates_fail(k, err.text);
	}
}

/* The first to go: one that does not suit; else any, but not the last that is open. */
static struct boxed *find_surplus(
	const struct keeper *k, const struct stock *s, const struct root *root)
{
	struct boxed *other = find_other(k, s, root);

	if (!other || (k->favours != SEAL_NONE && !is_sealed_for_others(k, other) &&
			      count_open(s->boxes, root) > 1))
		return s->boxes;
	return other;
}

/* One less, if there are too many. */
static bool shrink(struct keeper *k, struct stock *s, const struct root *root)
{
	if (s->n <= stock_most(s, clock_monotonic_ns()))
		return false;
	retire_waiting(k, s, find_surplus(k, s, root));
	return true;
}

/* Whether runs come at the same time. One that has been there for long, as an interpreter of a
 * session is, is not in a hurry any more. */
static bool is_crowded(const struct keeper *k)
{
	const struct boxed *before = k->busy ? k->busy->next : NULL;

	return before && clock_monotonic_ns() - before->taken_ns < CROWDED_NS;
}

/* What is made beside a run slows it down. So where one run comes alone, the next box is made
 * when that is over, unless it was the last. */
static bool is_pressed(const struct keeper *k, const struct stock *s, const struct root *root)
{
	return count_suiting(k, s->boxes, root) == 0 || is_crowded(k);
}

static bool make_one(struct keeper *k, bool quiet)
{
	if (wants_warm(k) && (quiet || is_pressed(k, &k->clones, k->host_root)))
		make_warm(k);
	else if (wants_ready(k) && (quiet || is_pressed(k, &k->ready, k->favourite)))
		make_ready(k);
	else
		return false;
	return true;
}

bool boxes_tend(struct keeper *k, bool quiet)
{
	making_tend(k);
	templates_tend(k);
	bool is_done = !make_one(k, quiet) && quiet && !shrink(k, &k->ready, k->favourite) &&
		       !shrink(k, &k->clones, k->host_root);

	/* It takes a while, and somebody may come: so one at a time. */
	if (is_done)
		(void)boxes_bury(k, 1);
	boxes_tell(k);
	return wants_ready(k) || wants_warm(k) || k->n_retired > 0 || making_pending(k) ||
	       templates_orders(k)->n > 0;
}

int boxes_surplus_ms(const struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();
	int ready = stock_surplus_ms(&k->ready, now);
	int clones = stock_surplus_ms(&k->clones, now);

	return ready < 0 || (clones >= 0 && clones < ready) ? clones : ready;
}

void boxes_forget_root(struct keeper *k, const struct root *root)
{
	forget_waiting(k, &k->ready, root);
	forget_waiting(k, &k->clones, root);
	for (struct boxed *b = k->making.orders.first; b; b = b->next) {
		if (b->root == root)
			b->root = NULL;
	}
	if (k->favourite == root)
		k->favourite = NULL;
}

void boxes_forget_waiting(struct keeper *k)
{
	forget_waiting(k, &k->ready, NULL);
	forget_waiting(k, &k->clones, NULL);
	memset(k->ready.tally, 0, sizeof(k->ready.tally));
	memset(k->clones.tally, 0, sizeof(k->clones.tally));
}
