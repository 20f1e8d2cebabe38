/* Patches as people and `diff -u` write them, for libgit2, which reads only those of `git diff`.
 * Works on text alone, in any thread. */
#pragma once
#include <stddef.h>

struct err;

/* What the added headers may make of a patch; names are repeated in them. */
#define GIT_PATCH_COMPLETE_MAX (64u << 20) /* bytes */

/* Give each file of a unified diff the "diff --git" header it lacks; those that have one, and
 * all text around, stay as they are. Names are taken as `git apply` takes them: up to a tab, or
 * quoted; without their first directory if they have one ("a/" and "b/", or those that `diff -r`
 * compared), the name alone if they have none. Other than there, two equal names are those of
 * `svn diff`, and a file that is new or deleted may be named without "a/" or "b/".
 *
 * 0 with a text that the caller must free(); -EINVAL for a hunk that is damaged or a file
 * without a name, with its line; -E2BIG over GIT_PATCH_COMPLETE_MAX. */
int git_patch_complete(
	const char *patch, size_t size, char **ret, size_t *ret_size, struct err *err);
