/* Our own program, as a guest could come across it. All functions are for processes
 * with one thread. */
#pragma once
#include <stddef.h>

struct err;

/* Run from a copy in memory that nobody can change, where the file belongs to the user
 * that guests will be: a guest that gets the keeper to execute /proc/self/exe, as
 * "#!/proc/self/exe" in an image does, is led to that file on the host, past every
 * mount of its box, and could change its mode (CVE-2019-5736 is the like of it).
 *
 * Returns 0 when there is nothing to do, which holds from the second time on; does not
 * return when it executes the copy. Descriptors without O_CLOEXEC stay open. */
int program_seal(struct err *err);

/* Execute a program that is given as bytes, from memory that nobody can change, with our
 * environment. Returns only when that fails. */
int program_execute(const void *bytes, size_t size, char **argv, struct err *err);

/* Overwrite the arguments and the environment that this process was started with: they
 * are the keeper's, a guest can read those of its init, and they name the host's paths. */
int program_forget_arguments(struct err *err);
