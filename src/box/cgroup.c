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

static int open_join(struct cgroup *cg, const struct cgroup_tree *t, struct err *err)
{
	char path[CGROUP_NAME_MAX + 16];
	const char *file = t->ops->join_file;

	(void)snprintf(path, sizeof(path), "%s/%s", cg->name, file ? file : "");
	if (!file) {
		cg->clone_fd = openat(t->parent_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		return cg->clone_fd < 0 ? err_errno(err, "open control group '%s'", cg->name) : 0;
	}
	int fd = openat(t->parent_fd, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %s of control group '%s'", file, cg->name);
	cg->join_fds[cg->n_join++] = fd;
	return 0;
}

static int open_event(struct cgroup *cg, const struct cgroup_tree *t, struct err *err)
{
	if (!(t->controllers & CONTROLLER_BIT(CONTROLLER_MEMORY)))
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
		int r = open_join(cg, &cg->host->trees[i], err);

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

int cgroup_new(const struct cgroup_host *h, const char *name, struct cgroup **ret, struct err *err)
{
	int r = cgroup_check_name(name, err);
	if (r < 0)
		return r;
	r = make_dirs(h, name, err);
	if (r < 0)
		return r;

	CLEANUP(cgroup_freep) struct cgroup *cg = xnew(struct cgroup);
	cg->host = h;
	(void)snprintf(cg->name, sizeof(cg->name), "%s", name);
	cg->clone_fd = -1;
	cg->event_fd = -1;
	r = cgroup_open_files(cg, err);
	if (r < 0) {
		(void)cgroup_remove(cg);
		return r;
	}
	*ret = TAKE(cg);
	return 0;
}

void cgroup_close_files(struct cgroup *cg)
{
	cgroup_close_join(cg);
	close_fdp(&cg->event_fd);
}

void cgroup_free(struct cgroup *cg)
{
	if (!cg)
		return;
	cgroup_close_files(cg);
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

int cgroup_set_limits(struct cgroup *cg, const struct limits *limits, struct err *err)
{
	int r = check_limits(limits, err);

	cg->has_quota = needs_quota(cg, limits);
	uint32_t spared = cg->has_quota ? 0 : CONTROLLER_BIT(CONTROLLER_CPU);
	for (size_t i = 0; r >= 0 && i < cg->host->n_trees; i++)
		r = cgroup_tree_set_limits(&cg->host->trees[i], cg->name, limits, spared, err);
	return r;
}

int cgroup_clone_fd(const struct cgroup *cg)
{
	return cg->clone_fd;
}

size_t cgroup_join_fds(const struct cgroup *cg, const int **ret)
{
	*ret = cg->join_fds;
	return cg->n_join;
}

int cgroup_join(const int *fds, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (write(fds[i], "0", 1) != 1)
			return err_errno(err, "join control group");
		(void)close(fds[i]);
	}
	return 0;
}

void cgroup_close_join(struct cgroup *cg)
{
	while (cg->n_join > 0)
		close_fdp(&cg->join_fds[--cg->n_join]);
	close_fdp(&cg->clone_fd);
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

void cgroup_read_stats(const struct cgroup *cg, struct cgroup_stats *ret)
{
	*ret = (struct cgroup_stats){ USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN, USAGE_UNKNOWN,
		USAGE_UNKNOWN };
	for (size_t i = 0; i < cg->host->n_trees; i++)
		cgroup_tree_read_stats(&cg->host->trees[i], cg->name, ret);
	if (ret->cpu_us != USAGE_UNKNOWN)
		ret->cpu_us -= cg->cpu_before_us;
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

int cgroup_kill(const struct cgroup *cg)
{
	const struct cgroup_host *h = cg->host;
	char path[CGROUP_NAME_MAX + 16];

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
	(void)fd_write_text(fd, "pids.max", "0");
	return cgroup_kill_listed(fd);
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
