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
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "box/net.h"
#include "box/root.h"
#include "keeper/keeper_private.h"

/* Host uids for boxes: above what any system hands out, below 2^31. */
#define UID_FIRST 0x70000000u
#define UID_MASK  0x0fffffffu

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
		bits = UID_FIRST + (bits & UID_MASK);
	} while (list_has_uid(k->ready, bits) || list_has_uid(k->busy, bits) ||
		 list_has_uid(k->retired, bits) || workspace_has_uid(k->workspaces, bits));
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

static int make_box(struct keeper *k, const struct root *root, const struct limits *limits,
	uid_t uid, struct boxed **ret, struct err *err)
{
	struct boxed *b = xnew(struct boxed);

	b->root = root;
	b->box = (struct box){ .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	int r = make_group(k, limits, b, err);
	if (r == 0)
		r = box_start(&k->host, root, b->cgroup, uid, &b->box, err);
	if (r < 0) {
		boxes_retire(k, b);
		return r;
	}
	cgroup_close_join(b->cgroup);
	*ret = b;
	return 0;
}

static struct boxed *take_ready(struct keeper *k, const struct root *root)
{
	for (struct boxed *b = k->ready, *next; b; b = next) {
		next = b->next;
		bool dead = box_reap(&b->box);

		if (b->root != root && !dead)
			continue;
		unlink_from(&k->ready, b);
		k->n_ready--;
		if (!dead)
			return b;
		boxes_retire(k, b); /* somebody killed it while it waited */
	}
	return NULL;
}

static bool limits_differ(const struct limits *a, const struct limits *b)
{
	return a->memory_bytes != b->memory_bytes || a->cpu_milli != b->cpu_milli ||
	       a->pids != b->pids;
}

int boxes_take(struct keeper *k, const struct root *root, const struct limits *limits, uid_t uid,
	struct boxed **ret, struct err *err)
{
	/* One that was made ahead has a user of its own. */
	bool any = uid == BOX_ANY_UID || !k->host.privileged;
	struct boxed *b = any ? take_ready(k, root) : NULL;
	int r = b ? 0 : make_box(k, root, limits, any ? boxes_choose_uid(k) : uid, &b, err);

	/* Who ran two will run more. */
	k->makes_ready = k->makes_ready || k->favourite == root;
	k->favourite = root;
	if (r < 0)
		return r;
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
	if (b->box.pid == 0 && b->box.net_fd >= 0)
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

/* Try to be rid of each retired box once; those still dying stay. */
static bool bury_retired(struct keeper *k)
{
	struct boxed *list = k->retired;
	struct boxed *b;

	k->retired = NULL;
	k->n_retired = 0;
	while ((b = pop(&list))) {
		if (bury(k, b))
			continue;
		push(&k->retired, b);
		k->n_retired++;
	}
	return k->retired != NULL;
}

static bool wants_ready(const struct keeper *k)
{
	return k->n_ready < READY_BOXES_MAX && k->favourite && k->makes_ready && !k->stopping;
}

static void make_ready(struct keeper *k)
{
	struct err err = { 0 };
	struct boxed *b;

	if (make_box(k, k->favourite, &k->favourite_limits, boxes_choose_uid(k), &b, &err) == 0) {
		push(&k->ready, b);
		k->n_ready++;
		return;
	}
	log_warn("cannot make a box ahead, ignoring: %s", err.text);
	k->favourite = NULL; /* the next run tries again, and says so */
}

/* Making one takes a while, in which nobody is served. So the last one is replaced
 * at once, since the next run would have to wait for it anyway; others when it has
 * been quiet for a moment. */
bool boxes_tend(struct keeper *k, bool quiet)
{
	if (wants_ready(k) && (quiet || k->n_ready == 0))
		make_ready(k);
	else if (quiet)
		(void)bury_retired(k);
	return wants_ready(k) || k->n_retired > 0;
}

void boxes_relieve(struct keeper *k)
{
	if (k->n_retired > RETIRED_BOXES_MAX)
		(void)bury_retired(k);
}

bool boxes_use_root(const struct keeper *k, const struct root *root)
{
	for (const struct boxed *b = k->busy; b; b = b->next) {
		if (b->root == root)
			return true;
	}
	return false;
}

void boxes_forget_root(struct keeper *k, const struct root *root)
{
	for (struct boxed *b = k->ready, *next; b; b = next) {
		next = b->next;
		if (b->root != root)
			continue;
		unlink_from(&k->ready, b);
		k->n_ready--;
		boxes_retire(k, b);
	}
	if (k->favourite == root)
		k->favourite = NULL;
}

void boxes_fini(struct keeper *k)
{
	struct boxed *b;

	while ((b = pop(&k->ready)))
		boxes_retire(k, b);
	k->n_ready = 0;
	/* All are dying; the kernel needs a moment to let go of their groups. */
	for (int i = 0; i < 400 && bury_retired(k); i++)
		(void)usleep(i < 20 ? 500 : 5000);
	while ((b = pop(&k->retired)))
		free_boxed(k, b);
}
