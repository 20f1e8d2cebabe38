/* The languages we know: data, not code. */
#pragma once
#include <stddef.h>

struct lang {
	const char *name;
	const char *const *aliases; /* ends with NULL */
	const char *source;         /* the file name its source gets in the workspace */
	const char *const *argv;    /* how to run that, ends with NULL */
	const char *const *env;     /* ends with NULL */
};

/* Every language; ends with an entry without a name. */
extern const struct lang langs[];

/* The language called `name`, or NULL. */
const struct lang *lang_find(const char *name);

/* The known name that is nearest to a wrong one, or NULL. */
const char *lang_nearest(const char *name);
