/* Cleaning up after a keeper that died: its parent groups, wherever one could be,
 * with all that still runs in them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"

/* A killed process may take a while to be gone: this often, with a millisecond
 * between, is tried to remove its group. */
#define SWEEP_TRIES 2000

/* Parent, box, and what a box might make in a hierarchy that was shown to it. */
#define SWEEP_DEPTH_MAX 16

typedef int dir_cb(int fd, const char *name, void *ctx);

/* Call `each` for all directories in `fd`, until one returns an error. */
static int for_each_dir(int fd, dir_cb *each, void *ctx)
{
	CLEANUP(fd_close_dirp) DIR *dir = fd_open_dir(fd);
	const struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		int r = each(fd, entry->d_name, ctx);
		if (r < 0)
			return r;
	}
	return 0;
}

typedef int base_cb(
	const struct cgroup_mount *m, const struct cgroup_base *base, int base_fd, void *ctx);

/* Call `each` for all directories in which a parent group can be. */
static int for_each_base(base_cb *each, void *ctx, struct err *err)
{
	CLEANUP(cgroup_mounts_fini) struct cgroup_mounts mounts = { 0 };

	int r = cgroup_mounts_read(&mounts, err);
	for (size_t i = 0; r >= 0 && i < mounts.n; i++) {
		const struct cgroup_mount *m = &mounts.items[i];
		struct cgroup_base bases[CGROUP_BASES_MAX];
		AUTO_FD root_fd = cgroup_mount_open(m);

		if (root_fd < 0)
			continue;
		size_t n = cgroup_mount_bases(m, root_fd, bases);
		for (size_t k = 0; r >= 0 && k < n; k++) {
			AUTO_FD base_fd = cgroup_base_open(root_fd, &bases[k]);

			if (base_fd >= 0)
				r = each(m, &bases[k], base_fd, ctx);
		}
	}
	return r;
}

struct sweep {
	const char *name;
	bool killing; /* else removing */
	struct err *err;
};

static int kill_below(int fd, const char *name, void *depth)
{
	int level = *(int *)depth + 1;
	AUTO_FD dir_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fd_write_text(dir_fd, "cgroup.kill", "1") == 0)
		return 0; /* and with it all that is below */
	if (level > SWEEP_DEPTH_MAX)
		return -ELOOP;
	(void)fd_write_text(dir_fd, "pids.max", "0");
	int r = cgroup_kill_listed(dir_fd);
	return r < 0 && r != -EAGAIN ? r : for_each_dir(dir_fd, kill_below, &level);
}

static int remove_below(int fd, const char *name, void *depth)
{
	int level = *(int *)depth + 1;

	if (level > SWEEP_DEPTH_MAX)
		return -ELOOP;
	if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	AUTO_FD dir_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	int r = for_each_dir(dir_fd, remove_below, &level);
	if (r < 0)
		return r;
	return unlinkat(fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_parent(int base_fd, const char *name)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int depth = 0;
	int r = 0;

	for (int i = 0; i < SWEEP_TRIES; i++) {
		r = remove_below(base_fd, name, &depth);
		if (r != -EBUSY)
			return r;
		/* again, since something may have been forked while it was killed */
		r = kill_below(base_fd, name, &depth);
		if (r < 0)
			return r;
		(void)nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

static bool is_inside(
	const struct cgroup_mount *m, const struct cgroup_base *base, const char *name)
{
	if (!m->own)
		return false;
	const char *rest = m->own + base->size;
	rest = str_after(rest + strspn(rest, "/"), name);
	return rest && (*rest == '/' || *rest == '\0');
}

static int sweep_base(
	const struct cgroup_mount *m, const struct cgroup_base *base, int base_fd, void *ctx)
{
	const struct sweep *s = ctx;
	int depth = 0;

	if (is_inside(m, base, s->name))
		return err_set(s->err, -EDEADLK, "control group '%s' holds this process", s->name);
	int r = s->killing ? kill_below(base_fd, s->name, &depth) : remove_parent(base_fd, s->name);
	if (r < 0)
		return err_set(s->err, r, "%s control group '%s' of %s: %s",
			s->killing ? "kill" : "remove", s->name, m->path, strerror(-r));
	return 0;
}

int cgroup_sweep(const char *name, struct err *err)
{
	struct sweep s = { .name = name, .killing = true, .err = err };

	int r = cgroup_check_name(name, err);
	if (r < 0)
		return r;
	/* all are killed first, for one hierarchy's dead are the other's too */
	r = for_each_base(sweep_base, &s, err);
	if (r < 0)
		return r;
	s.killing = false;
	return for_each_base(sweep_base, &s, err);
}
