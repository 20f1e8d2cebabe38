/* The keeper's side of a template (warm/template.h says what that is): how one is started, in a
 * user namespace below ours in which nobody but itself and its boxes is. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct box_host;
struct err;
struct root;

/* Descriptors of a template at its start. Its stdin, stdout and stderr are pipes, since those of
 * its clones will be. */
#define TEMPLATE_CONTROL_FD 3
#define TEMPLATE_LIBRARY_FD 4 /* the library that makes it one; closed once it is loaded */

struct template_process {
	pid_t pid;
	int pid_fd;
	int control_fd; /* non-blocking */
};

/* Start the Python of `root` as a template, with the library in `library_fd`, and tell it what
 * it must know. It answers with MESSAGE_TEMPLATE_READY, or _FAILED and its end. */
int template_start(const struct box_host *host, const struct root *root, int library_fd,
	const char *imports, struct template_process *ret, struct err *err);

/* Close; it ends by itself, after its boxes. True once it has been reaped: until then it is to
 * be called again. */
bool template_end(struct template_process *t);

/* Kill it, and its boxes with it; template_end() comes to an end then. */
void template_kill(const struct template_process *t);

/* The same, and wait for it. */
void template_fini(struct template_process *t);
