/* Starting the guest program: the last things that are its own and not its
 * box's, then execve. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct spec;

struct guest_fds {
	int in;
	int out;
	int err;
	int tty;   /* instead of the three; -1 for none */
	int reply; /* becomes SPEC_REPLY_FD; -1 for none */
};

/* What is the same for all guests comes to each from the process that starts it, which does this
 * ahead of them: limits, and signals that somebody has ignored or handled. */
int guest_set_bounds(struct err *err);
void guest_reset_handlers(void);

/* Start it and return its pid once it executes, or a negative errno when it can
 * not be executed, with the sentence in `err`. Blocks until that is known. */
pid_t guest_start(const struct spec *spec, const struct guest_fds *fds, struct err *err);

/* The parts of it, for who has another way to become the guest.
 *
 * In the new process: its session, descriptors, directory and limits. NULL, or what failed with
 * errno. `keep_fd` (-1 for none) is closed by the caller instead. Does not allocate. */
const char *guest_settle(const struct spec *spec, const struct guest_fds *fds, int keep_fd);

/* None is blocked any more. */
void guest_unblock_signals(void);

/* The value of an environment variable of the guest; NULL when it has none. */
const char *guest_find_variable(const struct spec *spec, const char *name);

/* The file that would be executed, if it is there; false when there is none, or its path does
 * not fit. */
bool guest_find_program(const struct spec *spec, char *buf, size_t size);
