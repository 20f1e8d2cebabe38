/* Running another program for the sake of the first lines that it prints, within
 * a time limit and leaving nothing behind. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* What is kept of the output; the rest is read and dropped. */
#define SPAWN_OUTPUT_MAX 4096

struct spawn {
	pid_t pid; /* 0: not started or already finished */
	int out_fd;
	uint64_t deadline;
	char output[SPAWN_OUTPUT_MAX];
};

/* Start `argv[0]`, an absolute path, in its own process group, with no input and
 * a bare environment. 0 or a negative errno. */
int spawn_start(struct spawn *s, const char *const argv[], uint64_t timeout_ms);

/* Wait for the end and kill what is left of the process group. Returns the exit
 * status, -ETIMEDOUT when it was killed, -EINTR when a signal ended it, -ESRCH when
 * it was not started. What it printed is in `output`, terminated. */
int spawn_finish(struct spawn *s);
