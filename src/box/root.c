#include "box/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/assemble.h"
#include "box/bind.h"
#include "box/clone.h"
#include "box/etc.h"

/* Directories of the host image; what is not listed does not exist in the box.
 * /var/tmp is a link to /tmp, since programs want it and it must be capped. */
static const struct {
	const char *path;
	mode_t mode;
} host_dirs[] = {
	{ "usr", 0755 },
	{ "etc", 0755 },
	{ "etc/ssl", 0755 },
	{ "proc", 0555 },
	{ "dev", 0755 },
	{ "tmp", 01777 },
	{ "var", 0755 },
	{ "var/lib", 0755 },
	{ "var/cache", 0755 },
	{ "run", 0755 },
	{ "mnt", 0755 },
	{ "mnt/data", 0755 },
	{ "workspace", 0755 },
	{ "root", 0755 },
	{ "home", 0755 },
	{ "sys", 0555 },
	{ "var/lib/belljar", 0755 },
	{ "var/lib/belljar/bin", 0755 },
};

/* Top-level names which a merged-/usr system has as links; taken over as links,
 * or bound when they are real directories. */
static const char *const host_tops[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static const struct {
	const char *path;
	const char *target;
} host_links[] = {
	{ "var/tmp", "../tmp" },
	{ "etc/mtab", "/proc/self/mounts" },
	{ "etc/os-release", "../usr/lib/os-release" },
	/* Names that programs have elsewhere; last in the PATH of a run. */
	{ "var/lib/belljar/bin/python", "/usr/bin/python3" },
	{ "var/lib/belljar/bin/nodejs", "/usr/bin/node" },
};

/* Files that name the box's own user and nothing of the host's. */
static const struct {
	const char *path;
	const char *text;
} host_files[] = {
	{ "etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
			"box:x:1000:1000:box:/workspace:/bin/sh\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n" },
	{ "etc/hosts", "127.0.0.1 localhost box\n::1 localhost box\n" },
	{ "etc/hostname", "box\n" },
	{ "etc/resolv.conf", "" },
	{ "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\n"
			       "protocols: files\n" },
	{ "etc/shells", "/bin/sh\n/bin/bash\n" },
};

static const struct device {
	const char *name;
	unsigned major;
	unsigned minor;
} devices[] = {
	{ "null", 1, 3 },
	{ "zero", 1, 5 },
	{ "full", 1, 7 },
	{ "random", 1, 8 },
	{ "urandom", 1, 9 },
	{ "tty", 5, 0 },
};

static const struct {
	const char *name;
	const char *target;
} device_links[] = {
	{ "ptmx", "pts/ptmx" },
	{ "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

/* Twice what etc.h copies into it at most. */
#define TMPFS_SIZE "4m"

static int write_file(int dir_fd, const char *path, const char *text, struct err *err)
{
	AUTO_FD fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_errno(err, "make /%s", path);
	int r = fd_write_full(fd, text, strlen(text));
	return r < 0 ? err_set(err, r, "write /%s", path) : 0;
}

static int add_host_tops(int dir_fd, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(host_tops); i++) {
		char from[16];
		char target[64];

		(void)snprintf(from, sizeof(from), "/%s", host_tops[i]);
		ssize_t n = readlink(from, target, sizeof(target) - 1);
		if (n >= 0) {
			target[n] = '\0';
			if (symlinkat(target, dir_fd, host_tops[i]) < 0)
				return err_errno(err, "link %s", from);
			continue;
		}
		if (errno != EINVAL)
			continue; /* the host has no such name */
		if (mkdirat(dir_fd, host_tops[i], 0755) < 0)
			return err_errno(err, "make %s", from);
		int r = bind_read_only(from, dir_fd, host_tops[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int fill_host(int dir_fd, bool privileged, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(host_dirs); i++) {
		if (mkdirat(dir_fd, host_dirs[i].path, host_dirs[i].mode) < 0)
			return err_errno(err, "make /%s", host_dirs[i].path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(host_links); i++) {
		if (symlinkat(host_links[i].target, dir_fd, host_links[i].path) < 0)
			return err_errno(err, "link /%s", host_links[i].path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(host_files); i++) {
		int r = write_file(dir_fd, host_files[i].path, host_files[i].text, err);
		if (r < 0)
			return r;
	}
	int r = bind_read_only("/usr", dir_fd, "usr", err);
	if (r == 0)
		r = add_host_tops(dir_fd, err);
	return r < 0 ? r : etc_add(dir_fd, privileged, err);
}

/* Read-only holds for the node, its owner and mode, not for what is written into it. */
#define DEVICE (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* A device node, or where we may not make one, the host's own bound in place. */
static int add_device(int dev_fd, const struct device *d, bool privileged, struct err *err)
{
	char from[32];
	AUTO_FD tree = -1;

	if (privileged) {
		if (mknodat(dev_fd, d->name, S_IFCHR | 0666, makedev(d->major, d->minor)) < 0)
			return err_errno(err, "make /dev/%s", d->name);
		if (fchmodat(dev_fd, d->name, 0666, 0) < 0)
			return err_errno(err, "open up /dev/%s", d->name);
		return 0;
	}
	(void)snprintf(from, sizeof(from), "/dev/%s", d->name);
	int r = write_file(dev_fd, d->name, "", err);
	if (r == 0)
		r = bind_clone(AT_FDCWD, from, DEVICE, &tree, err);
	return r < 0 ? r : bind_attach(tree, dev_fd, d->name, err);
}

static int fill_dev(int dev_fd, bool privileged, struct err *err)
{
	if (mkdirat(dev_fd, "pts", 0755) < 0 || mkdirat(dev_fd, "shm", 01777) < 0)
		return err_errno(err, "make the directories of /dev");
	for (size_t i = 0; i < ARRAY_SIZE(device_links); i++) {
		if (symlinkat(device_links[i].target, dev_fd, device_links[i].name) < 0)
			return err_errno(err, "link /dev/%s", device_links[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		int r = add_device(dev_fd, &devices[i], privileged, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_read_only(int mount_fd, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };

	if (syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(err, "make a mount read-only");
	return 0;
}

static int add_dev(int root_fd, bool privileged, struct err *err)
{
	AUTO_FD dev = -1;
	int r = bind_tmpfs("0755", TMPFS_SIZE, &dev, err);

	/* Attached first: mounts can be put only on what is in the namespace. */
	if (r == 0)
		r = bind_attach(dev, root_fd, "dev", err);
	if (r == 0)
		r = fill_dev(dev, privileged, err);
	return r < 0 ? r : make_read_only(dev, err);
}

/* `image_tree` is the image's, or -1 for the host's, which is made here. */
static int mount_root(const struct root_source *s, int image_tree, int *ret_fd, struct err *err)
{
	AUTO_FD tree = image_tree;
	bool is_host = tree < 0;
	int r = is_host ? bind_tmpfs("0755", TMPFS_SIZE, &tree, err) : 0;

	if (r == 0)
		r = bind_attach(tree, AT_FDCWD, s->stage_dir, err);
	if (r == 0 && is_host)
		r = fill_host(tree, s->privileged, err);
	if (r == 0)
		r = add_dev(tree, s->privileged, err);
	if (r == 0 && is_host)
		r = make_read_only(tree, err);
	if (r == 0)
		*ret_fd = take_fd(&tree);
	return r;
}

/* The procfs of a pid namespace whose only process is about to end. The host's
 * must still be in sight, or the kernel refuses it to a user namespace. */
static int mount_empty_proc(int root_fd, struct err *err)
{
	int status = 0;
	pid_t pid = clone_process(CLONE_NEWPID, -1, NULL);

	if (pid < 0)
		return err_errno(err, "make an empty pid namespace");
	if (pid == 0) {
		unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
		bool done = fchdir(root_fd) == 0 && mount("proc", "proc", "proc", flags, NULL) == 0;
		_exit(done ? 0 : errno);
	}
	if (waitpid(pid, &status, 0) < 0)
		return err_errno(err, "wait for the empty pid namespace");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
		return err_errno(err, "mount a procfs");
	}
	return 0;
}

/* What is assembled, for assemble_namespace(). */
struct assembly {
	const struct root_source *source;
	int tree; /* a clone of the image, or -1 for "host" */
};

static int assemble_here(void *ctx, struct err *err)
{
	const struct assembly *a = ctx;
	AUTO_FD root_fd = -1;
	int r = mount_root(a->source, a->tree, &root_fd, err);

	if (r == 0)
		r = mount_empty_proc(root_fd, err);
	return r < 0 ? r : assemble_leave_host(root_fd, err);
}

static int assemble_in_child(const struct root_source *s, int *ret_ns_fd, struct err *err)
{
	AUTO_FD tree = -1;

	/* Cloned here: in the new namespace the descriptor is a stranger's mount. */
	if (s->rootfs_fd >= 0 && bind_clone(s->rootfs_fd, "", BIND_READ_ONLY, &tree, err) < 0)
		return err ? err->code : -EIO;
	struct assembly a = { .source = s, .tree = tree };
	return assemble_namespace(assemble_here, &a, ret_ns_fd, err);
}

int root_assemble(const struct root_source *source, struct root **ret, struct err *err)
{
	struct root *root = xnew(struct root);

	(void)snprintf(root->image, sizeof(root->image), "%s", source->image);
	root->ns_fd = -1;
	root->rootfs_fd = -1;
	int r = assemble_in_child(source, &root->ns_fd, err);
	if (r < 0) {
		root_free(root);
		return err_wrap(err, r, "root");
	}
	*ret = root;
	return 0;
}

void root_free(struct root *root)
{
	if (!root)
		return;
	close_fdp(&root->ns_fd);
	close_fdp(&root->rootfs_fd);
	free(root);
}
