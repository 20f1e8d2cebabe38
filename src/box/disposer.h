/* Closes files for the keeper. To close the last descriptor of a file system in memory is to free
 * all that is in it: half a second for a gigabyte or a million files, in which the keeper's one
 * thread would serve nobody. A process that holds nothing but a socket does it instead, one
 * descriptor after the other. It is started when it is first needed, and ends with the keeper. */
#pragma once
#include <sys/types.h>

struct disposer {
	pid_t pid;  /* 0 until it is needed; the keeper's child */
	int socket; /* valid while there is a pid */
};

/* Close `*fd`, here or there, and set it to -1; nothing for -1. The caller must not hold another
 * descriptor of the same thing, or nothing is freed yet. */
void disposer_close(struct disposer *d, int *fd);

/* What it was given is still freed, but nobody waits for that. */
void disposer_fini(struct disposer *d);
