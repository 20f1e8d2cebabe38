#include "box/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/assemble.h"
#include "box/box.h"
#include "box/idmap.h"
#include "box/mount.h"

/* What a run may write between two looks at what there is, at first. */
#define SLACK_BYTES (UINT64_C(256) << 10)

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

/* What is in there by now, with `slack` beside it, is the least that the kernel accepts. */
static int shrink_here(const char *path, uint64_t bytes, uint64_t slack, uint64_t *ret_bytes)
{
	char options[160];
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return -errno;
	uint64_t used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	uint64_t files = (uint64_t)(fs.f_files - fs.f_ffree);
	uint64_t least = used + slack > bytes ? used + slack : bytes;
	/* An inode for each page, as mount_size_options() has it. */
	if (files + slack / 4096 > least / 4096)
		least = files * 4096 + slack;
	mount_size_options(least, options, sizeof(options));
	if (mount(NULL, path, NULL, MOUNT_SAFE | MS_REMOUNT, options) < 0)
		return -errno;
	*ret_bytes = least;
	return 0;
}

int workspace_shrink(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], uint64_t bytes,
	uint64_t *ret_bytes, struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	uint64_t slack = 0;
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	/* A run may write meanwhile. */
	do {
		r = shrink_here(path, bytes, slack, ret_bytes);
		slack = slack ? 2 * slack : SLACK_BYTES;
	} while (r == -EINVAL && slack <= bytes);
	leave(w);
	return r < 0 ? err_set(err, r, "shrink the workspace: %s", strerror(-r)) : 0;
}

static int clone_here(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

int workspace_clone(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], int *ret_fd,
	struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	int fd = clone_here(path);
	r = fd < 0 ? err_errno(err, "clone the workspace") : 0;
	leave(w);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

int workspace_remove(struct workspace_home *w, const char id[WORKSPACE_ID_SIZE + 1], int *ret_fd,
	struct err *err)
{
	char path[WORKSPACE_ID_SIZE + 2];
	int r = enter(w, err);

	if (r < 0)
		return r;
	path_of(id, path);
	AUTO_FD fd = clone_here(path);
	if (umount2(path, MNT_DETACH) < 0 || rmdir(path) < 0)
		r = err_errno(err, "remove the workspace");
	leave(w);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}
