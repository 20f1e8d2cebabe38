/* Writes files and trees as a pack stream into a stream socket, or a pipe, if the caller
 * does not get SIGPIPE. Links are never followed below the start of a tree. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ipc/pack.h"

struct twins;

struct pack_writer {
	int fd;             /* borrowed */
	uint64_t max_bytes; /* a file that would pass this is sent as PACK_SKIP; -EFBIG in a tree
			       that is sent whole */
	uint64_t n_bytes;
	uint64_t n_entries;
	bool files_only;     /* no directories, no links; what can not be sent is left out */
	struct twins *twins; /* borrowed; if there are any, a tree is sent whole: with hard links
				and times, without sockets, fifos and devices, and what else
				can not be sent is an error */
	char *const *globs;  /* only files that match one; NULL for all */
	bool (*is_hidden)(const char *name); /* is left out at the top of a tree; may be NULL */
};

/* Whether a pattern, as people write it for /workspace, fits the name of an entry. */
bool pack_glob_fits(const char *glob, const char *name);

/* The head of an entry that is no end mark: a file whose `size` bytes follow by
 * pack_write_data(), or a directory. */
int pack_write_head(struct pack_writer *w, enum pack_kind kind, const char *name, uint32_t mode,
	uint64_t size, struct err *err);
int pack_write_data(struct pack_writer *w, const void *data, size_t size, struct err *err);

/* One file with the given bytes. */
int pack_write_bytes(struct pack_writer *w, const char *name, uint32_t mode, const void *data,
	uint64_t size, struct err *err);

/* The open regular file `fd`, from its start. */
int pack_write_file(struct pack_writer *w, const char *name, int fd, struct err *err);

/* The open directory `dir_fd` with everything below it, as `prefix`/... or, when
 * that is empty, what is below it at the top. Sorted by name, so that equal trees give equal
 * streams. */
int pack_write_tree(struct pack_writer *w, const char *prefix, int dir_fd, struct err *err);

/* The end mark; without it the other side calls the stream cut short. */
int pack_write_end(struct pack_writer *w, struct err *err);
