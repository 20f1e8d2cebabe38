#include "probe/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "probe/deadline.h"

/* What a child reports: one write, so that it arrives whole or not at all. */
struct report {
	int code;
	struct err err;
};

/* Like fork(), into new namespaces. Where clone3 is hidden, as some container
 * engines do, the older call still tells what the kernel allows. */
static pid_t clone_into(uint64_t namespaces)
{
	struct clone_args args = { .flags = namespaces, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0 && errno == ENOSYS)
		pid = syscall(SYS_clone, (unsigned long)namespaces | SIGCHLD, NULL, NULL, NULL, 0);
	return (pid_t)pid;
}

static int write_map(const char *path, uint32_t id, struct err *err)
{
	char line[32];

	(void)snprintf(line, sizeof(line), "0 %u 1", id);
	int r = fd_write_text(AT_FDCWD, path, line);
	return r < 0 ? err_set(err, r, "write %s: %s", path, strerror(-r)) : 0;
}

static int map_self(uid_t uid, gid_t gid, struct err *err)
{
	/* without CAP_SETGID outside, gid_map can be written only after this */
	int r = fd_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "write /proc/self/setgroups: %s", strerror(-r));
	r = write_map("/proc/self/uid_map", uid, err);
	if (r < 0)
		return r;
	return write_map("/proc/self/gid_map", gid, err);
}

static void collect(int fd, pid_t pid, struct report *report)
{
	uint64_t deadline = deadline_now() + TRIAL_TIMEOUT_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = 0;

	do
		n = poll(&p, 1, deadline_left(deadline));
	while (n < 0 && errno == EINTR);

	if (n <= 0) {
		report->code = err_set(
			&report->err, -ETIMEDOUT, "no answer within %d ms", TRIAL_TIMEOUT_MS);
	} else if (fd_read_full(fd, report, sizeof(*report)) != (ssize_t)sizeof(*report)) {
		report->code = err_set(&report->err, -ECHILD, "the child that tried it died");
	}
	/* it has reported or never will; not yet reaped, so the pid is still its own */
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int trial_run(uint64_t namespaces, trial_fn *fn, const void *with, struct err *err)
{
	AUTO_FD in = -1;
	AUTO_FD out = -1;
	struct report report = { 0 };
	uid_t uid = geteuid();
	gid_t gid = getegid();

	int r = fd_pipe(&in, &out);
	if (r < 0)
		return err_set(err, r, "pipe: %s", strerror(-r));
	pid_t pid = clone_into(namespaces);
	if (pid < 0)
		return err_errno(err, "clone");
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (namespaces & CLONE_NEWUSER)
			report.code = map_self(uid, gid, &report.err);
		if (report.code == 0 && fn)
			report.code = fn(with, &report.err);
		(void)fd_write_full(out, &report, sizeof(report));
		_exit(0);
	}
	close_fdp(&out);
	collect(in, pid, &report);
	if (report.code < 0 && err)
		*err = report.err;
	return report.code;
}

int trial_user(const void *with, struct err *err)
{
	(void)with;
	/* AppArmor lets the namespace be made and takes the privilege inside away */
	return unshare(CLONE_NEWUTS) < 0 ? err_errno(err, "use privilege inside") : 0;
}

/* Directories one of which every system has; the mounts on them are the child's. */
static const char *const places[] = { "/tmp", "/run", "/var", "/usr", "/dev", "/etc" };

/* Mount over the first of the places that is there. */
static int mount_somewhere(const char *type, const char *options, const char **ret, struct err *err)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 && errno != EINVAL)
		return err_errno(err, "make mounts private");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (mount(type, places[i], type, MS_NOSUID | MS_NODEV, options) == 0) {
			*ret = places[i];
			return 0;
		}
		if (errno != ENOENT && errno != ENOTDIR)
			break;
	}
	return err_errno(err, "mount %s", type);
}

int trial_mount(const void *with, struct err *err)
{
	const char *place = "";

	(void)with;
	return mount_somewhere("tmpfs", "size=64k", &place, err);
}

int trial_workspace(const void *with, struct err *err)
{
	static const char zeros[128 << 10];
	const char *place = "";

	(void)with;
	int r = mount_somewhere("tmpfs", "size=64k", &place, err);
	if (r < 0)
		return r;
	AUTO_FD dir = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_FD fd = openat(dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "create a file in a tmpfs");
	if (fd_write_full(fd, zeros, sizeof(zeros)) != -ENOSPC)
		return err_set(err, -ENOTSUP, "a tmpfs of 64 KiB took 128 KiB");
	return 0;
}

int trial_pid(const void *with, struct err *err)
{
	(void)with;
	return getpid() == 1 ? 0 : err_set(err, -ENOTSUP, "its first process is not number 1");
}

