/* Groups that are used again. Where each controller has a hierarchy of its own, making and
 * removing a group in all of them costs a box more than most of its other parts. Most hold
 * nothing but counters, and are kept when these show nothing that another box would not show by
 * itself. To that of memory pages stay charged: it is kept only if these are no more than the
 * kernel charges ahead for each processor anyway, and made anew otherwise.
 *
 * Files of some of them stay open, too, from the first time they are given until they are
 * removed: to open and close them would cost more than all that is read and written there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/result.h"

/* More than that many boxes rarely end at once. */
#define KEPT_MAX 64u

/* Of that many groups files stay open: as many as there may be boxes in a busy hour, those that
 * wait among them. So many it takes for one: four to enter it, and what is counted and watched. */
#define HELD_MAX 128u
#define HELD_FDS 14u

/* Its init and its command: no box that ran had fewer processes at once. */
#define PIDS_PEAK_MIN 2u

/* What may be left of its memory: a peak is that much too high at most. */
#define RESIDUE_BYTES_MAX (UINT64_C(512) << 10)

/* Who used less than this part of its quota left the next one enough; and to set it is dear. */
#define QUOTA_PART 2u

static const struct cgroup_tree *find_memory(const struct cgroup_host *h)
{
	for (size_t i = 0; i < h->n_trees; i++)
		if (h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_MEMORY))
			return &h->trees[i];
	return NULL;
}

/* What else the hierarchy of memory limits has no limit any more. */
static void forget_limits(struct cgroup *cg, uint32_t controllers)
{
	if (controllers & CONTROLLER_BIT(CONTROLLER_PIDS))
		cg->pids = 0;
	if (controllers & CONTROLLER_BIT(CONTROLLER_CPU))
		cg->cpu_milli = 0;
	cg->memory_bytes = 0;
}

static int renew(struct cgroup *cg, struct err *err)
{
	const struct cgroup_tree *memory = find_memory(cg->host);

	if (cg->keeps_memory) {
		(void)cgroup_ack_event(cg); /* it also rings for a group above this one */
	} else {
		if (mkdirat(memory->parent_fd, cg->name, 0755) < 0)
			return err_errno(err, "make control group '%s' again", cg->name);
		forget_limits(cg, memory->controllers);
	}
	return cgroup_open_files(cg, err);
}

static void discard(struct cgroup *cg)
{
	(void)cgroup_remove(cg);
	cgroup_free(cg);
}

/* Who cleans up groups without processes may have taken it away while it waited. */
static bool is_there(const struct cgroup *cg)
{
	for (size_t i = 0; i < cg->host->n_trees; i++) {
		const struct cgroup_tree *t = &cg->host->trees[i];

		if (cgroup_is_kept_in(cg, t) && faccessat(t->parent_fd, cg->name, F_OK, 0) < 0)
			return false;
	}
	return true;
}

static struct cgroup *take_kept(struct cgroup_host *h)
{
	struct cgroup *cg;

	while ((cg = h->kept)) {
		h->kept = cg->next;
		h->n_kept--;
		if (is_there(cg))
			break;
		discard(cg);
	}
	return cg;
}

int cgroup_take(struct cgroup_host *h, const char *name, struct cgroup **ret, struct err *err)
{
	struct cgroup *cg = take_kept(h);

	if (!cg)
		return cgroup_new(h, name, ret, err);
	int r = renew(cg, err);
	if (r < 0) {
		discard(cg);
		return r;
	}
	*ret = cg;
	return 0;
}

size_t cgroup_count_held_max(void)
{
	size_t n = fd_count_spare() / HELD_FDS;

	return n < HELD_MAX ? n : HELD_MAX;
}

static void hold_files(struct cgroup *cg)
{
	if (cg->is_held || cg->host->n_held >= cg->host->held_max)
		return;
	cg->is_held = true;
	cg->host->n_held++;
}

static bool is_at_most(uint64_t value, uint64_t max)
{
	return value == USAGE_UNKNOWN || value <= max;
}

/* What is left of it has no limit that is not set for each box, and counts from zero or from what
 * we know. Kernels kill whoever is cloned into a group that was killed once. */
static bool can_be_kept(struct cgroup *cg)
{
	struct cgroup_stats stats;

	if (cg->was_killed)
		return false;
	cgroup_read_kept_stats(cg, &stats);
	if (stats.cpu_us != USAGE_UNKNOWN)
		cg->cpu_before_us += stats.cpu_us;
	/* what was spent is missing until the end of the kernel's period, or the quota is set */
	if (stats.cpu_us > cg->cpu_milli * CPU_PERIOD_US / 1000 / QUOTA_PART)
		cg->cpu_milli = 0;
	return is_at_most(stats.pids_peak, PIDS_PEAK_MIN) && is_at_most(stats.pids_max_hits, 0);
}

