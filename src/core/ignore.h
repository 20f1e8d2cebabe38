/* Patterns of the kind a .dockerignore holds, for what an upload leaves out. A pattern is
 * relative to the top: `*` and `?` and `[a-z]` stay within one part of a path, `**` crosses
 * them, a slash in front or behind means nothing, `\` takes the next character literally. A
 * pattern that matches a directory matches all below it. The last pattern that matches
 * decides, and one that begins with `!` takes a path back in. Blank lines and those that begin
 * with `#` say nothing.
 *
 * Patterns come from strangers: their number, their length, and the work that all matching
 * together may take are limited. One list is used by one thread at a time. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct err;
struct ignore;

#define IGNORE_PATTERNS_MAX 1000u
#define IGNORE_PATTERN_MAX  500u        /* bytes of one */
#define IGNORE_FILE_MAX     (64u << 10) /* bytes of a file of them */
#define IGNORE_WORK_MAX     (UINT64_C(1) << 28)

/* An empty list that the caller must ignore_free(); aborts without memory. */
struct ignore *ignore_new(void);
void ignore_free(struct ignore *g); /* NULL is allowed */

/* Add one pattern, as on a line of its own. -EINVAL for one that is malformed, or with ".."
 * or a NUL in it; -E2BIG for one too many or too long. */
int ignore_add(struct ignore *g, const char *pattern, struct err *err);

/* Add the lines of a file; an error names the line. */
int ignore_add_text(struct ignore *g, const char *text, size_t size, struct err *err);

/* 1 when `path`, relative and clean, is to be left out; 0 when not; -E2BIG when all calls for
 * this list together have taken more than IGNORE_WORK_MAX steps. */
int ignore_match(struct ignore *g, const char *path, struct err *err);

DEFINE_CLEANUP(struct ignore, ignore_free)
