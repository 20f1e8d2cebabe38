/* Boxes made ahead and boxes that are done with: whatever takes long happens while
 * nobody waits for it. A box serves one run. When it is over, the run is reported
 * at once, while the box is still being reaped and its cgroup removed here.
 *
 * A ready box is of the image used last: it has its namespaces, mounts and cgroup,
 * and its init waits for a specification. */
#include "keeper/boxes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/net.h"
#include "box/root.h"
#include "keeper/keeper_private.h"

/* A run that came within this time of the one before it did not come alone. */
#define CROWDED_NS UINT64_C(20000000)

static bool list_has_uid(const struct boxed *list, uid_t uid)
{
	for (; list; list = list->next) {
		if (list->box.uid == uid)
			return true;
	}
	return false;
}

static bool workspace_has_uid(const struct workspace *w, uid_t uid)
{
	for (; w; w = w->next) {
		if (w->uid == uid)
			return true;
	}
	return false;
}

uid_t boxes_choose_uid(const struct keeper *k)
{
	uint32_t bits;

	if (!k->host.privileged)
		return geteuid();
	do {
		if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
			abort();
		bits = BOX_UID_FIRST + bits % BOX_UID_COUNT;
	} while (list_has_uid(k->ready.boxes, bits) || list_has_uid(k->clones.boxes, bits) ||
		 list_has_uid(k->busy, bits) || list_has_uid(k->retired, bits) ||
		 list_has_uid(k->making.orders.first, bits) ||
		 list_has_uid(templates_orders(k)->first, bits) ||
		 workspace_has_uid(k->workspaces, bits));
	return bits;
}

static struct boxed *pop(struct boxed **list)
{
	struct boxed *b = *list;

	if (b)
		*list = b->next;
	return b;
}

static void push(struct boxed **list, struct boxed *b)
{
	b->next = *list;
	*list = b;
}

static void unlink_from(struct boxed **list, const struct boxed *b)
{
	for (; *list; list = &(*list)->next) {
		if (*list == b) {
			*list = b->next;
			return;
		}
	}
}

static int make_group(
	struct keeper *k, const struct limits *limits, struct boxed *b, struct err *err)
{
	char name[32];

	b->limits = *limits;
	(void)snprintf(name, sizeof(name), "box-%llu", (unsigned long long)k->n_groups++);
	int r = cgroup_take(k->cgroups, name, &b->cgroup, err);
	return r < 0 ? r : cgroup_set_limits(b->cgroup, &b->limits, err);
}

static struct box_order order_for(const struct boxed *b, uid_t uid)
{
	struct box_order order = {
		.root = b->root, .cgroup_fd = -1, .uid = uid, .is_sealed = b->is_sealed
	};

	if (b->cgroup) {
		order.cgroup_fd = cgroup_clone_fd(b->cgroup);
		order.n_join_fds = cgroup_join_fds(b->cgroup, &order.join_fds);
	}
	return order;
}

static struct boxed *new_boxed(const struct root *root)
{
	struct boxed *b = xnew(struct boxed);

