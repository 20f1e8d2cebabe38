/* The host's control groups: choosing where the parent group is made, and finding
 * out by trying what can be enforced below it. Runs once, when a keeper starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/spec.h"

static const struct {
	enum facet facet;
	enum controller controller;
} facets[] = {
	{ FACET_MEMORY, CONTROLLER_MEMORY },
	{ FACET_CPU, CONTROLLER_CPU },
	{ FACET_PIDS, CONTROLLER_PIDS },
};

/* The group on which limits are tried out, and what is tried. */
#define PROBE_NAME "probe"
static const struct limits probe_limits = {
	.memory_bytes = 64u << 20,
	.cpu_milli = 1000,
	.pids = 64,
};

int cgroup_check_name(const char *name, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	size_t size = strlen(name);

	if (size == 0 || size > CGROUP_NAME_MAX)
		return err_set(err, -EINVAL, "name of a control group has %zu characters", size);
	if (strspn(name, letters) != size)
		return err_set(err, -EINVAL, "'%s' can not be the name of a control group", name);
	return 0;
}

bool cgroup_host_swaps(void)
{
	char text[512];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/swaps", text, sizeof(text));

	/* one line is the heading; a kernel without swap has no such file */
	return n == -EFBIG || (n > 0 && strchr(text, '\n'));
}

struct offer {
	int base_fd;
	uint32_t controllers;
};

static unsigned count_bits(uint32_t mask)
{
	unsigned n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

/* Ask the bases in turn, until one offers all that is wanted; else the best. */
static int find_offer(const struct cgroup_mount *m, int root_fd, uint32_t wanted, struct offer *ret)
{
	struct cgroup_base bases[CGROUP_BASES_MAX];
	size_t n = cgroup_mount_bases(m, root_fd, bases);
	struct offer best = { .base_fd = -1 };

	for (size_t i = 0; i < n && best.controllers != wanted; i++) {
		int got = m->ops->offer(root_fd, &bases[i], wanted);

		if (got < 0 || (best.base_fd >= 0 &&
				       count_bits((uint32_t)got) <= count_bits(best.controllers)))
			continue;
		int fd = cgroup_base_open(root_fd, &bases[i]);
		if (fd < 0)
			continue;
		close_fdp(&best.base_fd);
		best = (struct offer){ fd, (uint32_t)got };
	}
	if (best.base_fd < 0)
		return -ENOENT;
	*ret = best;
	return 0;
}

/* Make the parent group where the offer says. 1 when it was made, 0 when it can
 * not be made there, or a negative errno. */
static int make_parent(struct cgroup_tree *t, const char *name, struct err *err)
{
	if (mkdirat(t->base_fd, name, 0755) < 0) {
		if (errno == EEXIST)
			return err_set(err, -EEXIST, "control group '%s' exists already", name);
		return 0;
	}
	t->parent_fd = openat(t->base_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->parent_fd < 0) {
		int r = err_errno(err, "open control group '%s'", name);

		(void)unlinkat(t->base_fd, name, AT_REMOVEDIR);
		return r;
	}
	return 1;
}

static void drop_parent(struct cgroup_tree *t, const char *name)
{
	if (t->parent_fd >= 0)
		(void)unlinkat(t->base_fd, name, AT_REMOVEDIR);
	close_fdp(&t->parent_fd);
	close_fdp(&t->base_fd);
}

/* Try all limits on a group which goes at once. True when the tree is of use: a
 * v2 one always, because it kills and counts even without a controller. */
static bool probe_tree(struct cgroup_tree *t)
{
	if (t->ops->prepare(t) < 0 || mkdirat(t->parent_fd, PROBE_NAME, 0755) < 0)
		return false;
	cgroup_tree_probe(t, PROBE_NAME, &probe_limits);
	if (unlinkat(t->parent_fd, PROBE_NAME, AT_REMOVEDIR) < 0)
		return false;
	return t->controllers != 0 || !t->ops->join_file;
}

static bool is_needed(const struct cgroup_host *h, const struct cgroup_mount *m)
{
	/* any v2 group counts processor time: no need for a hierarchy of its own */
	if (h->n_trees > 0 && h->trees[0].ops == &cgroup_v2 &&
		m->controllers == CONTROLLER_BIT(CONTROLLER_CPUACCT))
		return false;
	return h->n_trees < ARRAY_SIZE(h->trees);
}

/* Take one hierarchy into use. That it can not be is no error. */
static int add_tree(struct cgroup_host *h, const struct cgroup_mount *m, struct err *err)
{
	AUTO_FD root_fd = cgroup_mount_open(m);
	uint32_t wanted = m->controllers ? m->controllers : CONTROLLERS_LIMITS;
	struct offer offer;

	if (root_fd < 0 || !is_needed(h, m) || find_offer(m, root_fd, wanted, &offer) < 0)
		return 0;

	struct cgroup_tree *t = &h->trees[h->n_trees];
	*t = (struct cgroup_tree){
		.ops = m->ops,
		.controllers = offer.controllers,
		.base_fd = offer.base_fd,
		.parent_fd = -1,
	};
	int r = make_parent(t, h->name, err);
	if (r > 0 && probe_tree(t))
		h->n_trees++;
	else
		drop_parent(t, h->name);
	return r < 0 ? r : 0;
}

static uint64_t sum_facets(const struct cgroup_host *h)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < h->n_trees; i++)
		for (size_t k = 0; k < ARRAY_SIZE(facets); k++)
			if (h->trees[i].controllers & CONTROLLER_BIT(facets[k].controller))
				mask |= FACET_BIT(facets[k].facet);
	return mask;
}

int cgroup_host_open(struct cgroup_host **ret, const char *name, struct err *err)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts mounts = { 0 };

	int r = cgroup_check_name(name, err);
	if (r < 0)
		return r;
	r = cgroup_mounts_read(&mounts, err);
	if (r < 0)
		return r;

	CLEANUP(cgroup_host_freep) struct cgroup_host *h = xnew(struct cgroup_host);
	(void)snprintf(h->name, sizeof(h->name), "%s", name);
	for (size_t i = 0; i < mounts.n; i++) {
		r = add_tree(h, &mounts.items[i], err);
		if (r < 0)
			return r;
	}
	h->facets = sum_facets(h);
	h->held_max = cgroup_count_held_max();
	h->cpu_milli = (uint64_t)get_nprocs_conf() * 1000;
	*ret = TAKE(h);
	return 0;
}

void cgroup_host_free(struct cgroup_host *h)
{
	if (!h)
		return;
	cgroup_drop_kept(h);
	for (size_t i = 0; i < h->n_trees; i++)
		drop_parent(&h->trees[i], h->name);
	free(h);
}

uint64_t cgroup_host_facets(const struct cgroup_host *h)
{
	return h->facets;
}

const char *cgroup_host_describe(const struct cgroup_host *h)
{
	static const char *const words[] = { "none", "v1", "v2", "hybrid" };
	unsigned seen = 0;

	for (size_t i = 0; i < h->n_trees; i++)
		seen |= h->trees[i].ops == &cgroup_v2 ? 2 : 1;
	return words[seen];
}
