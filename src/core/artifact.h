/* The files a run left behind. A box sends them as a pack stream, which is spooled to
 * "capture" in the run's directory; afterwards they are unpacked there:
 *
 *	artifacts/       the files
 *	artifacts.json   their paths, sizes, kinds and digests; what is not in it is not there
 *
 * artifact_unpack() blocks and belongs in a thread of the pool; so does whoever reads an
 * artifact. Nothing here follows a link. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "core/mime.h"

struct err;

/* Files one run may leave; their names have to fit into artifacts.json. */
#define ARTIFACT_FILES_MAX 10000u

struct artifact_limits {
	uint64_t max_run_bytes;       /* of all files */
	uint64_t max_user_bytes_left; /* what the user's other runs leave for this one */
	uint64_t max_file_bytes;
};

struct artifact_summary {
	uint64_t n_files;
	uint64_t n_bytes;
	uint64_t
		n_skipped; /* over a limit, in conflict, or with a name that can not be asked for */
	bool cut_short;    /* the stream ended in the middle; what came before it is kept */
};

/* Unpack "capture", with limits applied in the order of sorted paths: a file that does not
 * fit is left out, and smaller ones behind it may still fit. A name that is not UTF-8, or that
 * artifact_path_is_safe() refuses, is left out as well, since nobody could ask for it. Then the
 * spool is removed.
 *
 * May be called again after a death at any moment, and gives the same. Without a capture the
 * summary is the one of artifacts.json, or zero. */
int artifact_unpack(int run_dir_fd, const struct artifact_limits *limits,
	struct artifact_summary *ret, struct err *err);

/* Remove them, and the list first: what is not in it is not there. */
void artifact_remove_all(int run_dir_fd);

/* All artifacts, [{"path","size","mime","sha256"}], sorted by path; empty when there are none
 * (any more). The caller must json_decref() it. */
int artifact_list(int run_dir_fd, json_t **ret, struct err *err);

struct artifact {
	int fd; /* for reading; the caller's */
	uint64_t size;
	char mime[MIME_SIZE];
	char sha256[DIGEST_HEX_SIZE + 1];
};

/* Open one. -EINVAL for a path that is not safe, -ENOENT for one that is not in the list. */
int artifact_open(int run_dir_fd, const char *path, struct artifact *ret, struct err *err);

/* False for a path with ".." anywhere, a backslash, a slash in front or behind, an empty or "."
 * part, a control character; also when that only shows after (repeatedly) undoing
 * percent-encoding, for some proxy or client will. */
bool artifact_path_is_safe(const char *path);
