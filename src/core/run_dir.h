/* The directories of runs, below the data directory:
 *
 *	meta/fresh/<run>/     of runs that are not over, and of some that were: spare ones
 *	<user>/runs/<run>/    of runs that are over and left more than their row can hold
 *
 * To make a directory with its files costs more than all else that the service does for a
 * short run, and the more so the more were removed lately. So those of short runs are used
 * again: they stay open, are emptied, and get the name of the next run. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/uuid.h"
#include "core/stream.h"

struct service;

/* Spare ones that are kept, fewer if there can not be many descriptors; each has up to five. */
#define RUN_DIR_SPARES_MAX 32u
#define RUN_DIR_FDS        5u

struct run_dir_spares {
	size_t n;
	struct run_dir_spare {
		char id[UUID_SIZE + 1]; /* of the run that had it last: its name */
		struct stream_files files;
	} list[RUN_DIR_SPARES_MAX];
};

/* One for a new run: empty files, as far as there are any. It goes with us, unless it is kept. */
int run_dir_make(struct service *s, const char *id, struct stream_files *ret);

/* Give it the place where others find it. -ENOENT: there is none. */
int run_dir_keep(const struct service *s, const char *user, const char *id);

/* Remove one that is not kept. */
void run_dir_drop(const struct service *s, const char *id);

/* The run needs its files no more: takes them, empty, for another. */
void run_dir_give_back(struct service *s, const char *id, struct stream_files *files);

/* Open (and make) one that is kept. -ENOENT without `make`. */
int run_dir_open(const struct service *s, const char *user, const char *id, bool make, int *ret_fd);

/* After a restart, when the store's runs are known: remove what is not theirs. */
void run_dir_clear(struct service *s);

/* Let go of those that are spare. */
void run_dir_fini(struct service *s);
