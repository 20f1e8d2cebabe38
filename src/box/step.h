/* The steps from a fresh clone to a confined process, one file per facet. Each
 * runs in the init of the box, in the order of the table in init.c, and each
 * failure refuses the run. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct box_host;
struct err;
struct spec;

/* What a step may look at. */
struct step_context {
	const struct box_host *host;
	const struct spec *spec; /* empty in the steps before there is one */
	uid_t uid;               /* who the box is on the host, as the keeper sees it */
	gid_t gid;
	bool exec; /* files in /workspace and /tmp can be executed already */
	int control_fd;
	int tty_fd;       /* slave of the guest's terminal, once made; else -1 */
	int workspace_fd; /* a mount to be used as the workspace, else -1 */
};

typedef int step_fn(struct step_context *c, struct err *err);

step_fn cgroup_enter;    /* see the box's own cgroup as the root */
step_fn user_enter;      /* become the one user there is */
step_fn mount_enter;     /* /workspace, /tmp, /dev/shm, /dev/pts, masks over /proc */
step_fn name_enter;      /* the name of the machine */
step_fn workspace_enter; /* the workspace, sizes and exec that this run asked for */
step_fn tty_enter;       /* make the terminal when one is wanted */
step_fn bounds_enter;    /* no way to get a capability */
step_fn caps_enter;      /* no capability */
step_fn landlock_enter;  /* write only where it is meant */
step_fn seccomp_enter;   /* only harmless system calls */
