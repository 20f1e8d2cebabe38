/* Workspaces that outlive a run: file systems in memory, each with a size of its own, in
 * a mount namespace that only the keeper has. A box that is to use one gets a clone of the
 * mount, which it puts in place of its own /workspace. They are gone with the keeper. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc/spec.h"

struct box_host;
struct err;

/* How many there can be. */
#define WORKSPACES_MAX 1024u

struct workspace_home {
	const struct box_host *host;
	int ns_fd;             /* -1 until the first is made */
	const char *stage_dir; /* any directory: a mount point inside the new namespace only */
	bool is_known;         /* whether they can be mapped: */
	bool is_mapped;
};

void workspace_home_init(
	struct workspace_home *w, const struct box_host *host, const char *stage_dir);
void workspace_home_fini(struct workspace_home *w);

/* Are they for any box, each of which gets a clone with its own user, by idmap_mount()? Then
 * they are made for BOX_UID. Else each is for the boxes of one host user. */
bool workspace_home_is_mapped(struct workspace_home *w);

/* Make the workspace `id`, of `bytes`, whose files are `uid`'s. -EEXIST when there is one. */
int workspace_make(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uid_t uid,
	uint64_t bytes, struct err *err);

/* Give it another size; what is in it stays. -EBUSY when it holds more than that. */
int workspace_resize(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uint64_t bytes,
	struct err *err);

/* Give it `bytes`, or the little more that it holds by now: then nothing can be added until enough
 * is taken away. `*ret_bytes` is what it got. */
int workspace_shrink(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uint64_t bytes,
	uint64_t *ret_bytes, struct err *err);

/* A clone of its mount, for one box. The caller owns `*ret_fd`. */
int workspace_clone(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], int *ret_fd,
	struct err *err);

/* It has no name any more, and is gone once the last box that has it is, and `*ret_fd` is closed:
 * whoever closes the last one frees all that is in it, which takes a while. */
int workspace_remove(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], int *ret_fd,
	struct err *err);
