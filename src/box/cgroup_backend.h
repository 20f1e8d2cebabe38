/* For cgroup*.c and their test only: what a version of cgroups is made of.
 *
 * A hierarchy is a tree of directories that the kernel mounts: one for all
 * controllers with v2, one per controller or bundle of them with v1. A host may
 * have both, so a version is a property of each hierarchy, and a hybrid host is
 * simply a list of unlike ones. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "box/cgroup.h"

struct limits;

enum controller {
	CONTROLLER_MEMORY,
	CONTROLLER_PIDS,
	CONTROLLER_CPU,
	CONTROLLER_CPUACCT, /* v1 only: v2 counts processor time in every group */
	CONTROLLER_COUNT,
};

#define CONTROLLER_BIT(c) (UINT32_C(1) << (c))
#define CONTROLLERS_LIMITS                                                                         \
	(CONTROLLER_BIT(CONTROLLER_MEMORY) | CONTROLLER_BIT(CONTROLLER_PIDS) |                     \
		CONTROLLER_BIT(CONTROLLER_CPU))

/* One hierarchy each for memory, pids, cpu and cpuacct, and the unified one. */
#define CGROUP_TREES_MAX 5

/* Rows of the table of gauges of any version. */
#define CGROUP_GAUGES_MAX 5

/* Period over which processor time is shared out; 100 ms is the kernel's own. */
#define CPU_PERIOD_US 100000

/* A file that holds one limit. */
struct cgroup_knob {
	enum controller controller;
	const char *file;
	/* The text to be written, into `buf` of CGROUP_VALUE_MAX bytes. */
	void (*format)(const struct limits *l, char *buf);
	bool optional; /* some kernels or boot options do without */
};

#define CGROUP_VALUE_MAX 48

/* A file that holds one number of struct cgroup_stats. */
struct cgroup_gauge {
	uint32_t controllers; /* any of these must be here; 0 when none is needed */
	const char *file;
	const char *key; /* the number stands behind this word; NULL: it stands alone */
	uint64_t divisor;
	size_t offset; /* of the field */
};

/* A directory in which a parent group could be made. */
struct cgroup_base {
	const char *path;   /* of our own group, "" when it is the visible root */
	size_t size;        /* of the part of it that leads to this directory */
	bool is_own;        /* this is our own group ... */
	bool is_ours_alone; /* ... and all that is in it is our business */
};

struct cgroup_tree;

struct cgroup_ops {
	const char *name;
	long magic; /* of the file system */

	const struct cgroup_knob *knobs;
	size_t n_knobs;
	const struct cgroup_gauge *gauges;
	size_t n_gauges;

	/* Of a group that has lost its last process: what is still charged to it, the same with
	 * swap, which not all have, and where its peak is set back to that. NULL where the kernel
	 * has no such thing. */
	const char *usage_file;
	const char *usage_swap_file;
	const char *usage_sockets_file; /* what is not in usage_file */
	const char *reset_file;

	/* Files that a child writes "0" to, or NULL where clone3() can do it. */
	const char *join_file;
	uint32_t event_mask; /* for epoll */

	/* Make as many of `wanted` as possible usable in groups below `base` of the
	 * hierarchy `root_fd`; the mask of those that are, 0 also when none is. A
	 * negative errno when no group can be made or joined there. */
	int (*offer)(int root_fd, const struct cgroup_base *base, uint32_t wanted);

	/* Set up the fresh parent group, and take back controllers that will not do;
	 * a negative errno when the group will not. */
	int (*prepare)(struct cgroup_tree *t);

	/* A descriptor that tells of trouble at the memory limit of group `name`. */
	int (*open_event)(const struct cgroup_tree *t, const char *name);
	bool (*ack_event)(int fd);
};

extern const struct cgroup_ops cgroup_v1;
extern const struct cgroup_ops cgroup_v2;

/* A hierarchy in which we have our parent group. */
struct cgroup_tree {
	const struct cgroup_ops *ops;
	uint32_t controllers; /* those that work in groups below the parent */
	uint32_t knobs;       /* rows of ops->knobs that exist here */
	int base_fd;          /* the directory which the parent group is in */
	int parent_fd;
};

struct cgroup_host {
	char name[CGROUP_NAME_MAX + 1];
	struct cgroup_tree trees[CGROUP_TREES_MAX];
	size_t n_trees;
	uint64_t facets;
	uint64_t cpu_milli;  /* all that the machine can ever have; 0: not known */
	struct cgroup *kept; /* for cgroup_take() */
	size_t n_kept;
	size_t n_held; /* groups whose files stay open */
	size_t held_max;
};

