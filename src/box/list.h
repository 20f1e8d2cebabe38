/* Naming what is in a workspace, without touching what is in its files. It runs in the confined
 * init with the guest's own rights. However large a tree is, this is bounded: in entries and
 * bytes as inventory.h says, in depth, and in time. What was changed comes first, and then what
 * lies nearer to the top; files over the limits are counted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/inventory.h"

struct err;

#define LIST_DEPTH_MAX 16u /* directories below each other that are looked into */
#define LIST_MS        20u /* spent on one tree, and then it is cut */

/* The moment before a guest starts, so that one can say later what it changed. The time of a
 * change is that of the last tick of a clock, or finer: what was changed before and is not older
 * than this tick is known by its number and its time. */
struct list_mark {
	uint64_t at_ns; /* 0: no moment */
	size_t n;
	struct {
		uint64_t inode;
		uint64_t changed_ns;
	} recent[INVENTORY_ENTRIES_MAX];
};

void list_mark(struct list_mark *mark, int dir_fd);

/* Fill `ret` with what is below `dir_fd`, and what was changed since `mark` (NULL for none). */
void list_tree(int dir_fd, const struct list_mark *mark, struct inventory *ret);

/* The same for the workspace of this box, as a message into `fd`; with `digests` it has
 * the SHA-256 of files, as digests.h says. */
int list_send(int fd, const struct list_mark *mark, bool digests, struct err *err);
