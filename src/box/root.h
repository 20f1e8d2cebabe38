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
#include <stdint.h>

struct err;

struct root {
	struct root *next;
	char image[65];   /* "host" or a digest */
	int ns_fd;        /* the mount namespace */
	int rootfs_fd;    /* keeps the image from being removed; -1 for "host" */
	uint64_t used_ns; /* when it was last wanted, CLOCK_MONOTONIC; the keeper's */
};

struct root_source {
	const char *image;
	int rootfs_fd;         /* directory of an imported image, kept; -1 for "host" */
	const char *stage_dir; /* any directory: a mount point inside the new namespace only */
	bool privileged;       /* by the host's root: device nodes may be made */
};

/* Assemble. The caller owns `*ret` and gives it to root_free(). */
int root_assemble(const struct root_source *source, struct root **ret, struct err *err);

void root_free(struct root *root);
