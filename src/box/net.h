/* Network namespaces for boxes: each with nothing in it but lo. The kernel takes longer to make
 * and to end one than for all the rest of a box, so one that shows no trace of its guest is as
 * good as new, and the next box gets it.
 *
 * A guest has no capability there, and its sockets are gone with it. What they can leave behind
 * (connections that wait, names held by sockets in flight, labels, routes, metrics) either
 * takes a packet, which lo counts, or is listed: so one in which every counter of the kernel
 * is as it was when it was new, and nothing is listed, has nothing in it.
 *
 * Some of it comes late: the kernel says a while after the last guest is gone that it has left
 * its multicast groups. So one rests before it is used again, and is looked at once more. */
#pragma once
#include <stddef.h>

struct err;
struct nets;

/* At most this many wait for a box: those of as many as may be buried at once, and more; but
 * no more than fd_count_spare(). */
#define NETS_MAX 64

/* They rest for that long: the kernel's first word about a group comes after three of its ticks at
 * most, of which the slowest takes 10 ms; and who says it may have to wait for a processor, which
 * does not get faster with the ticks. */
#define NETS_SETTLE_MS 50u

/* Move this process, which has one thread, into a network namespace of its own, for good: from
 * there others can be made and entered, also by a plain user. */
int nets_new(struct nets **ret, struct err *err);
void nets_free(struct nets *n);

/* One in which nobody is: to be closed, or given back. */
int nets_take(struct nets *n, int *ret_fd, struct err *err);

/* All that were in this one are gone and reaped: keep it if it shows no trace of them. Takes the
 * descriptor. */
void nets_give(struct nets *n, int fd);

/* How many wait. */
size_t nets_count(const struct nets *n);

/* Be there, for the moment of a clone; then back home. */
int nets_enter(int fd);
void nets_leave(const struct nets *n);
