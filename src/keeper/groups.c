/* Making and removing a cgroup takes longer than anything else a run needs of the
 * kernel, so both happen when nobody waits: a few groups are made ahead, and used
 * ones are removed when the loop is idle. No group serves twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "box/cgroup.h"
#include "keeper/keeper_private.h"

static int make_group(struct keeper *k, struct cgroup **ret, struct err *err)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "box-%llu", (unsigned long long)k->n_groups++);
	return cgroup_new(k->cgroups, name, ret, err);
}

static void push(struct group **list, struct cgroup *cgroup)
{
	struct group *g = xnew(struct group);

	g->cgroup = cgroup;
	g->next = *list;
	*list = g;
}

static struct cgroup *pop(struct group **list)
{
	struct group *g = *list;

	if (!g)
		return NULL;
	struct cgroup *cgroup = g->cgroup;
	*list = g->next;
	free(g);
	return cgroup;
}

struct cgroup *groups_take(struct keeper *k, struct err *err)
{
	struct cgroup *cgroup = pop(&k->spare_groups);

	if (cgroup) {
		k->n_spare--;
		return cgroup;
	}
	return make_group(k, &cgroup, err) < 0 ? NULL : cgroup;
}

void groups_give_back(struct keeper *k, struct cgroup *cgroup)
{
	if (cgroup)
		push(&k->old_groups, cgroup);
}

/* Try each old group once; those still busy stay in the list. */
static bool remove_some(struct keeper *k)
{
	struct group *old = k->old_groups;
	struct cgroup *cgroup;

	k->old_groups = NULL;
	while ((cgroup = pop(&old))) {
		if (cgroup_remove(cgroup) == -EBUSY)
			push(&k->old_groups, cgroup);
		else
			cgroup_free(cgroup);
	}
	return k->old_groups != NULL;
}

bool groups_tend(struct keeper *k)
{
	struct cgroup *cgroup;

	if (k->n_spare < SPARE_GROUPS_MAX && !k->stopping) {
		if (make_group(k, &cgroup, NULL) == 0) {
			push(&k->spare_groups, cgroup);
			k->n_spare++;
		}
	}
	return remove_some(k);
}

void groups_fini(struct keeper *k)
{
	struct cgroup *cgroup;

	while ((cgroup = pop(&k->spare_groups)))
		push(&k->old_groups, cgroup);
	k->n_spare = 0;
	/* Everything in them is dead; the kernel needs a moment to let go. */
	for (int i = 0; i < 200 && remove_some(k); i++)
		(void)usleep(5000);
	while ((cgroup = pop(&k->old_groups)))
		cgroup_free(cgroup);
}