int trial_net(const void *with, struct err *err)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct if_nameindex *names = if_nameindex();

	(void)with;
	for (struct if_nameindex *i = names; i && i->if_index; i++) {
		struct ifreq other = { 0 };

		/* tunnel devices may be born with a namespace: they are down and lead nowhere */
		(void)snprintf(other.ifr_name, sizeof(other.ifr_name), "%s", i->if_name);
		AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (ioctl(fd, SIOCGIFFLAGS, &other) == 0 && (other.ifr_flags & IFF_UP))
			return err_set(err, -ENOTSUP, "interface %s is up in it", other.ifr_name);
	}
	if_freenameindex(names);
	AUTO_FD fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "make a socket inside");
	return ioctl(fd, SIOCSIFFLAGS, &lo) < 0 ? err_errno(err, "bring lo up inside") : 0;
}

int trial_uts(const void *with, struct err *err)
{
	(void)with;
	return sethostname("box", 3) < 0 ? err_errno(err, "set the host name inside") : 0;
}

int trial_time(const void *with, struct err *err)
{
	(void)with;
	return unshare(CLONE_NEWTIME) < 0 ? err_errno(err, "make one") : 0;
}

int trial_proc(const void *with, struct err *err)
{
	const char *place = "";

	(void)with;
	return mount_somewhere("proc", NULL, &place, err);
}

int trial_overlay(const void *with, struct err *err)
{
	static const char *const dirs[] = { "lower", "upper", "work", "merged" };
	const char *place = "";

	(void)with;
	int r = mount_somewhere("tmpfs", "size=1m", &place, err);
	if (r < 0)
		return r;
	if (chdir(place) < 0)
		return err_errno(err, "enter %s", place);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (mkdir(dirs[i], 0700) < 0)
			return err_errno(err, "make a directory in a tmpfs");
	}
	if (mount("overlay", "merged", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work") <
		0)
		return err_errno(err, "mount overlay");
	return 0;
}

/* The newest of the calls, which came three releases after the rest. */
static int try_setattr(int fd, struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(err, "mount_setattr");
	return 0;
}

int trial_mount_api(const void *with, struct err *err)
{
	const char *place = "";

	(void)with;
	int r = mount_somewhere("tmpfs", "size=64k", &place, err);
	if (r < 0)
		return r;
	AUTO_FD fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return err_errno(err, "fsopen");
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "fsconfig");
	AUTO_FD made = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
	if (made < 0)
		return err_errno(err, "fsmount");
	if (move_mount(made, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, "move_mount");
	AUTO_FD copy = open_tree(AT_FDCWD, place, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (copy < 0)
		return err_errno(err, "open_tree");
	return try_setattr(copy, err);
}

int trial_rlimits(const void *with, struct err *err)
{
	struct rlimit few = { 16, 16 };

	(void)with;
	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		return err_errno(err, "setrlimit");
	if (fcntl(0, F_DUPFD_CLOEXEC, 20) >= 0)
		return err_set(err, -ENOTSUP, "RLIMIT_NOFILE does not hold");
	return 0;
}

/* Empty every set of capabilities, the bounding set first: that needs one. */
static int drop_capabilities(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return err_errno(err, "drop capability %lu from the bounding set", cap);
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_errno(err, "clear the ambient capabilities");
	if (syscall(SYS_capset, &head, none) < 0)
		return err_errno(err, "capset");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "set no_new_privs");
	return 0;
}

int trial_capabilities(const void *with, struct err *err)
{
	(void)with;
	int r = drop_capabilities(err);
	if (r < 0)
		return r;
	return chroot("/") == 0 ? err_set(err, -ENOTSUP, "chroot still works without any") : 0;
}

/* A filter that forbids one harmless call with an errno nothing else gives. */
int trial_seccomp(const void *with, struct err *err)
{
	struct sock_filter lines[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXFULL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(lines), .filter = lines };

	(void)with;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "set no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return err_errno(err, "load a filter");
	if (syscall(SYS_getppid) != -1 || errno != EXFULL)
		return err_set(err, -ENOTSUP, "a loaded filter does not filter");
	return 0;
}

int trial_box(const void *with, struct err *err)
{
	static trial_fn *const parts[] = {
		trial_pid,
		trial_net,
		trial_uts,
		trial_workspace,
		trial_proc,
		trial_rlimits,
		trial_capabilities,
		trial_seccomp,
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		int r = parts[i](with, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Any id will do that is in the range from which boxes get theirs. */
#define SOME_ID 1879048193u

int trial_switch(const void *with, struct err *err)
{
	(void)with;
	if (setresgid(SOME_ID, SOME_ID, SOME_ID) < 0 || setresuid(SOME_ID, SOME_ID, SOME_ID) < 0)
		return err_errno(err, "become another user");
	return 0;
}

int trial_as_other(const void *with, struct err *err)
{
	const struct trial_inner *inner = with;

	int r = trial_switch(NULL, err);
	if (r < 0)
		return r;
	/* changing ids took the files in /proc/self away from us */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return err_errno(err, "become dumpable");
	return trial_run(inner->namespaces, inner->run, NULL, err);
}

int trial_cgroup(const void *with, struct err *err)
{
	int r = fd_write_text(AT_FDCWD, with, "0");

	return r < 0 ? err_set(err, r, "enter a new group: %s", strerror(-r)) : 0;
}
