/* Starting the guest program: the last things that are its own and not its
 * box's, then execve. */
#pragma once
#include <sys/types.h>

struct err;
struct spec;

struct guest_fds {
	int in;
	int out;
	int err;
	int tty; /* instead of the three; -1 for none */
};

/* Start it and return its pid once it executes, or a negative errno when it can
 * not be executed, with the sentence in `err`. Blocks until that is known. */
pid_t guest_start(const struct spec *spec, const struct guest_fds *fds, struct err *err);
