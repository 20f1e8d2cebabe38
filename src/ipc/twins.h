/* Files that have several names in one tree: which of them were met before, and under which name.
 * Owned by whoever walks the tree; one thread. */
#pragma once
#include <sys/stat.h>

struct err;

struct twins {
	void *root; /* a tree of <search.h> */
};

/* The name under which the file of `st` was met before, which stays the table's; or NULL in
 * `*ret`, and from now on it is known by `name`. -ENOMEM when there is no room to note it. */
int twins_meet(struct twins *t, const struct stat *st, const char *name, const char **ret,
	struct err *err);

void twins_fini(struct twins *t);
