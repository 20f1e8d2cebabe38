/* A box: one process tree in namespaces of its own, under our init. The keeper
 * makes it and talks to its init over a control socket; see message.h for what
 * they say. Closing the control socket ends the box. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "box/seccomp.h"

struct err;
struct guest_fds;
struct nets;
struct root;
struct spec;

/* The guest's user and group inside the box. Root is not mapped at all. */
#define BOX_UID 1000u
#define BOX_GID 1000u

/* Like guest_start(), and tells whether it needed no execve(). */
typedef pid_t start_guest_fn(
	const struct spec *spec, const struct guest_fds *fds, bool *ret_is_clone, struct err *err);

/* What the keeper prepared once and every box uses. */
struct box_host {
	bool privileged;  /* the host's own root: boxes get a random uid */
	int home_ns_fd;   /* the keeper's mount namespace, to come back to */
	int landlock_abi; /* 0: the kernel has none */
	uint64_t facets;  /* what is enforced on this host, as FACET_BIT()s */
	struct seccomp_program filter;
	struct nets *nets; /* network namespaces for boxes */
	/* For a template, whose boxes are clones of what it has loaded: NULL and 0 otherwise. */
	start_guest_fn *clone_guest;
	uint64_t clone_flags; /* CLONE_PARENT: boxes are its siblings */
};

/* For which runs all of a box is closed before it waits: only for those that spec_is_plain(). */
enum seal {
	SEAL_NONE,  /* for any run: closed once the run is known */
	SEAL_PLAIN, /* for plain ones */
	SEAL_EXEC,  /* for plain ones that execute files of /workspace and /tmp */
	SEAL_COUNT,
};

/* The seal that suits a run. */
enum seal box_seal_for(const struct spec *spec);

/* What is to be made. */
struct box_order {
	const struct root *root;
	const int *join_fds; /* its cgroup, see cgroup_join(); the caller's */
	size_t n_join_fds;
	int cgroup_fd; /* see cgroup_clone_fd(); -1 for none */
	uid_t uid;     /* whom it belongs to on a host that is privileged */
	enum seal seal;
};

#define BOX_OF_TEMPLATE ((pid_t)-1)

struct box {
	pid_t pid; /* of its init, in the keeper's namespace; BOX_OF_TEMPLATE: another's child */
	int pid_fd;
	int control_fd; /* non-blocking */
	int net_fd;     /* its network namespace; who reaped it may take it, see nets_give() */
	uid_t uid;      /* on the host */
};

/* Host uids for boxes: above what any system hands out, below 2^31. Just before them is the
 * user that templates are. */
#define BOX_UID_FIRST    0x70000000u
#define BOX_UID_COUNT    0x10000000u
#define BOX_UID_TEMPLATE (BOX_UID_FIRST - 1)

/* Is this the root of the host, not of some container? Then every uid is ours to give,
 * and boxes get one that owns nothing. */
bool box_is_privileged(void);

/* Find out what this host offers and prepare it. Call once, single-threaded;
 * `profile` is a seccomp profile in Docker's format or NULL for ours. */
int box_host_init(struct box_host *host, const char *profile, size_t profile_size, struct err *err);
void box_host_fini(struct box_host *host);

/* The same for a template, to which the keeper gave what it found out. */
int box_host_adopt(struct box_host *host, struct err *err);

/* Make a box. Its init waits for MESSAGE_BOX_SPEC. */
int box_start(const struct box_host *host, const struct box_order *order, struct box *ret,
	struct err *err);

/* The same in two parts, which need not be done by the same process (maker.h). First all but its
 * process: `*ret_init_fd` is init's end of the control socket, the caller's to close. */
int box_prepare(const struct box_host *host, const struct box_order *order, struct box *ret,
	int *ret_init_fd, struct err *err);

/* Then the process: fills in box->pid and box->pid_fd. */
int box_clone(const struct box_host *host, const struct box_order *order, int init_fd,
	struct box *box, struct err *err);

/* Kill everything in the box at once. */
void box_kill(const struct box *box);

/* Reap the init after its end; false while it still lives. */
bool box_reap(struct box *box);

/* Close the descriptors; kills what still lives and waits for it. */
void box_fini(struct box *box);
