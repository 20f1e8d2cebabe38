/* Process 1 of a box. It obeys the keeper, confines itself, starts the guest in
 * what is left, reaps everything, and reports how it ended. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "box/box.h"

struct init_args {
	const struct box_host *host;
	const int *join_fds; /* see cgroup_join() */
	size_t n_join_fds;
	int control_fd;
	uid_t uid; /* on the host */
	gid_t gid;
	enum seal seal; /* see struct box_order */
};

_Noreturn void init_main(const struct init_args *args);
