/* Trying things for real, in a child that can do no harm to its parent: it is
 * cloned into namespaces of its own, does one thing, reports by a pipe and exits.
 * The caller must be single-threaded. */
#pragma once
#include <stdint.h>

struct err;

/* Longest a trial may take. They take a few milliseconds; a host on which one
 * hangs must not make the doctor hang. */
#define TRIAL_TIMEOUT_MS 500

/* What is tried, in the child; 0, or a negative errno with a sentence. */
typedef int trial_fn(const void *with, struct err *err);

/* Run `fn` in a child in new namespaces (CLONE_NEW* flags; 0 for none). With
 * CLONE_NEWUSER the child is root in there, mapped to the caller's own ids. `fn`
 * may be NULL: then making the namespaces is all. Returns 0 or what failed;
 * -ETIMEDOUT when the child did not answer, -ECHILD when it died. */
int trial_run(uint64_t namespaces, trial_fn *fn, const void *with, struct err *err);

/* Things to try. */
int trial_user(const void *with, struct err *err);         /* be privileged inside */
int trial_mount(const void *with, struct err *err);        /* mount a tmpfs */
int trial_workspace(const void *with, struct err *err);    /* a tmpfs keeps its size */
int trial_pid(const void *with, struct err *err);          /* be process 1 */
int trial_net(const void *with, struct err *err);          /* own, but for lo empty */
int trial_uts(const void *with, struct err *err);          /* set the host name */
int trial_time(const void *with, struct err *err);         /* make a time namespace */
int trial_proc(const void *with, struct err *err);         /* mount a fresh /proc */
int trial_overlay(const void *with, struct err *err);      /* mount an overlay */
int trial_mount_api(const void *with, struct err *err);    /* fsopen, move_mount, ... */
int trial_rlimits(const void *with, struct err *err);      /* a limit holds */
int trial_capabilities(const void *with, struct err *err); /* drop all for good */
int trial_seccomp(const void *with, struct err *err);      /* a filter filters */
int trial_box(const void *with, struct err *err);          /* all that a box needs */

/* Become another user, as whom boxes of root run. */
int trial_switch(const void *with, struct err *err);

/* Give up root for another user first and then try something in new namespaces,
 * as the keeper of root does for a box. `with` is a struct trial_inner. */
struct trial_inner {
	uint64_t namespaces;
	trial_fn *run;
};
int trial_as_other(const void *with, struct err *err);

/* Enter the control group whose cgroup.procs file `with` names. */
int trial_cgroup(const void *with, struct err *err);
