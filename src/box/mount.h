/* How the writable file systems of a box are mounted. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/types.h>

/* Nothing in them is executed, is a device, or gives anybody else's rights. For a run that
 * executes its own files, the box lifts the first from its own mounts. */
#define MOUNT_SAFE (MS_NOSUID | MS_NODEV | MS_NOEXEC)

/* The options of a tmpfs of `bytes`, and the part of them that can be changed later. */
void mount_options(uint64_t bytes, const char *mode, uid_t uid, gid_t gid, char *buf, size_t size);
void mount_size_options(uint64_t bytes, char *buf, size_t size);
