/* A box from its making to its burial. It serves one run. When that is over, the run is
 * reported at once, while the box is still being reaped and its cgroup removed here:
 * whatever takes long happens while nobody waits for it. */
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
#include "keeper/boxes_private.h"
#include "keeper/keeper_private.h"

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

void boxed_push(struct boxed **list, struct boxed *b)
{
	b->next = *list;
	*list = b;
}

void boxed_unlink(struct boxed **list, const struct boxed *b)
{
	for (; *list; list = &(*list)->next) {
		if (*list == b) {
			*list = b->next;
			return;
		}
	}
}

int boxes_make_group(
	struct keeper *k, const struct limits *limits, struct boxed *b, struct err *err)
{
	char name[32];

	b->limits = *limits;
	(void)snprintf(name, sizeof(name), "box-%llu", (unsigned long long)k->n_groups++);
	int r = cgroup_take(k->cgroups, name, &b->cgroup, err);
	return r < 0 ? r : cgroup_set_limits(b->cgroup, &b->limits, err);
}

struct box_order boxes_order_for(const struct boxed *b, uid_t uid)
{
	struct box_order order = { .root = b->root, .cgroup_fd = -1, .uid = uid, .seal = b->seal };

	if (b->cgroup) {
		order.cgroup_fd = cgroup_clone_fd(b->cgroup);
		order.n_join_fds = cgroup_join_fds(b->cgroup, &order.join_fds);
	}
	return order;
}

struct boxed *boxes_new(const struct root *root)
{
	struct boxed *b = xnew(struct boxed);

	b->root = root;
	b->box = (struct box){ .pid_fd = -1, .control_fd = -1, .net_fd = -1 };
	return b;
}

static int make_box(struct keeper *k, const struct root *root, const struct limits *limits,
	uid_t uid, struct boxed **ret, struct err *err)
{
	struct boxed *b = boxes_new(root);
	int r = boxes_make_group(k, limits, b, err);

	if (r == 0) {
		struct box_order order = boxes_order_for(b, uid);
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

static bool limits_differ(const struct limits *a, const struct limits *b)
{
	return a->memory_bytes != b->memory_bytes || a->cpu_milli != b->cpu_milli ||
	       a->pids != b->pids;
}

int boxes_take(struct keeper *k, const struct root *root, const struct spec *spec, uid_t uid,
	struct boxed **ret, struct err *err)
{
	const struct limits *limits = &spec->limits;
	/* One that was made ahead has a user of its own. */
	bool any = uid == BOX_ANY_UID || !k->host.privileged;
	struct boxed *b = any ? boxes_take_waiting(k, root, spec) : NULL;
	int r = b ? 0 : make_box(k, root, limits, any ? boxes_choose_uid(k) : uid, &b, err);

	/* Who ran two will run more. */
	k->makes_ready = k->warm.warmth != WARM_OFF && (k->makes_ready || k->favourite == root);
	k->favourite = root;
	k->favours = box_seal_for(spec);
	if (r < 0)
		return r;
	b->taken_ns = clock_monotonic_ns();
	boxed_push(&k->busy, b);
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

int boxes_freeze(struct boxed *b)
{
	int r = b->cgroup ? cgroup_freeze(b->cgroup, true) : -EOPNOTSUPP;

	if (r == 0)
		b->is_frozen = true;
	return r;
}

void boxes_thaw(struct boxed *b)
{
	if (b->is_frozen && cgroup_freeze(b->cgroup, false) == 0)
		b->is_frozen = false;
}

void boxes_kill(struct boxed *b)
{
	boxes_thaw(b);
	if (b->cgroup)
		(void)cgroup_kill(b->cgroup);
	box_kill(&b->box);
}

void boxes_retire(struct keeper *k, struct boxed *b)
{
	if (!b)
		return;
	boxed_unlink(&k->busy, b);
	boxes_thaw(b); /* others have its group after it */
	box_kill(&b->box);
	boxed_push(&k->retired, b);
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

bool boxes_bury(struct keeper *k, size_t max)
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

void boxes_relieve(struct keeper *k)
{
	if (k->n_retired > RETIRED_BOXES_MAX)
		(void)boxes_bury(k, SIZE_MAX);
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

void boxes_fini(struct keeper *k)
{
	struct boxed *b;

	making_fini(k);
	boxes_forget_waiting(k);
	templates_fini(k);
	/* All are dying; the kernel needs a moment to let go of their groups. */
	for (int i = 0; i < 400 && (boxes_bury(k, SIZE_MAX) || making_seek_strays(k)); i++)
		(void)usleep(i < 20 ? 500 : 5000);
	while ((b = pop(&k->retired)))
		free_boxed(k, b);
}
