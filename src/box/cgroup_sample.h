/* Real control groups for tests, of whatever version the host has; tests are skipped where none can
 * be made. */
#pragma once
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "box/clone.h"
#include "ipc/spec.h"
#include "lib/test.h"

#define MIB (1ull << 20)

static const struct limits wide = { .memory_bytes = 256 * MIB, .cpu_milli = 2000, .pids = 64 };

/* A name of a parent group that no other test or keeper has. */
static inline const char *fresh_name(void)
{
	static char name[CGROUP_NAME_MAX + 1];
	static int count;

	(void)snprintf(name, sizeof(name), "belljartest-%d-%d", getpid(), count++);
	return name;
}

static inline struct cgroup_host *open_host(void)
{
	struct cgroup_host *h = NULL;
	struct err err = { 0 };

	if (cgroup_host_open(&h, fresh_name(), &err) < 0)
		fail_msg("%s", err.text);
	if (h->n_trees == 0) {
		cgroup_host_free(h);
		SKIP("no control groups in which we could make one");
	}
	return h;
}

static inline struct cgroup_host *open_host_with(enum facet facet)
{
	struct cgroup_host *h = open_host();

	if (!(cgroup_host_facets(h) & FACET_BIT(facet))) {
		cgroup_host_free(h);
		SKIP("this host has no controller for it");
	}
	return h;
}

static inline struct cgroup *make_group(struct cgroup_host *h, const struct limits *limits)
{
	struct cgroup *cg = NULL;
	struct err err = { 0 };

	if (cgroup_new(h, "box", &cg, &err) < 0 || cgroup_set_limits(cg, limits, &err) < 0)
		fail_msg("%s", err.text);
	return cg;
}

/* Run `body` in the group, in a child which is its own session. */
static inline pid_t start_in(const struct cgroup *cg, void (*body)(void))
{
	const int *fds = NULL;
	size_t n = cgroup_join_fds(cg, &fds);
	pid_t pid = clone_process(0, cgroup_clone_fd(cg), NULL);

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	if (cgroup_join(fds, n, NULL) < 0)
		_exit(99);
	body();
	_exit(0);
}

static inline int wait_for(pid_t pid)
{
	int status = 0;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void pause_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	(void)nanosleep(&t, NULL);
}

static inline void remove_group(struct cgroup *cg)
{
	int r = -EBUSY;

	for (int i = 0; i < 1000 && r == -EBUSY; i++) {
		r = cgroup_remove(cg);
		if (r == -EBUSY)
			pause_ms(1);
	}
	CHECK_EQ(r, 0);
	cgroup_free(cg);
}

static const char *wanted;

static inline int is_wanted(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	(void)st;
	return kind == FTW_D && str_after(path + place->base, wanted);
}

/* True when some hierarchy has a group whose name begins with `prefix`. */
static inline bool has_group(const char *prefix)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts mounts = { 0 };
	bool found = false;

	wanted = prefix;
	CHECK_EQ(cgroup_mounts_read(&mounts, NULL), 0);
	for (size_t i = 0; i < mounts.n && !found; i++)
		found = nftw(mounts.items[i].path, is_wanted, 16, FTW_PHYS | FTW_MOUNT) == 1;
	return found;
}