	b->root = root;
	b->box = (struct box){ .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	return b;
}

static int make_box(struct keeper *k, const struct root *root, const struct limits *limits,
	uid_t uid, struct boxed **ret, struct err *err)
{
	struct boxed *b = new_boxed(root);
	int r = make_group(k, limits, b, err);

	if (r == 0) {
		struct box_order order = order_for(b, uid);
		r = box_start(&k->host, &order, &b->box, err);
	}
	if (r < 0) {
		boxes_retire(k, b);
		return r;
	}
	cgroup_close_join(b->cgroup);
	*ret = b;
	return 0;
}

static struct warm_stock *tally_of(struct stock *s, const struct root *root)
{
	return &s->tally[boxes_image_of(root)];
}

static void remove_waiting(struct stock *s, const struct boxed *b)
{
	unlink_from(&s->boxes, b);
	s->n--;
	tally_of(s, b->root)->waiting--;
}

static void add_waiting(struct stock *s, struct boxed *b)
{
	push(&s->boxes, b);
	s->n++;
	tally_of(s, b->root)->waiting++;
}

static struct boxed *find_waiting(
	struct keeper *k, struct stock *s, const struct root *root, bool is_sealed)
{
	for (struct boxed *b = s->boxes, *next; b; b = next) {
		next = b->next;
		if (b->root != root || b->is_sealed != is_sealed)
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

static bool limits_differ(const struct limits *a, const struct limits *b)
{
	return a->memory_bytes != b->memory_bytes || a->cpu_milli != b->cpu_milli ||
	       a->pids != b->pids;
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
	struct boxed *b = spec_is_plain(spec) ? find_waiting(k, s, root, true) : NULL;

	if (!b)
		b = find_waiting(k, s, root, false);
	stock_count(s, boxes_image_of(root), b != NULL, clock_monotonic_ns());
	return b;
}

static struct boxed *take_any_ready(
	struct keeper *k, const struct root *root, const struct spec *spec)
{
	struct boxed *b = NULL;

	if (k->warm.warmth == WARM_LANGUAGES && may_be_clone(spec))
		b = take_waiting(k, &k->clones, root, spec);
	return b ? b : take_waiting(k, &k->ready, root, spec);
}

int boxes_take(struct keeper *k, const struct root *root, const struct spec *spec, uid_t uid,
	struct boxed **ret, struct err *err)
{
	const struct limits *limits = &spec->limits;
	/* One that was made ahead has a user of its own. */
	bool any = uid == BOX_ANY_UID || !k->host.privileged;
	struct boxed *b = any ? take_any_ready(k, root, spec) : NULL;
	int r = b ? 0 : make_box(k, root, limits, any ? boxes_choose_uid(k) : uid, &b, err);

	/* Who ran two will run more. */
	k->makes_ready = k->warm.warmth != WARM_OFF && (k->makes_ready || k->favourite == root);
	k->favourite = root;
	k->favours_plain = spec_is_plain(spec);
	if (r < 0)
		return r;
	b->taken_ns = clock_monotonic_ns();
	push(&k->busy, b);
	if (limits_differ(limits, &b->limits))
		r = cgroup_set_limits(b->cgroup, limits, err);
	if (r < 0) {
		boxes_retire(k, b);
		return r;
	}
	k->favourite_limits = *limits;
	*ret = b;
	return 0;
}

void boxes_kill(const struct boxed *b)
{
	if (b->cgroup)
		(void)cgroup_kill(b->cgroup);
	box_kill(&b->box);
}

void boxes_retire(struct keeper *k, struct boxed *b)
{
	if (!b)
		return;
	unlink_from(&k->busy, b);
	box_kill(&b->box);
	push(&k->retired, b);
	k->n_retired++;
}

static void free_boxed(struct keeper *k, struct boxed *b)
{
	if (b->box.pid == 0 && b->box.net_fd >= 0 && b->template_id)
		templates_give_net(k, b->template_id, take_fd(&b->box.net_fd));
	else if (b->box.pid == 0 && b->box.net_fd >= 0)
		nets_give(k->host.nets, take_fd(&b->box.net_fd));
	box_fini(&b->box);
	cgroup_free(b->cgroup);
	free(b);
}

/* False while something in it is still dying. */
static bool bury(struct keeper *k, struct boxed *b)
{
	if (!box_reap(&b->box))
		return false;
	if (b->cgroup && cgroup_give(k->cgroups, b->cgroup) == -EBUSY)
		return false;
	b->cgroup = NULL;
	free_boxed(k, b);
	return true;
}

/* Try to be rid of so many retired boxes; those still dying stay. False when none is left. */
static bool bury_retired(struct keeper *k, size_t max)
{
	for (struct boxed **at = &k->retired; *at && max > 0;) {
		struct boxed *b = *at;
		struct boxed *next = b->next;

		if (!bury(k, b)) {
			at = &b->next;
			continue;
		}
		*at = next;
		k->n_retired--;
		max--;
	}
	return k->retired;
}

static bool is_open_on(const struct boxed *b, const struct root *root)
{
	return b->root == root && !b->is_sealed;
}

static size_t count_open(const struct boxed *list, const struct root *root)
{
	size_t n = 0;

	for (; list; list = list->next)
		n += is_open_on(list, root);
	return n;
}

/* Sealed, or on another image. */
static struct boxed *find_other(const struct stock *s, const struct root *root)
{
	struct boxed *b = s->boxes;

	while (b && is_open_on(b, root))
		b = b->next;
	return b;
}

/* As long as runs are plain, all but one of those that wait are sealed. */
static bool is_to_be_sealed(const struct keeper *k, const struct stock *s, const struct orders *o,
	const struct root *root)
{
	return k->favours_plain && count_open(s->boxes, root) + count_open(o->first, root) > 0;
}

/* How many of these `n` suit a run like the last one. One that is not plain needs an open box. */
static size_t count_suiting(
	const struct keeper *k, const struct boxed *list, size_t n, const struct root *root)
{
	return k->favours_plain ? n : count_open(list, root);
}

static bool wants_more(const struct keeper *k, const struct stock *s, const struct orders *o,
	const struct root *root)
{
	size_t n = count_suiting(k, s->boxes, s->n, root) + count_suiting(k, o->first, o->n, root);

	return !k->stopping && n < stock_wanted(s, clock_monotonic_ns()) &&
	       (s->n + o->n < s->n_max || find_other(s, root));
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
		retire_waiting(k, s, find_other(s, root));
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
	struct boxed *b = new_boxed(k->favourite);

	b->asked_ns = clock_monotonic_ns();
	b->is_sealed = is_to_be_sealed(k, &k->ready, making_orders(k), k->favourite);
	make_room(k, &k->ready, making_orders(k), k->favourite);
	int r = make_group(k, &k->favourite_limits, b, &err);
	if (r < 0) {
		boxes_add_ready(k, b, err.text);
		return;
	}
	struct box_order order = order_for(b, boxes_choose_uid(k));
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
	struct boxed *b = new_boxed(k->host_root);

	b->asked_ns = clock_monotonic_ns();
	b->is_sealed = is_to_be_sealed(k, &k->clones, templates_orders(k), k->host_root);
	make_room(k, &k->clones, templates_orders(k), k->host_root);
	int r = make_group(k, &k->favourite_limits, b, &err);
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
	struct boxed *other = find_other(s, root);

	if (!other || (k->favours_plain && count_open(s->boxes, root) > 1))
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
	return count_suiting(k, s->boxes, s->n, root) == 0 || is_crowded(k);
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
		(void)bury_retired(k, 1);
	boxes_tell(k);
	return wants_ready(k) || wants_warm(k) || k->n_retired > 0 || making_pending(k) ||
	       templates_orders(k)->n > 0;
}

void boxes_relieve(struct keeper *k)
{
	if (k->n_retired > RETIRED_BOXES_MAX)
		(void)bury_retired(k, SIZE_MAX);
}

int boxes_surplus_ms(const struct keeper *k)
{
	uint64_t now = clock_monotonic_ns();
	int ready = stock_surplus_ms(&k->ready, now);
	int clones = stock_surplus_ms(&k->clones, now);

	return ready < 0 || (clones >= 0 && clones < ready) ? clones : ready;
}

bool boxes_run_on_template(const struct keeper *k, uint64_t id)
{
	const struct boxed *b = k->busy;

	while (b && b->template_id != id)
		b = b->next;
	return b;
}

bool boxes_use_root(const struct keeper *k, const struct root *root)
{
	for (const struct boxed *b = k->busy; b; b = b->next) {
		if (b->root == root)
			return true;
	}
	return false;
}

static bool list_has_pid(const struct boxed *list, pid_t pid)
{
	while (list && list->box.pid != pid)
		list = list->next;
	return list;
}

bool boxes_have(const struct keeper *k, pid_t pid)
{
	return list_has_pid(k->ready.boxes, pid) || list_has_pid(k->busy, pid) ||
	       list_has_pid(k->retired, pid);
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

void boxes_fini(struct keeper *k)
{
	struct boxed *b;

	making_fini(k);
	while ((b = pop(&k->ready.boxes)) || (b = pop(&k->clones.boxes)))
		boxes_retire(k, b);
	k->ready.n = k->clones.n = 0;
	memset(k->ready.tally, 0, sizeof(k->ready.tally));
	memset(k->clones.tally, 0, sizeof(k->clones.tally));
	templates_fini(k);
	/* All are dying; the kernel needs a moment to let go of their groups. */
	for (int i = 0; i < 400 && (bury_retired(k, SIZE_MAX) || making_seek_strays(k)); i++)
		(void)usleep(i < 20 ? 500 : 5000);
	while ((b = pop(&k->retired)))
		free_boxed(k, b);
}
