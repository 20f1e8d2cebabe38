/* The mounts that belong to one box, on top of the assembled root: its processes,
 * its files, its terminals. They are made with the standard sizes, ahead of any
 * run; one that asks for others has them changed. */
#include "box/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "box/box.h"
#include "box/step.h"
#include "ipc/spec.h"

/* Entries of /proc that tell about the host or act on it. Those which the kernel
 * does not have are no loss; the rest is read-only as a whole. */
static const char *const masked_files[] = {
	"/proc/kcore",
	"/proc/keys",
	"/proc/key-users",
	"/proc/kallsyms",
	"/proc/kmsg",
	"/proc/timer_list",
	"/proc/sysrq-trigger",
	"/proc/sched_debug",
	"/proc/sys/kernel/random/boot_id",
};

static const char *const masked_dirs[] = { "/proc/acpi", "/proc/scsi", "/proc/asound" };

/* One inode for every 4 KiB, so that empty files can not eat unaccounted kernel
 * memory, but never too few for an ordinary tree. */
static unsigned long long inodes_for(uint64_t bytes)
{
	unsigned long long n = bytes / 4096;

	return n < 1024 ? 1024 : n;
}

#define WORKSPACE 0

/* The writable file systems of a box, and which limit sizes each. */
static const struct {
	const char *path;
	const char *mode;
	size_t limit; /* offset in struct limits */
} writable[] = {
	[WORKSPACE] = { "/workspace", "0755", offsetof(struct limits, workspace_bytes) },
	{ "/tmp", "1777", offsetof(struct limits, tmp_bytes) },
	{ "/dev/shm", "1777", offsetof(struct limits, tmp_bytes) },
};

static uint64_t size_of(size_t i, const struct limits *limits)
{
	return *(const uint64_t *)((const char *)limits + writable[i].limit);
}

void mount_size_options(uint64_t bytes, char *buf, size_t size)
{
	(void)snprintf(buf, size, "size=%llu,nr_inodes=%llu", (unsigned long long)bytes,
		inodes_for(bytes));
}

void mount_options(uint64_t bytes, const char *mode, uid_t uid, gid_t gid, char *buf, size_t size)
{
	char sizes[64];

	mount_size_options(bytes, sizes, sizeof(sizes));
	(void)snprintf(buf, size, "%s,mode=%s,uid=%u,gid=%u", sizes, mode, uid, gid);
}

static int mount_tmpfs(size_t i, uint64_t bytes, unsigned long flags, struct err *err)
{
	char options[160];

	mount_options(bytes, writable[i].mode, BOX_UID, BOX_GID, options, sizeof(options));
	if (mount("tmpfs", writable[i].path, "tmpfs", flags | MOUNT_SAFE, options) < 0)
		return err_errno(err, "mount %s", writable[i].path);
	return 0;
}

static int mask(const char *what, const char *path, struct err *err)
{
	if (mount(what, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
		return err_errno(err, "mask %s", path);
	return 0;
}

static int mask_proc(struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(masked_files) && r == 0; i++)
		r = mask("/dev/null", masked_files[i], err);
	/* Empty until a devpts is mounted on it, and ours, whatever the image holds. */
	for (size_t i = 0; i < ARRAY_SIZE(masked_dirs) && r == 0; i++)
		r = mask("/dev/pts", masked_dirs[i], err);
	if (r == 0 &&
		mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MOUNT_SAFE, NULL) < 0)
		return err_errno(err, "make /proc read-only");
	return r;
}

/* Of these mounts alone, which are this box's: a workspace that outlives it stays noexec. */
static int allow_exec(struct err *err)
{
	static const char *const paths[] = { "/workspace", "/mnt/data", "/tmp" };
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_NOEXEC };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		if (syscall(SYS_mount_setattr, AT_FDCWD, paths[i], 0, &attr, sizeof(attr)) < 0)
			return err_errno(err, "make files in %s executable", paths[i]);
	}
	return 0;
}

int mount_enter(struct step_context *c, struct err *err)
{
	struct spec standard;
	int r = mask_proc(err);

	spec_init(&standard);
	for (size_t i = 0; i < ARRAY_SIZE(writable) && r == 0; i++)
		r = mount_tmpfs(i, size_of(i, &standard.limits), 0, err);
	if (r < 0)
		return r;
	if (mount("/workspace", "/mnt/data", NULL, MS_BIND, NULL) < 0)
		return err_errno(err, "mount /mnt/data");
	/* All boxes share the terminals that /proc/sys/kernel/pty/max allows, usually 3072. */
	if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		    "newinstance,ptmxmode=0666,mode=0620,max=64") < 0)
		return err_errno(err, "mount /dev/pts");
	return c->exec ? allow_exec(err) : 0;
}

/* A workspace that outlives the run, instead of the box's own, which stays beneath. The
 * second name of it is a mount of its own, and has to follow. */
static int take_workspace(int fd, struct err *err)
{
	if (syscall(SYS_move_mount, fd, "", AT_FDCWD, writable[WORKSPACE].path,
		    MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, "mount the session's workspace");
	if (mount(writable[WORKSPACE].path, "/mnt/data", NULL, MS_BIND, NULL) < 0)
		return err_errno(err, "mount /mnt/data");
	return 0;
}

int workspace_enter(struct step_context *c, struct err *err)
{
	struct spec standard;
	int r = c->workspace_fd >= 0 ? take_workspace(c->workspace_fd, err) : 0;

	spec_init(&standard);
	for (size_t i = 0; i < ARRAY_SIZE(writable) && r == 0; i++) {
		uint64_t bytes = size_of(i, &c->spec->limits);

		/* The size of a session's is the keeper's to change. */
		if (i == WORKSPACE && c->workspace_fd >= 0)
			continue;
		if (bytes != size_of(i, &standard.limits))
			r = mount_tmpfs(i, bytes, MS_REMOUNT, err);
	}
	if (r == 0 && c->spec->exec && !c->exec)
		r = allow_exec(err);
	return r;
}
