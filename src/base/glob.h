/* Patterns for paths. `*`, `?` and `[...]` stay within one path component; `**`
 * as a whole component stands for any number of them, none included. A pattern
 * without a slash is tried on the last component as well, so "*.png" finds one
 * anywhere. Time is bounded by the product of both lengths. */
#pragma once
#include <stdbool.h>

/* True when `path`, relative and without "." or ".." parts, matches. */
bool glob_match(const char *pattern, const char *path);
