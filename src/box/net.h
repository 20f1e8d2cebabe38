/* Network namespaces for boxes: each with nothing in it but lo. The kernel takes longer to make
 * and to end one than for all the rest of a box, so one in which no guest ever had a socket
 * (see witness.h) is as good as new, and the next box gets it. A guest has no capability
 * there, and without a socket nobody can leave anything behind in one. */
#pragma once
#include <stddef.h>

struct err;
struct nets;

/* At most this many wait for a box. */
#define NETS_MAX 64

/* Move this process, which has one thread, into a network namespace of its own, for good: from
 * there others can be made and entered, also by a plain user. */
int nets_new(struct nets **ret, struct err *err);
void nets_free(struct nets *n);

/* One in which nobody is: to be closed, or given back. */
int nets_take(struct nets *n, int *ret_fd, struct err *err);

/* How many wait. */
size_t nets_count(const struct nets *n);

/* No guest had a socket in this one. Takes the descriptor. */
void nets_give(struct nets *n, int fd);

/* Be there, for the moment of a clone; then back home. */
int nets_enter(int fd);
void nets_leave(const struct nets *n);
