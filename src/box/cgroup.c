#include "box/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/result.h"
#include "ipc/spec.h"

/* The kernel shares out at least 1 ms of a period; beyond a million cores there
 * is only overflow. */
#define CPU_MILLI_MIN (1000u * 1000 / CPU_PERIOD_US)
#define CPU_MILLI_MAX UINT64_C(1000000000)

static bool has_memory(const struct cgroup_tree *t)
{
	return t->controllers & CONTROLLER_BIT(CONTROLLER_MEMORY);
}

bool cgroup_is_kept_in(const struct cgroup *cg, const struct cgroup_tree *t)
{
	return cg->keeps_memory || !has_memory(t);
}

/* By which it is entered, in the hierarchy `i`. */
static int *get_entrance(struct cgroup *cg, size_t i)
{
	return cg->host->trees[i].ops->join_file ? &cg->join_fds[i] : &cg->clone_fd;
}

static int open_entrance(struct cgroup *cg, size_t i, struct err *err)
{
	const struct cgroup_tree *t = &cg->host->trees[i];
	const char *file = t->ops->join_file;
	int *fd = get_entrance(cg, i);
	char path[CGROUP_NAME_MAX + 16];

	if (*fd >= 0)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", cg->name, file ? file : "");
	*fd = openat(t->parent_fd, path, (file ? O_WRONLY : O_PATH | O_DIRECTORY) | O_CLOEXEC);
	return *fd < 0 ? err_errno(err, "open control group '%s'", path) : 0;
}

static int open_event(struct cgroup *cg, const struct cgroup_tree *t, struct err *err)
{
	if (!has_memory(t) || cg->event_fd >= 0)
		return 0;
	int fd = t->ops->open_event(t, cg->name);
	if (fd < 0)
		return err_set(
			err, fd, "watch memory of control group '%s': %s", cg->name, strerror(-fd));
	cg->event_fd = fd;
	cg->event_ops = t->ops;
	return 0;
}

