/* The root of an image, assembled once by the keeper in a mount namespace of its
 * own: everything a box sees that does not depend on the run. A box is born in a
 * copy of that namespace, so it never had the host's mounts to lose, and starting
 * one costs neither bind mounts nor a pivot_root of its own.
 *
 * Beneath the /proc which each box mounts for itself lies a procfs that belongs
 * to an empty pid namespace. It is there because the kernel lets a user namespace
 * mount a procfs only where one is visible already; it shows no process. */
#pragma once
#include <stdbool.h>

struct err;

struct root {
	struct root *next;
	char image[65]; /* "host" or a digest */
	int ns_fd;      /* the mount namespace */
};

struct root_source {
	const char *image;
	int rootfs_fd;         /* O_PATH directory of an imported image; -1 for "host" */
	const char *stage_dir; /* any directory: a mount point inside the new namespace only */
	bool privileged;       /* by the host's root: device nodes may be made */
};

/* Assemble. The caller owns `*ret` and gives it to root_free(). */
int root_assemble(const struct root_source *source, struct root **ret, struct err *err);

void root_free(struct root *root);
