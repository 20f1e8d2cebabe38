/* A directory that is filled from an archive nobody trusts. All names are looked
 * up below its root by the kernel (openat2), so that no link an earlier layer left
 * there can lead a write outside.
 *
 * Parents that are links are followed as if the tree were "/", which is what real
 * images need (a layer has /lib -> usr/lib, the next writes lib/x). The last word
 * of a path is never followed: what stood there is replaced.
 *
 * A tree also remembers which names the current layer made, since the whiteouts
 * of a layer hide what layers below it left, and nothing else.
 *
 * Messages are clauses about "it"; the caller puts the name of the entry in front. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define TREE_PATH_MAX  4096u /* with the terminating NUL */
#define TREE_NAME_MAX  255u
#define TREE_DEPTH_MAX 128u /* half of what fd_remove_tree() takes */

struct tree {
	int root_fd; /* borrowed */
	/* Set of hashes of (parent inode, name); zero is an empty slot. At most one
	 * entry per archive entry, which struct budget limits. */
	uint64_t *fresh;
	size_t n_fresh;
	size_t fresh_size;
};

void tree_init(struct tree *t, int root_fd);
void tree_fini(struct tree *t);

/* A new layer begins: all that is there becomes old. */
void tree_begin_layer(struct tree *t);

/* The path of an entry as the functions below want it: relative, no ".", no
 * doubled slash; "" is the root itself. -EINVAL for an absolute or empty path and
 * for "..", -ENAMETOOLONG beyond the limits above. */
int tree_clean_path(const char *raw, char clean[TREE_PATH_MAX], struct err *err);

/* Each makes one thing, with the parents that are missing, in place of what was
 * there. Nothing is readable only by its owner afterwards, and nothing writable by
 * others: ownership in an image means nothing here, so what root could read in the
 * image, everybody may. */
int tree_add_dir(struct tree *t, const char *path, struct err *err);
int tree_add_symlink(struct tree *t, const char *path, const char *target, struct err *err);

/* A second name for the file `target` (clean), which must be there. */
int tree_add_link(struct tree *t, const char *path, const char *target, struct err *err);

/* Returns a descriptor to write the content to; tree_seal_file() ends it. */
int tree_add_file(struct tree *t, const char *path, int *ret_fd, struct err *err);

/* Give a written file the mode that `mode` becomes here. */
int tree_seal_file(int fd, mode_t mode, struct err *err);

/* Hide what older layers left at `path`, or (opaque) below the directory `path`;
 * what is not there needs no hiding. */
int tree_hide(struct tree *t, const char *path, struct err *err);
int tree_hide_below(struct tree *t, const char *path, struct err *err);

/* Open a regular file for reading, inside of the directory `dir_fd`, following
 * links inside of it. -ENOENT when there is none. */
int tree_open_file(int dir_fd, const char *path, int *ret_fd, struct err *err);
