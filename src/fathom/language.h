/* Which languages can be executed: those of the one table whose program is there. */
#pragma once
#include <stddef.h>

struct err;
struct lang;

/* The language `name`, for an execution in `image`. Only of the host's own files can be told what
 * is there; another image says so when it is used. -ENOENT with a sentence that names those
 * there are. */
int language_find(const char *name, const char *image, const struct lang **ret, struct err *err);
