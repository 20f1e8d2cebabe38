/* For git.c: a tree of a repository, perhaps with a patch, as files. */
#pragma once
#include <git2/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct git_files {
	git_repository *repo;
	const char *patch; /* or NULL */
	size_t patch_size;
	uint64_t max_bytes; /* of all files */
	const char *into_dir;
};

/* Write them, without submodules and links that leave the directory. -EINVAL for a patch that
 * does not apply or makes such a link, -E2BIG for too many, too deep or too long names, -EFBIG over
 * max_bytes. */
int git_files_write(const struct git_files *files, git_tree *tree, struct err *err);

/* True when a link at `path`, read as `target`, stays below the top: it is relative, goes up
 * only at its start, and not further than to the top. */
bool git_files_link_stays(const char *path, const char *target);
