#include "box/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/assemble.h"
#include "box/box.h"
#include "box/idmap.h"
#include "box/mount.h"

void workspace_home_init(
	struct workspace_home *w, const struct box_host *host, const char *stage_dir)
{
	*w = (struct workspace_home){ .host = host, .ns_fd = -1, .stage_dir = stage_dir };
}

void workspace_home_fini(struct workspace_home *w)
{
	close_fdp(&w->ns_fd);
}

bool workspace_home_is_mapped(struct workspace_home *w)
{
	if (!w->is_known)
		w->is_mapped = w->host->privileged && idmap_works();
	w->is_known = true;
	return w->is_mapped;
}

/* A root with room for mount points and nothing else. */
static int prepare(void *ctx, struct err *err)
{
	const struct workspace_home *w = ctx;
	char options[64];

	(void)snprintf(
		options, sizeof(options), "size=64k,nr_inodes=%u,mode=0700", WORKSPACES_MAX + 16);
	if (mount("tmpfs", w->stage_dir, "tmpfs", MOUNT_SAFE, options) < 0)
		return err_errno(err, "mount a tmpfs");
	AUTO_FD root = open(w->stage_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_errno(err, "open the tmpfs");
	return assemble_leave_host(root, err);
}

static int enter(struct workspace_home *w, struct err *err)
{
	int r = w->ns_fd >= 0 ? 0 : assemble_namespace(prepare, w, &w->ns_fd, err);

	if (r == 0 && setns(w->ns_fd, CLONE_NEWNS) < 0)
		return err_errno(err, "enter the namespace of workspaces");
	return r;
}

static void leave(const struct workspace_home *w)
{
	if (setns(w->host->home_ns_fd, CLONE_NEWNS) < 0)
		abort(); /* here the keeper is of no use to anybody */
}

static void path_of(const char *id, char ret[WORKSPACE_ID_SIZE + 2])
{
	(void)snprintf(ret, WORKSPACE_ID_SIZE + 2, "/%s", id);
}

static int make_here(const char *path, uid_t uid, gid_t gid, uint64_t bytes, struct err *err)
{
	char options[160];

	if (mkdir(path, 0700) < 0)
		return err_errno(err, "make the workspace");
	mount_options(bytes, "0755", uid, gid, options, sizeof(options));
	if (mount("tmpfs", path, "tmpfs", MOUNT_SAFE, options) < 0) {
		int r = err_errno(err, "mount the workspace");
		(void)rmdir(path);
		return r;
	}
	return 0;
}

int workspace_make(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uid_t uid,
	uint64_t bytes, struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	gid_t gid = w->host->privileged ? (gid_t)uid : getegid();
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	r = make_here(path, uid, gid, bytes, err);
	leave(w);
	return r;
}

int workspace_resize(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uint64_t bytes,
	struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	char options[160];
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	mount_size_options(bytes, options, sizeof(options));
	if (mount(NULL, path, NULL, MOUNT_SAFE | MS_REMOUNT, options) < 0)
		r = errno == EINVAL ? err_set(err, -EBUSY, "it holds more than that")
				    : err_errno(err, "resize the workspace");
	leave(w);
	return r;
}

int workspace_clone(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], int *ret_fd,
	struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	r = fd < 0 ? err_errno(err, "clone the workspace") : 0;
	leave(w);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

int workspace_remove(
	struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	if (umount2(path, MNT_DETACH) < 0 || rmdir(path) < 0)
		r = err_errno(err, "remove the workspace");
	leave(w);
	return r;
}
