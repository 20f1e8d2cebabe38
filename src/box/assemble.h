/* Mount namespaces that are prepared once and kept by a descriptor: what is mounted in
 * one is nobody else's, and goes when the descriptor does. */
#pragma once

struct err;

/* Make a namespace and let `prepare` fill it, in a process of its own that is in it and
 * whose mounts are private. The caller owns `*ret_ns_fd`. */
int assemble_namespace(
	int (*prepare)(void *ctx, struct err *err), void *ctx, int *ret_ns_fd, struct err *err);

/* For `prepare`: make the mounted `root_fd` the root, and let go of everything that was
 * there before. */
int assemble_leave_host(int root_fd, struct err *err);
