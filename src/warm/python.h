/* CPython without its headers: a template works with whichever Python 3 the image has, so
 * its functions are looked up by name, and only those that keep their shape are used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct guest_fds;
struct spec;

/* Start the interpreter that this process is, as `program`, and import `imports`, names separated
 * by commas. What can not be imported is left out, and said in `notes`. */
int python_load(
	const char *program, const char *imports, char *notes, size_t notes_size, struct err *err);

/* Like guest_start(): a clone of this interpreter if that makes no difference to the guest, else
 * whatever the specification says, executed. */
pid_t python_start_guest(
	const struct spec *spec, const struct guest_fds *fds, bool *ret_is_clone, struct err *err);

/* fork(), such that both processes can go on with Python. */
pid_t python_fork(void);

/* Whether Python takes this for text. */
bool python_is_utf8(const char *text);
