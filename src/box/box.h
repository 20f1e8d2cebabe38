/* A box: one process tree in namespaces of its own, under our init. The keeper
 * makes it and talks to its init over a control socket; see message.h for what
 * they say. Closing the control socket ends the box. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/seccomp.h"

struct cgroup;
struct err;
struct nets;
struct root;

/* The guest's user and group inside the box. Root is not mapped at all. */
#define BOX_UID 1000u
#define BOX_GID 1000u

/* What the keeper prepared once and every box uses. */
struct box_host {
	bool privileged;  /* the host's own root: boxes get a random uid */
	int home_ns_fd;   /* the keeper's mount namespace, to come back to */
	int landlock_abi; /* 0: the kernel has none */
	uint64_t facets;  /* what is enforced on this host, as FACET_BIT()s */
	struct seccomp_program filter;
	struct nets *nets; /* network namespaces for boxes */
};

struct box {
	pid_t pid; /* of its init, in the keeper's namespace */
	int pid_fd;
	int control_fd; /* non-blocking */
	int net_fd;     /* its network namespace; who reaped it may take it, see nets_give() */
	uid_t uid;      /* on the host */
};

/* Is this the root of the host, not of some container? Then every uid is ours to give,
 * and boxes get one that owns nothing. */
bool box_is_privileged(void);

/* Find out what this host offers and prepare it. Call once, single-threaded;
 * `profile` is a seccomp profile in Docker's format or NULL for ours. */
int box_host_init(struct box_host *host, const char *profile, size_t profile_size, struct err *err);
void box_host_fini(struct box_host *host);

/* Make a box on `root` in `cgroup` (NULL for none), owned by the host user `uid`
 * when the host is privileged. Its init waits for MESSAGE_BOX_SPEC. */
int box_start(const struct box_host *host, const struct root *root, const struct cgroup *cgroup,
	uid_t uid, struct box *ret, struct err *err);

/* Kill everything in the box at once. */
void box_kill(const struct box *box);

/* Reap the init after its end; false while it still lives. */
bool box_reap(struct box *box);

/* Close the descriptors; kills what still lives and waits for it. */
void box_fini(struct box *box);
