/* Control groups: what holds a box to its memory, processor time and number of
 * processes, and what finds every process of it again. One face over cgroup v2,
 * v1, and hybrids of both; which one it is shows only in cgroup_host_describe().
 *
 * The keeper opens one host at start, which makes a parent group, and below it
 * one group per box. A host owns its parent group, a group its directories and
 * descriptors; a host must outlive its groups. Single-threaded, never blocking
 * except in cgroup_sweep(), for which a keeper has time when it starts.
 *
 *	cgroup_new(); cgroup_set_limits();
 *	clone3(CLONE_INTO_CGROUP, cgroup_clone_fd());
 *	child: cgroup_join() first of all, then unshare(CLONE_NEWCGROUP);
 *	parent: cgroup_close_join();
 *	...
 *	cgroup_kill(); wait; cgroup_read_stats(); cgroup_remove(); cgroup_free();
 *
 * or, for who makes many, cgroup_take() and cgroup_give() as the first and the last.
 *
 * The cgroup namespace is to be made after joining: clone3() would root it in
 * the group of the caller. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cgroup;
struct cgroup_host;
struct err;
struct limits;

/* Longest name of a group; it consists of letters, digits, '-' and '_'. */
#define CGROUP_NAME_MAX 64

/* Look at what this host has and make the parent group `name` in each hierarchy
 * that serves: in our own group if that was delegated to us, else in the root of
 * the hierarchy, else in the nearest group that we own. In a group of our own
 * that forbids inner processes, those in it move to a leaf beside the parent
 * group. A host without any usable controller is no error; it has no facets then.
 * 0; -EEXIST when there is such a parent group; -EINVAL for a bad name. */
int cgroup_host_open(struct cgroup_host **ret, const char *name, struct err *err);

/* Remove the parent group, if nothing is left in it, and release. NULL is allowed. */
void cgroup_host_free(struct cgroup_host *h);

/* Which of FACET_MEMORY, FACET_CPU and FACET_PIDS are enforced here, as a mask.
 * Each was tried out when the host was opened; memory is only among them if a
 * group can be kept from going on in swap. */
uint64_t cgroup_host_facets(const struct cgroup_host *h);

/* "v2", "v1", "hybrid" or "none". */
const char *cgroup_host_describe(const struct cgroup_host *h);

/* Make one empty group without limits. 0; -EEXIST when there is such a group;
 * -EINVAL for a bad name. On failure nothing is left behind. */
int cgroup_new(struct cgroup_host *h, const char *name, struct cgroup **ret, struct err *err);

/* Release memory and descriptors; the directories stay unless cgroup_remove()
 * took them away. NULL is allowed. */
void cgroup_free(struct cgroup *cg);

/* Hold the group to memory_bytes without swap, cpu_milli and pids, as far as the
 * host has the facet. May be called again with other limits. 0, or the error that
 * names the limit that could not be set; which of them hold is then unknown. */
int cgroup_set_limits(struct cgroup *cg, const struct limits *limits, struct err *err);

/* For CLONE_INTO_CGROUP; -1 where there is no v2 hierarchy. Borrowed. */
int cgroup_clone_fd(const struct cgroup *cg);

/* What the child must hand to cgroup_join(), possibly nothing; some may be -1. Borrowed. */
size_t cgroup_join_fds(const struct cgroup *cg, const int **ret);

/* The same for a process that is not ours to clone, on every kind of host: descriptors of the
 * caller's own, of which there are at most `max`. -EMFILE when these are too few. */
int cgroup_open_entrances(const struct cgroup *cg, int *ret, size_t max);

/* In the child, single-threaded still: enter the groups behind `fds` and close
 * these. Needs no privilege, since the kernel asks for that of who opened them;
 * allocates nothing. 0 or a negative errno. */
int cgroup_join(const int *fds, size_t n, struct err *err);

/* In the parent, once the child was born: close what only it needed, but for what the next one
 * that takes the group will need again. */
void cgroup_close_join(struct cgroup *cg);

/* For epoll, together with cgroup_event_mask(): something happened at the memory
 * limit, perhaps nothing worse than reclaim. -1 without FACET_MEMORY. Borrowed. */
int cgroup_event_fd(const struct cgroup *cg);
uint32_t cgroup_event_mask(const struct cgroup *cg);

/* Silence the event. True when it means that the group ran out of memory, so that
 * one of its processes was killed or is about to be: v1 tells before it counts, so
 * cgroup_read_stats() may not know yet. To be heeded at once: v1 says it once. */
bool cgroup_ack_event(const struct cgroup *cg);

/* What the group has used so far. USAGE_UNKNOWN where the host does not say. */
struct cgroup_stats {
	uint64_t cpu_us;
	uint64_t peak_bytes;
	uint64_t oom_kills;     /* above zero: killed at the memory limit */
	uint64_t pids_peak;     /* most processes and threads at once */
	uint64_t pids_max_hits; /* how often the limit of processes refused one */
};

void cgroup_read_stats(struct cgroup *cg, struct cgroup_stats *ret);

/* Send SIGKILL to every process of the group, also to those being forked. 0 once
 * all of them are dying or gone; -EAGAIN when it must be tried again. Where there
 * is no cgroup.kill, the group can not fork afterwards. */
int cgroup_kill(struct cgroup *cg);

/* Nothing of the group executes from now on, until it is thawed; a kill reaches it even so.
 * -EOPNOTSUPP where there is no v2 hierarchy, or its kernel can not (before 5.2): stopping each
 * process by a signal would not do, since any of them could continue the others. */
int cgroup_freeze(const struct cgroup *cg, bool is_frozen);

/* Take the directories away. 0; -EBUSY when a process is still there or has only
 * just gone: it must be tried again a little later. */
int cgroup_remove(const struct cgroup *cg);

/* Like cgroup_new(), and like cgroup_remove() followed by cgroup_free(), for who makes many: a
 * group that is given may be had again by who takes the next one, under the name it had. It is
 * empty then, and counts from zero; its limits are to be set before anything joins. -EBUSY from
 * cgroup_give() leaves it with the caller, who tries again; after any other error it is gone. */
int cgroup_take(struct cgroup_host *h, const char *name, struct cgroup **ret, struct err *err);
int cgroup_give(struct cgroup_host *h, struct cgroup *cg);

/* Kill all that lives below the parent group `name` of a keeper that died, in
 * every hierarchy, and remove the group. 0 also when there is none; -EBUSY when
 * some process would not die for a while; -EDEADLK when we are in there. */
int cgroup_sweep(const char *name, struct err *err);

DEFINE_CLEANUP(struct cgroup, cgroup_free)
DEFINE_CLEANUP(struct cgroup_host, cgroup_host_free)
