/* Whether a guest ever asked for a socket. A filter on top of the box's own (seccomp.h) has the
 * kernel ask init before it makes one; init remembers, and lets it go on. Nothing else
 * makes sockets: calls by another convention are refused, and io_uring counts as one. */
#pragma once
#include <stdbool.h>

struct err;

/* Filter this process and all its children, for good. The caller has set no_new_privs, has one
 * thread, and must not ask for a socket itself any more. Returns 0 with a descriptor to be
 * polled; or with -1 where the kernel can not do this, or is asked by another already. */
int witness_install(int *ret_fd, struct err *err);

/* Somebody asks: let him. */
void witness_answer(int fd);
