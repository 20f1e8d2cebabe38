/* The languages we know: data, not code. What a language needs is part of its row, so that
 * one we know and this machine lacks is told from one nobody here has heard of. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct err;

/* Something that must be in the box's root before a language can be run. */
struct lang_need {
	const char *name;    /* a program, to be found like a guest finds it; or a whole path */
	const char *package; /* the Debian package that has it */
};

struct lang {
	const char *name;
	const char *const *aliases;    /* ends with NULL */
	const char *source;            /* the file name its source gets in the workspace */
	const char *const *argv;       /* how to run that, ends with NULL; arguments follow */
	const char *const *env;        /* ends with NULL */
	const struct lang_need *needs; /* ends with an entry without a name */
};

/* Every language; ends with an entry without a name. */
extern const struct lang langs[];

/* The language called `name`, or NULL. */
const struct lang *lang_find(const char *name);

/* The known name that is nearest to a wrong one, or NULL. */
const char *lang_nearest(const char *name);

/* Every name but the aliases, as in "python, javascript and shell". Cut where it does not fit. */
void lang_list(char *buf, size_t size);

/* Where the "host" image has the program that runs it, however the PATH of a guest is set:
 * "/usr/bin/python3". False when it is not there. Looks at the disk each time. */
bool lang_find_program(const struct lang *l, char *buf, size_t size);

/* The same for a guest with a PATH of its caller's, which is for the guest, and not for who runs
 * it. What is in another image we do not know: there it is looked for like any other program, by
 * its name. Either that or `buf`. NULL is the "host" image. */
const char *lang_program(const struct lang *l, const char *image, char *buf, size_t size);

/* Whether the "host" image can run it: 0, or -ENOENT with a sentence that names what is missing
 * and the package that has it. Looks at the disk each time, so that what was just installed
 * counts. */
int lang_check(const struct lang *l, struct err *err);
