/* Unpacking an archive into a tree, entry by entry, with every rule for what an
 * entry may be. A layer of an image also has whiteouts and digests. */
#pragma once
#include "base/digest.h"

struct budget;
struct err;
struct tree;

/* The digests that a layer must have; an empty one is not checked. */
struct layer_digests {
	char blob[DIGEST_HEX_SIZE + 1];  /* of the file as it is */
	char plain[DIGEST_HEX_SIZE + 1]; /* of the uncompressed archive, its diff_id */
};

/* Put the archive at `fd` on top of `tree`. On failure the tree is left half
 * changed and must be thrown away. -EINVAL and others name the entry. */
int layer_apply(struct tree *tree, int fd, const struct layer_digests *digests,
	struct budget *budget, struct err *err);

/* Unpack an archive that holds an image: the same without whiteouts. */
int layer_unpack_plain(struct tree *tree, int fd, struct budget *budget, struct err *err);