int cgroup_open_files(struct cgroup *cg, struct err *err)
{
	for (size_t i = 0; i < cg->host->n_trees; i++) {
		int r = open_entrance(cg, i, err);

		if (r >= 0)
			r = open_event(cg, &cg->host->trees[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Make the directory in every hierarchy; those made are taken back on failure. */
static int make_dirs(const struct cgroup_host *h, const char *name, struct err *err)
{
	for (size_t i = 0; i < h->n_trees; i++) {
		if (mkdirat(h->trees[i].parent_fd, name, 0755) == 0)
			continue;
		int r = err_errno(err, "make control group '%s'", name);
		while (i-- > 0)
			(void)unlinkat(h->trees[i].parent_fd, name, AT_REMOVEDIR);
		return r;
	}
	return 0;
}

static struct cgroup *new_closed(struct cgroup_host *h, const char *name)
{
	struct cgroup *cg = xnew(struct cgroup);

	cg->host = h;
	(void)snprintf(cg->name, sizeof(cg->name), "%s", name);
	cg->clone_fd = -1;
	cg->event_fd = -1;
	cg->usage_fd = cg->reset_fd = cg->sockets_fd = cg->alive_fd = -1;
	for (size_t i = 0; i < CGROUP_TREES_MAX; i++) {
		cg->join_fds[i] = -1;
		for (size_t k = 0; k < CGROUP_GAUGES_MAX; k++)
			cg->gauge_fds[i][k] = -1;
	}
	return cg;
}

int cgroup_new(struct cgroup_host *h, const char *name, struct cgroup **ret, struct err *err)
{
	int r = cgroup_check_name(name, err);
	if (r < 0)
		return r;
	r = make_dirs(h, name, err);
	if (r < 0)
		return r;

	CLEANUP(cgroup_freep) struct cgroup *cg = new_closed(h, name);
	r = cgroup_open_files(cg, err);
	if (r < 0) {
		(void)cgroup_remove(cg);
		return r;
	}
	*ret = TAKE(cg);
	return 0;
}

static void close_gauges(struct cgroup *cg, size_t i)
{
	for (size_t k = 0; k < CGROUP_GAUGES_MAX; k++)
		close_fdp(&cg->gauge_fds[i][k]);
}

void cgroup_close_memory(struct cgroup *cg)
{
	for (size_t i = 0; i < cg->host->n_trees; i++) {
		if (!has_memory(&cg->host->trees[i]))
			continue;
		close_fdp(get_entrance(cg, i));
		close_gauges(cg, i);
	}
	close_fdp(&cg->event_fd);
	close_fdp(&cg->usage_fd);
	close_fdp(&cg->reset_fd);
	close_fdp(&cg->sockets_fd);
	close_fdp(&cg->alive_fd); /* processes may be counted in the same hierarchy */
}

void cgroup_close_files(struct cgroup *cg)
{
	cgroup_close_join(cg);
	if (!cg->keeps_memory)
		close_fdp(&cg->event_fd);
}

void cgroup_free(struct cgroup *cg)
{
	if (!cg)
		return;
	if (cg->is_held)
		cg->host->n_held--;
	cg->is_held = cg->keeps_memory = false;
	cgroup_close_files(cg);
	cgroup_close_memory(cg);
	for (size_t i = 0; i < CGROUP_TREES_MAX; i++)
		close_gauges(cg, i);
	free(cg);
}

/* Zero would mean no limit to some files, and nothing at all to others. */
static int check_limits(const struct limits *l, struct err *err)
{
	if (l->memory_bytes == 0)
		return err_set(err, -EINVAL, "limit of memory is zero");
	if (l->pids == 0)
		return err_set(err, -EINVAL, "limit of processes is zero");
	if (l->cpu_milli < CPU_MILLI_MIN || l->cpu_milli > CPU_MILLI_MAX)
		return err_set(err, -EINVAL,
			"limit of processor time is below %u or above %llu "
			"thousandths of a core",
			CPU_MILLI_MIN, (unsigned long long)CPU_MILLI_MAX);
	return 0;
}

/* More processor time than the machine can have is a limit that holds by itself; for the kernel
 * it is one of the dearest to set. */
static bool needs_quota(const struct cgroup *cg, const struct limits *limits)
{
	return cg->has_quota || cg->host->cpu_milli == 0 || limits->cpu_milli < cg->host->cpu_milli;
}

/* The controllers that hold the group to these limits already. */
static uint32_t find_spared(const struct cgroup *cg, const struct limits *limits)
{
	uint32_t spared = 0;

	if (!cg->has_quota || cg->cpu_milli == limits->cpu_milli)
		spared |= CONTROLLER_BIT(CONTROLLER_CPU);
	if (cg->pids == limits->pids)
		spared |= CONTROLLER_BIT(CONTROLLER_PIDS);
	if (cg->memory_bytes == limits->memory_bytes)
		spared |= CONTROLLER_BIT(CONTROLLER_MEMORY);
	return spared;
}

int cgroup_set_limits(struct cgroup *cg, const struct limits *limits, struct err *err)
{
	int r = check_limits(limits, err);

	if (r < 0)
		return r;
	cg->has_quota = needs_quota(cg, limits);
	uint32_t spared = find_spared(cg, limits);
	cg->cpu_milli = 0;
	cg->pids = 0;
	cg->memory_bytes = 0;
	for (size_t i = 0; i < cg->host->n_trees; i++) {
		r = cgroup_tree_set_limits(&cg->host->trees[i], cg->name, limits, spared, err);
		if (r < 0)
			return r;
	}
	cg->cpu_milli = limits->cpu_milli;
	cg->pids = limits->pids;
	cg->memory_bytes = limits->memory_bytes;
	return 0;
}

int cgroup_clone_fd(const struct cgroup *cg)
{
	return cg->clone_fd;
}

size_t cgroup_join_fds(const struct cgroup *cg, const int **ret)
{
	*ret = cg->join_fds;
	return cg->host->n_trees;
}

int cgroup_open_entrances(const struct cgroup *cg, int *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < cg->host->n_trees && n < max; i++) {
		if (cg->join_fds[i] >= 0)
			ret[n++] = fcntl(cg->join_fds[i], F_DUPFD_CLOEXEC, 3);
	}
	if (cg->clone_fd >= 0 && n < max)
		ret[n++] = openat(cg->clone_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; i < n; i++) {
		if (ret[i] >= 0)
			continue;
		while (n-- > 0)
			close_fdp(&ret[n]);
		return -EMFILE;
	}
	return (int)n;
}

int cgroup_join(const int *fds, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (fds[i] < 0)
			continue;
		if (write(fds[i], "0", 1) != 1)
			return err_errno(err, "join control group");
		(void)close(fds[i]);
	}
	return 0;
}

void cgroup_close_join(struct cgroup *cg)
{
	for (size_t i = 0; i < cg->host->n_trees; i++)
		if (!cg->is_held || !cgroup_is_kept_in(cg, &cg->host->trees[i]))
			close_fdp(get_entrance(cg, i));
}

int cgroup_event_fd(const struct cgroup *cg)
{
	return cg->event_fd;
}

uint32_t cgroup_event_mask(const struct cgroup *cg)
{
	return cg->event_ops ? cg->event_ops->event_mask : 0;
}

bool cgroup_ack_event(const struct cgroup *cg)
{
	return cg->event_ops && cg->event_ops->ack_event(cg->event_fd);
}

static void read_stats(struct cgroup *cg, bool only_kept, struct cgroup_stats *ret)
{
	*ret = (struct cgroup_stats){ USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
		USAGE_UNKNOWN };
	for (size_t i = 0; i < cg->host->n_trees; i++) {
		const struct cgroup_tree *t = &cg->host->trees[i];
		bool is_kept = cgroup_is_kept_in(cg, t);
		uint64_t cpu_us = ret->cpu_us;

		if (only_kept && !is_kept)
			continue;
		ret->cpu_us = USAGE_UNKNOWN;
		cgroup_tree_read_stats(
			t, cg->name, is_kept && cg->is_held ? cg->gauge_fds[i] : NULL, ret);
		if (ret->cpu_us == USAGE_UNKNOWN)
			ret->cpu_us = cpu_us;
		else if (is_kept)
			ret->cpu_us -= cg->cpu_before_us;
	}
}

void cgroup_read_stats(struct cgroup *cg, struct cgroup_stats *ret)
{
	read_stats(cg, false, ret);
}

void cgroup_read_kept_stats(struct cgroup *cg, struct cgroup_stats *ret)
{
	read_stats(cg, true, ret);
}

/* Where all processes of a group are listed; any hierarchy does, but that of pids
 * can also stop them from multiplying. */
static const struct cgroup_tree *find_listing(const struct cgroup_host *h)
{
	for (size_t i = 0; i < h->n_trees; i++)
		if (h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_PIDS))
			return &h->trees[i];
	return h->n_trees > 0 ? &h->trees[0] : NULL;
}

int cgroup_kill(struct cgroup *cg)
{
	const struct cgroup_host *h = cg->host;
	char path[CGROUP_NAME_MAX + 16];

	cg->was_killed = true;
	(void)snprintf(path, sizeof(path), "%s/cgroup.kill", cg->name);
	for (size_t i = 0; i < h->n_trees; i++)
		if (!h->trees[i].ops->join_file &&
			fd_write_text(h->trees[i].parent_fd, path, "1") == 0)
			return 0;

	const struct cgroup_tree *t = find_listing(h);
	if (!t)
		return -EOPNOTSUPP;
	AUTO_FD fd = openat(t->parent_fd, cg->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	cg->pids = 0;
	(void)fd_write_text(fd, "pids.max", "0");
	return cgroup_kill_listed(fd);
}

int cgroup_freeze(const struct cgroup *cg, bool is_frozen)
{
	const struct cgroup_host *h = cg->host;
	char path[CGROUP_NAME_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/cgroup.freeze", cg->name);
	for (size_t i = 0; i < h->n_trees; i++) {
		if (h->trees[i].ops->join_file)
			continue; /* v1 */
		int r = fd_write_text(h->trees[i].parent_fd, path, is_frozen ? "1" : "0");
		return r == -ENOENT ? -EOPNOTSUPP : r;
	}
	return -EOPNOTSUPP;
}

int cgroup_remove(const struct cgroup *cg)
{
	int r = 0;

	for (size_t i = 0; i < cg->host->n_trees; i++)
		if (unlinkat(cg->host->trees[i].parent_fd, cg->name, AT_REMOVEDIR) < 0 &&
			errno != ENOENT)
			r = -errno;
	return r;
}
