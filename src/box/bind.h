/* Mounts as descriptors: made or cloned aside, attached when they are as they should be.
 * For the process that assembles a root. */
#pragma once
#include <linux/mount.h>
#include <stdint.h>

struct err;

/* Put the detached mount `mount_fd` on `path` below `dir_fd`, which names the caller's
 * own tree: no link is expected on the way. */
int bind_attach(int mount_fd, int dir_fd, const char *path, struct err *err);

/* A detached copy of the mount tree at `path`, or at `dir_fd` itself when that is empty,
 * with MOUNT_ATTR_* `attributes` for all of it. The caller owns `*ret`. */
int bind_clone(int dir_fd, const char *path, uint64_t attributes, int *ret, struct err *err);

/* A detached tmpfs, its top of that mode, nosuid. The caller owns `*ret`. */
int bind_tmpfs(const char *mode, const char *size, int *ret, struct err *err);

#define BIND_READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Show the host's `from` as `path` below `dir_fd`, where something of its kind exists. */
int bind_read_only(const char *from, int dir_fd, const char *path, struct err *err);
