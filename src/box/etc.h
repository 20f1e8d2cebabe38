/* What programs below /usr expect of /etc: the host's own directories, bound, and its
 * plain files, which are copied once into the root so that no box has a mount for each
 * of them to inherit and to give back. For the process that assembles a root.
 *
 * A copy is of the moment the root was assembled. That is also what a bind mount shows
 * of a file that is replaced, as packages and ldconfig do it; only what somebody writes
 * into the same file is seen later than before, by the next keeper. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

/* What is larger, or comes when so much is copied already, is bound. */
#define ETC_COPY_MAX  ((size_t)1 << 20)
#define ETC_TOTAL_MAX ((size_t)2 << 20)

/* How to show the host's files. */
struct etc {
	int root_fd;   /* the root, not yet read-only */
	size_t left;   /* bytes that may still be copied */
	bool may_copy; /* copies will not belong to the guest */
};

/* Show the host's `from` as `path` below the root, its last part to be made, nothing else
 * missing. What does not exist, or is neither a directory nor a plain file, is left out. */
int etc_show(struct etc *e, const char *from, const char *path, struct err *err);

/* Show all there is to show of the host's /etc. `privileged` as in root_source. */
int etc_add(int root_fd, bool privileged, struct err *err);
