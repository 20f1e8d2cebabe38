/* Uploads into a workspace: spooled parts of a request, or files that stand in its body,
 * become entries of a pack stream that a box unpacks. Everything here blocks, so it runs in a
 * thread of the pool, and nothing is written before all of it has been read once and is
 * known to be within the limits. Whoever calls writes the end mark, or closes the socket
 * without one after an error: then the workspace stays as it was. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pack_writer;

enum upload_kind {
	UPLOAD_BY_NAME, /* .tar and .zip with their kin are unpacked, all others stored */
	UPLOAD_TAR,
	UPLOAD_ZIP,
	UPLOAD_PLAIN,
};

struct upload_source {
	int fd; /* borrowed; its position is left alone */
	uint64_t offset, size;
	const char *name; /* the part's filename, or NULL */
	enum upload_kind kind;
};

struct upload_limits {
	uint64_t max_bytes;  /* written, all together */
	uint64_t max_files;  /* directories do not count */
	uint64_t max_depth;  /* directories above a file; 0: as deep as a box allows */
	uint64_t max_ratio;  /* of what an archive unpacks to, to its size; 0: any */
	bool block_binaries; /* leave programs and other binary files out ... */
	char *const *allow;  /* ... but for those that fit one of these patterns; NULL for none */
	char *const *ignore; /* patterns of core/ignore.h, ended by NULL; NULL for none */
};

/* What is ignored may be in an archive, but not without end: it is all read, and in total it
 * may unpack to this many times max_bytes. */
#define UPLOAD_READ_FACTOR 4u

struct upload_result {
	uint64_t n_bytes;
	uint64_t n_files;
	uint64_t n_skipped;  /* names that are unsafe or in conflict, links, devices */
	uint64_t n_ignored;  /* by a pattern */
	uint64_t n_binaries; /* blocked */
};

/* Write all sources. Of an equal name the last one wins. A .dockerignore at the top of an
 * archive applies to that archive, on top of `limits->ignore`.
 *
 * -EBADMSG for an archive that is damaged or none, with its name; -EFBIG over max_bytes; -E2BIG
 * over another limit, which the sentence names; -EINVAL for a malformed pattern; anything else is a
 * failure of ours or of the box. */
int upload_pack(const struct upload_source *sources, size_t n, const struct upload_limits *limits,
	struct pack_writer *w, struct upload_result *ret, struct err *err);

struct upload_inline {
	const char *path;
	const void *data;
	size_t size;
};

/* Write files that stand in a request. Nothing is left out silently: a path that is not clean
 * or in conflict with another is -EINVAL, "invalid inline file at index 3: ...". */
int upload_pack_inline(const struct upload_inline *files, size_t n,
	const struct upload_limits *limits, struct pack_writer *w, struct upload_result *ret,
	struct err *err);

/* What becomes of a part with this filename: never UPLOAD_BY_NAME. */
enum upload_kind upload_kind_of(const char *name);

/* The name a member gets, cleaned of "./" and doubled or trailing slashes. False for one that
 * is absolute, leaves the workspace, holds a backslash, or is too long; an empty one for the
 * top itself. `ret` has room for PACK_NAME_MAX + 1 bytes. */
bool upload_clean_name(const char *name, char *ret);

/* True when the first bytes of a file are not text: a NUL, or the mark of a program. */
bool upload_is_binary(const void *head, size_t size);

/* Whether a file may be binary where binaries are blocked: its path fits one of these patterns,
 * which end with NULL. A list of patterns that is malformed allows none. */
bool upload_may_be_binary(char *const *allow, const char *path);

/* How much of a file upload_is_binary() wants to see. */
#define UPLOAD_HEAD_SIZE 8192u
