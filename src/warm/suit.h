/* Whether a clone of an interpreter is as good as a new one: nothing that the guest could ask for
 * may depend on how it was started. It is to run code given by -c or a file, with the environment
 * that the template was started with in all that Python or the C library read at their start, and
 * with no module in the place of one that was imported ahead. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct spec;

/* What a clone would be of. */
struct python {
	struct stat program;
	int minor;        /* 11 of Python 3.11 */
	int magic;        /* that its compiled files begin with, two bytes */
	const char *home; /* the template's $HOME */
	char **imported;  /* packages that a new one does not have; ends with NULL */
};

/* Asked in the init of a box, where the guest would be. If it is, `program` is what sys.executable
 * says; false also when its path does not fit. */
bool suit_is_clone_as_good(
	const struct python *p, const struct spec *spec, char *program, size_t size);
