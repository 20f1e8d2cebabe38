/* clone3() as a function that returns twice, for the single-threaded keeper. */
#pragma once
#include <stdint.h>
#include <sys/types.h>

/* Fork with namespace `flags`, into the cgroup behind `cgroup_fd` unless it is
 * -1 (v2 only). Returns 0 in the child, the pid in the parent with a pidfd in
 * `*ret_pid_fd` when that is not NULL, or -1 with errno set. */
pid_t clone_process(uint64_t flags, int cgroup_fd, int *ret_pid_fd);
