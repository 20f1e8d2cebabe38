/* The server of a state directory, for a program that needs one: found by its beacon, or
 * started. Of several programs that start one at the same time, one succeeds and all use it. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct err;

struct attend {
	const char *root;    /* borrowed */
	const char *program; /* what is executed as `belljar serve` */
	unsigned wait_ms;    /* for a server to be ready */
	pid_t pid;           /* of the one that we started; 0: none, or gone */
	int log_fd;          /* what it says until it is ready; -1 */
};

/* A non-blocking connection, or a negative errno with a sentence; with `may_start` a server is
 * started when there is none. `*ret_url` is where others reach it, for the caller to free. */
int attend_connect(struct attend *a, bool may_start, char **ret_url, struct err *err);

/* It stays, and ends by itself. */
void attend_fini(struct attend *a);
