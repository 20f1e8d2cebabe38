/* A tar or zip archive within a spooled file, read member by member in constant memory. Tar
 * may be compressed once with gzip, bzip2, xz or zstd; nothing else that libarchive knows is
 * tried. Archives come from strangers: what the headers of a member take, what all unpack to,
 * and the ratio of that to the archive's size are limited while it is read.
 *
 * Used by one thread from open to free, whose locale it changes meanwhile. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct extract;

enum extract_format {
	EXTRACT_TAR,
	EXTRACT_ZIP,
};

/* Unpacked bytes for which the ratio is not yet looked at: an archive of one small file is
 * mostly padding, which packs well. */
#define EXTRACT_RATIO_FREE (1u << 20)

struct extract_source {
	int fd; /* borrowed; only pread() is used */
	uint64_t offset, size;
	enum extract_format format;
	uint64_t max_bytes; /* that all members unpack to */
	uint64_t max_ratio; /* of that to `size`; 0: any */
};

enum extract_kind {
	EXTRACT_FILE,
	EXTRACT_DIR,
	EXTRACT_OTHER, /* links of both kinds, devices, fifos, sockets */
};

struct extract_member {
	enum extract_kind kind;
	const char *name; /* as it is in the archive; NULL when there is none; until the next */
	bool is_executable;
};

int extract_open(const struct extract_source *source, struct extract **ret, struct err *err);
void extract_free(struct extract *x); /* NULL is allowed */

/* The next member. 1, or 0 at the end (with all checksums right), or -EBADMSG for a damaged
 * archive, -EFBIG over max_bytes, -E2BIG over max_ratio, -EIO. */
int extract_next(struct extract *x, struct extract_member *ret, struct err *err);

/* The next bytes of the member; holes come as zeros. 1, or 0 at its end, or an error as above.
 * The bytes stay until the next call. */
int extract_data(struct extract *x, const void **ret, size_t *ret_size, struct err *err);

DEFINE_CLEANUP(struct extract, extract_free)
