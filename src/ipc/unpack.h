/* Writes a pack stream below one directory. No link is followed on the way, so
 * nothing outside can be touched; existing files are replaced, directories never. */
#pragma once
#include "ipc/pack.h"

struct unpack {
	struct pack_sink sink; /* first: a sink is an unpack */
	int dir_fd;            /* borrowed */
	int fd;                /* the file being written, -1 for none */
	uint64_t max_bytes;
	bool files_only; /* a directory or link is an error; set after unpack_init() */
	bool whole;      /* so is a file that the sender left out; set in the same way */
	uint64_t n_bytes;
	uint64_t n_skipped;      /* files the sender left out */
	struct pack_entry entry; /* the one being written, while it needs its name later */
	char target[PACK_NAME_MAX + 1];
	size_t n_target;
};

void unpack_init(struct unpack *u, int dir_fd, uint64_t max_bytes);

/* Also removes a file that did not become whole: it would pass for one. */
void unpack_fini(struct unpack *u);
