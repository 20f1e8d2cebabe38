/* The names and sizes of what an archive or a stream of files holds, in the order in which it
 * came: made in a first reading, so that limits and conflicts are settled before the second
 * one acts. Names are kept, so their total is limited. Plain memory, no thread of its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define MANIFEST_ENTRIES_MAX 100000u
#define MANIFEST_NAMES_MAX   (16u << 20) /* bytes of all names */

struct manifest_entry {
	char *name;    /* relative, clean */
	uint64_t size; /* of a file */
	uint32_t mode;
	size_t group;     /* which archive it is from */
	uint64_t ordinal; /* its place there */
	bool is_dir;
	bool dropped; /* not to be written ... */
	bool is_lost; /* ... because it lies below a name that is a file */
};

struct manifest {
	struct manifest_entry *at;
	size_t n;
	size_t room;
	size_t names_bytes;
};

void manifest_fini(struct manifest *m); /* one that is all zero is empty */

/* Append a copy of `e`, name included. -E2BIG with a sentence over the limits above. */
int manifest_add(struct manifest *m, const struct manifest_entry *e, struct err *err);

/* Forget all but the first `n` entries. */
void manifest_cut(struct manifest *m, size_t n);

/* Drop what can not be written together: of equal names all but the last, and what lies
 * below a name that is a file. Returns how many files were dropped for the latter reason: the
 * former are replaced, not lost. */
size_t manifest_settle(struct manifest *m);

/* How many directories are above the last part of `name`. */
size_t manifest_depth(const char *name);