static bool keep(struct cgroup_host *h, struct cgroup *cg)
{
	cgroup_close_files(cg);
	hold_files(cg);
	if (h->n_kept == KEPT_MAX || !can_be_kept(cg))
		return false;
	cg->next = h->kept;
	h->kept = cg;
	h->n_kept++;
	return true;
}

/* A number in a file that stays open. */
static uint64_t reread(const struct cgroup_tree *t, const char *name, const char *file, int *fd)
{
	char path[CGROUP_NAME_MAX + 64];
	char text[32];
	uint64_t value = USAGE_UNKNOWN;

	(void)snprintf(path, sizeof(path), "%s/%s", name, file);
	if (*fd < 0)
		*fd = openat(t->parent_fd, path, O_RDONLY | O_CLOEXEC);
	if (*fd >= 0 && fd_reread_text(*fd, text, sizeof(text)) >= 0)
		(void)str_parse_u64(text, UINT64_MAX, &value);
	return value;
}

/* The kernel takes a process off the list of a group before it counts it off. */
static bool is_empty(struct cgroup *cg)
{
	const struct cgroup_host *h = cg->host;

	for (size_t i = 0; i < h->n_trees; i++) {
		if (h->trees[i].controllers & CONTROLLER_BIT(CONTROLLER_PIDS))
			return reread(&h->trees[i], cg->name, "pids.current", &cg->alive_fd) == 0;
	}
	return false;
}

static bool set_back_peak(struct cgroup *cg, const struct cgroup_tree *memory)
{
	char path[CGROUP_NAME_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", cg->name, memory->ops->reset_file);
	if (cg->reset_fd < 0)
		cg->reset_fd = openat(memory->parent_fd, path, O_WRONLY | O_CLOEXEC);
	return cg->reset_fd >= 0 && pwrite(cg->reset_fd, "0", 1, 0) == 1;
}

/* What is still charged to it: with what was swapped out, where that is counted. */
static uint64_t read_residue(struct cgroup *cg, const struct cgroup_tree *memory)
{
	const struct cgroup_ops *ops = memory->ops;
	uint64_t bytes = reread(memory, cg->name, ops->usage_swap_file, &cg->usage_fd);

	return bytes != USAGE_UNKNOWN ? bytes
				      : reread(memory, cg->name, ops->usage_file, &cg->usage_fd);
}

/* Sockets whose last processes are gone can live on in AF_UNIX queues, until the kernel collects
 * these. The kernel refuses a limit below what is charged. */
static bool has_sockets(struct cgroup *cg, const struct cgroup_tree *memory)
{
	const char *file = memory->ops->usage_sockets_file;
	uint64_t bytes = file ? reread(memory, cg->name, file, &cg->sockets_fd) : USAGE_UNKNOWN;

	return bytes != USAGE_UNKNOWN && bytes > RESIDUE_BYTES_MAX;
}

static bool keep_memory(struct cgroup *cg, const struct cgroup_tree *memory)
{
	struct cgroup_stats stats;

	if (!memory->ops->reset_file || !cg->is_held || cg->was_killed || !is_empty(cg))
		return false;
	if (read_residue(cg, memory) > RESIDUE_BYTES_MAX || has_sockets(cg, memory))
		return false;
	cgroup_read_stats(cg, &stats);
	/* The kernel may ring for what then killed nobody. */
	return stats.oom_kills == 0 && !cgroup_ack_event(cg) && set_back_peak(cg, memory);
}

/* Without its group of memory; -EBUSY when somebody is still in there. */
static int remove_memory(struct cgroup *cg, const struct cgroup_tree *memory)
{
	cg->keeps_memory = false;
	if (unlinkat(memory->parent_fd, cg->name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	cgroup_close_memory(cg);
	return 0;
}

/* Every process is in all hierarchies at once: one that has lost its last in that of memory has
 * none in the others. */
int cgroup_give(struct cgroup_host *h, struct cgroup *cg)
{
	const struct cgroup_tree *memory = find_memory(h);

	if (memory && h->n_trees > 1) {
		cg->keeps_memory = keep_memory(cg, memory);
		int r = cg->keeps_memory ? 0 : remove_memory(cg, memory);

		if (r == -EBUSY)
			return r;
		if (r == 0 && keep(h, cg))
			return 0;
	}
	int r = cgroup_remove(cg);
	if (r != -EBUSY)
		cgroup_free(cg);
	return r;
}

void cgroup_drop_kept(struct cgroup_host *h)
{
	while (h->kept) {
		struct cgroup *cg = h->kept;

		h->kept = cg->next;
		discard(cg);
	}
	h->n_kept = 0;
}