struct cgroup {
	struct cgroup_host *host;
	char name[CGROUP_NAME_MAX + 1];
	int clone_fd;
	int event_fd;
	const struct cgroup_ops *event_ops; /* of the hierarchy that has memory */
	int join_fds[CGROUP_TREES_MAX];     /* by hierarchy; -1 where there is none */
	int gauge_fds[CGROUP_TREES_MAX][CGROUP_GAUGES_MAX];
	int usage_fd; /* of its memory, and where that begins anew; -1 when it is not kept */
	int reset_fd;
	int sockets_fd;
	int alive_fd;      /* how many processes are in there */
	bool is_held;      /* files of hierarchies in which it is kept stay open */
	bool keeps_memory; /* its group in that of memory is used again as well */
	bool was_killed;
	bool has_quota;     /* of processor time */
	uint64_t cpu_milli; /* the limits set last; 0: not known */
	uint64_t pids;
	uint64_t memory_bytes;
	uint64_t cpu_before_us; /* used by those that had the group before */
	struct cgroup *next;    /* of those kept */
};

/* Is it used again in this hierarchy? In that of memory not always, see cgroup_give(). */
bool cgroup_is_kept_in(const struct cgroup *cg, const struct cgroup_tree *t);

/* Close what is open of it in the hierarchy of memory. */
void cgroup_close_memory(struct cgroup *cg);

/* Open what a group needs for being joined and watched, and close it. On failure some may be
 * open. */
int cgroup_open_files(struct cgroup *cg, struct err *err);
void cgroup_close_files(struct cgroup *cg);

/* Like cgroup_read_stats(), but from the hierarchies in which a group is kept. */
void cgroup_read_kept_stats(struct cgroup *cg, struct cgroup_stats *ret);

/* Of how many groups files may stay open. */
size_t cgroup_count_held_max(void);

/* Remove the groups that wait for being used again. */
void cgroup_drop_kept(struct cgroup_host *h);

/* A hierarchy as this process sees it. */
struct cgroup_mount {
	const struct cgroup_ops *ops;
	uint32_t controllers; /* v1: what it was mounted with */
	char *path;
	char *own; /* our own group below `path`, without leading '/'; NULL out of sight */
};

struct cgroup_mounts {
	struct cgroup_mount items[CGROUP_TREES_MAX];
	size_t n;
};

/* Read /proc/self/mountinfo and /proc/self/cgroup; 0 or a negative errno. */
int cgroup_mounts_read(struct cgroup_mounts *ret, struct err *err);

/* The same from text, which is taken apart. Lines that make no sense are left out. */
void cgroup_mounts_parse(struct cgroup_mounts *ret, char *mountinfo, char *self);
void cgroup_mounts_fini(struct cgroup_mounts *m);

/* Open the root of a hierarchy; a descriptor or a negative errno. */
int cgroup_mount_open(const struct cgroup_mount *m);

/* Where to look for, or make, parent groups: best first. Returns how many. The
 * bases borrow `m->own`. */
#define CGROUP_BASES_MAX 16
size_t cgroup_mount_bases(
	const struct cgroup_mount *m, int root_fd, struct cgroup_base ret[CGROUP_BASES_MAX]);
int cgroup_base_open(int root_fd, const struct cgroup_base *base);

/* The leaf of our own group into which its processes move, so that the group may
 * have children with controllers. Its name must not look like a parent group. */
#define CGROUP_LEAF "belljar.self"

/* The known ones among words that are divided by `separators`. */
uint32_t cgroup_parse_controllers(const char *text, const char *separators);
const char *cgroup_controller_name(enum controller c);

/* Write `limits` into group `name`, but those of the controllers in `spared`; or try whether it can
 * be done: rows that fail are then taken out of the tree instead of being an error. */
int cgroup_tree_set_limits(const struct cgroup_tree *t, const char *name,
	const struct limits *limits, uint32_t spared, struct err *err);
void cgroup_tree_probe(struct cgroup_tree *t, const char *name, const struct limits *limits);

/* The number behind `key` in lines of "word number", which are taken apart, or
 * the only one when `key` is NULL; 0 or a negative errno. */
int cgroup_parse_gauge(char *text, const char *key, uint64_t *ret);

/* Fill in what this hierarchy says. `held_fds` has a place for each of its gauges, -1 until it is
 * opened, which the caller closes; NULL: nothing stays open. */
void cgroup_tree_read_stats(const struct cgroup_tree *t, const char *name,
	int held_fds[CGROUP_GAUGES_MAX], struct cgroup_stats *ret);

/* SIGKILL for every process listed in `dir_fd`/cgroup.procs; 0 when there is none
 * that has not been sent it, else -EAGAIN. -EDEADLK when we are among them. */
int cgroup_kill_listed(int dir_fd);

/* True when some swap space is in use, and so has to be held off. */
bool cgroup_host_swaps(void);

/* 0, or -EINVAL when `name` can not be the name of a group. */
int cgroup_check_name(const char *name, struct err *err);
