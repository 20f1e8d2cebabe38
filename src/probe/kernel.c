#include "probe/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "probe/host.h"
#include "probe/subid.h"
#include "probe/tool.h"
#include "probe/trial.h"
#include "probe/version.h"

/* mount_setattr(), by which the read-only root of a box is made, came with it. */
static const struct version oldest = { 5, 12, 0 };

/* From this on Landlock also holds truncation, which is writing too. */
#define LANDLOCK_ABI_WANTED 3

/* Does this code mean that one could not find out, rather than that it is not
 * there? A process limit or a kernel short of memory says nothing of a feature. */
static bool is_inconclusive(int code)
{
	/* ENOENT is /proc, without which no user namespace can be mapped */
	static const int codes[] = { -ETIMEDOUT, -ECHILD, -EAGAIN, -ENOMEM, -EMFILE, -ENFILE,
		-ENOENT };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		if (codes[i] == code)
			return true;
	}
	return false;
}

static enum probe_state state_of(int code)
{
	return code == 0 ? PROBE_OK : is_inconclusive(code) ? PROBE_UNKNOWN : PROBE_MISSING;
}

/* What can not be tried for want of a user namespace. */
static void find_no_user(const struct host *host, struct finding *ret)
{
	finding_set(ret, state_of(host->user_error), "needs a user namespace, and there is none");
	ret->fix = "first get user namespaces: see the row 'user'";
}

void kernel_probe_trial(const struct probe *self, const struct host *host, struct finding *ret)
{
	const struct kernel_trial *t = self->with;
	struct err err = { 0 };
	uint64_t user = t->needs_user ? host->namespaces : 0;

	if (t->needs_user && !user && !host->is_privileged) {
		find_no_user(host, ret);
		return;
	}
	int r = trial_run(user | t->namespaces, t->run, NULL, &err);
	if (r < 0)
		finding_set(ret, state_of(r), "%s", err.text);
	else
		finding_set(ret, PROBE_OK, "%s%s", t->proof,
			t->needs_user && !user ? ", as root without a user namespace" : "");
}

void kernel_probe_user(const struct probe *self, const struct host *host, struct finding *ret)
{
	(void)self;
	if (host->user_error == 0)
		finding_set(ret, PROBE_OK,
			"created a user namespace, mapped to uid %u, and was root in it",
			(unsigned)host->uid);
	else
		finding_set(ret, state_of(host->user_error), "%s", host->user_text);
	if (host->user_error == -ENOENT)
		ret->fix = FIX_PROC;
}

/* A number of /proc/sys; -ENOENT when this kernel has no such setting. */
static int read_number(const char *path, uint64_t *ret)
{
	char text[32];
	ssize_t n = fd_read_text(AT_FDCWD, path, text, sizeof(text));

	return n < 0 ? (int)n : str_parse_u64(text, UINT64_MAX, ret);
}

/* Without /proc/sys the absence of a setting says nothing. */
static bool can_see_settings(void)
{
	return access("/proc/sys/kernel", F_OK) == 0;
}

/* A setting about user namespaces that can not be read. Whether they can be made
 * was tried, which counts for more. */
static void find_unreadable(const struct host *host, int code, struct finding *ret)
{
	if (host->user_error == 0)
		finding_set(ret, PROBE_OK, "can not be read, but a user namespace could be made");
	else
		finding_set(ret, PROBE_UNKNOWN, "can not be read: %s", strerror(-code));
	if (!can_see_settings())
		ret->fix = FIX_PROC;
}

void kernel_probe_max_user_namespaces(
	const struct probe *self, const struct host *host, struct finding *ret)
{
	uint64_t n = 0;

	(void)self;
	int r = read_number("/proc/sys/user/max_user_namespaces", &n);
	if (r < 0)
		find_unreadable(host, r, ret);
	else
		finding_set(ret, n ? PROBE_OK : PROBE_MISSING, "%llu", (unsigned long long)n);
}

/* A setting that keeps plain users from user namespaces. The keeper of root is
 * met by it too: it makes each box as a user other than root. */
static void judge_restriction(
	const char *path, uint64_t restricted, const struct host *host, struct finding *ret)
{
	uint64_t n = 0;
	int r = read_number(path, &n);

	if (r == -ENOENT && can_see_settings())
		finding_set(ret, PROBE_OK, "this kernel has no such restriction");
	else if (r < 0)
		find_unreadable(host, r, ret);
	else if (n != restricted)
		finding_set(ret, PROBE_OK, "%llu", (unsigned long long)n);
	else if (host->user_error == 0 && !host->is_privileged)
		finding_set(ret, PROBE_OK, "%llu, but this program is let through",
			(unsigned long long)n);
	else
		finding_set(ret, host->user_error ? PROBE_MISSING : PROBE_PARTIAL,
			"%llu: only for privileged processes", (unsigned long long)n);
}

void kernel_probe_userns_clone(
	const struct probe *self, const struct host *host, struct finding *ret)
{
	(void)self;
	judge_restriction("/proc/sys/kernel/unprivileged_userns_clone", 0, host, ret);
}

void kernel_probe_apparmor(const struct probe *self, const struct host *host, struct finding *ret)
{
	(void)self;
	judge_restriction("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1, host, ret);
}

/* The namespaces of a box. */
#define BOX_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

/* The keeper of root gives up root for a box, and is then a plain user. */
static const char fix_as_other[] = "let plain users make user namespaces: see the rows of 'users'";

void kernel_probe_box(const struct probe *self, const struct host *host, struct finding *ret)
{
	static const struct trial_inner as_other = { CLONE_NEWUSER | BOX_NAMESPACES, trial_box };
	struct err err = { 0 };

	(void)self;
	if (!host->namespaces) {
		find_no_user(host, ret);
		return;
	}
	int r = host->has_uids ? trial_run(0, trial_as_other, &as_other, &err)
			       : trial_run(as_other.namespaces, trial_box, NULL, &err);
	if (r < 0)
		finding_set(ret, state_of(r), "%s", err.text);
	if (r == -EPERM && host->has_uids)
		ret->fix = fix_as_other;
	if (r == 0)
		finding_set(ret, PROBE_OK, "all of it at once, in one child%s",
			host->has_uids ? " with a uid of its own" : "");
}

void kernel_probe_uid(const struct probe *self, const struct host *host, struct finding *ret)
{
	static const struct trial_inner as_other = { CLONE_NEWUSER, trial_user };
	struct err err = { 0 };

	(void)self;
	if (!host->has_uids) {
		finding_set(ret, PROBE_MISSING, "all boxes run as uid %u", (unsigned)host->uid);
		return;
	}
	int r = trial_run(0, trial_as_other, &as_other, &err);
	if (r < 0)
		finding_set(ret, state_of(r), "%s", err.text);
	if (r == -EPERM)
		ret->fix = fix_as_other;
	if (r == 0)
		finding_set(ret, PROBE_OK, "made a user namespace under a uid of its own");
}

static uint64_t count_subids(const char *path, const struct host *host)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *text = NULL;
	size_t size = 0;

	if (fd < 0 || fd_read_all(fd, SUBID_SIZE_MAX, &text, &size) < 0)
		return 0;
	return subid_count(text, host->user, host->uid);
}

void kernel_probe_subids(const struct probe *self, const struct host *host, struct finding *ret)
{
	char path[256];
	uint64_t uids = count_subids("/etc/subuid", host);
	uint64_t gids = count_subids("/etc/subgid", host);
	bool has_uidmap = tool_find("newuidmap", path, sizeof(path));
	bool has_gidmap = tool_find("newgidmap", path, sizeof(path));

	(void)self;
	if (uids && gids && has_uidmap && has_gidmap)
		finding_set(ret, PROBE_OK, "%llu uids, %llu gids, newuidmap and newgidmap",
			(unsigned long long)uids, (unsigned long long)gids);
	else
		finding_set(ret, PROBE_MISSING, "%llu uids, %llu gids, newuidmap %s, newgidmap %s",
			(unsigned long long)uids, (unsigned long long)gids,
			has_uidmap ? "there" : "absent", has_gidmap ? "there" : "absent");
}

static int find_version(const struct host *host, struct version *ret)
{
	char signature[128];

	if (fd_read_text(AT_FDCWD, "/proc/version_signature", signature, sizeof(signature)) < 0)
		signature[0] = '\0';
	return version_of_kernel(host->uts.release, host->uts.version, signature, ret);
}

void kernel_probe_version(const struct probe *self, const struct host *host, struct finding *ret)
{
	struct version v = { 0 };

	(void)self;
	if (find_version(host, &v) < 0)
		finding_set(ret, PROBE_UNKNOWN, "%s %s is no version that can be read",
			host->uts.sysname, host->uts.release);
	else if (version_compare(&v, &oldest) < 0)
		finding_set(ret, PROBE_PARTIAL, "%s is older than %u.%u", host->uts.release,
			oldest.major, oldest.minor);
	else
		finding_set(ret, PROBE_OK, "%s", host->uts.release);
}

void kernel_probe_page_cache(const struct probe *self, const struct host *host, struct finding *ret)
{
	struct version v = { 0 };
	char names[PROBE_DETAIL_MAX];

	(void)self;
	if (find_version(host, &v) < 0) {
		finding_set(ret, PROBE_UNKNOWN, "the kernel's version can not be read");
		return;
	}
	if (version_page_cache_flaws(&v, names, sizeof(names)))
		finding_set(ret, PROBE_PARTIAL, "%u.%u.%u is not known to have fixed %s", v.major,
			v.minor, v.patch, names);
	else
		finding_set(ret, PROBE_OK, "%u.%u.%u has the known page-cache fixes", v.major,
			v.minor, v.patch);
}

void kernel_probe_clone3(const struct probe *self, const struct host *host, struct finding *ret)
{
	int pid_fd = -1;
	struct clone_args args = { .flags = CLONE_PIDFD, .exit_signal = SIGCHLD };

	(void)self;
	(void)host;
	args.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		_exit(0);
	if (pid < 0) {
		finding_set(ret, state_of(-errno), "clone3: %s", strerror(errno));
		return;
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	close_fdp(&pid_fd);
	finding_set(ret, PROBE_OK, "made a process and a descriptor of it");
}

void kernel_probe_pidfd(const struct probe *self, const struct host *host, struct finding *ret)
{
	AUTO_FD fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)self;
	(void)host;
	if (fd < 0)
		finding_set(ret, state_of(-errno), "pidfd_open: %s", strerror(errno));
	else if (syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		finding_set(ret, state_of(-errno), "pidfd_send_signal: %s", strerror(errno));
	else
		finding_set(ret, PROBE_OK, "opened one and signalled through it");
}

/* Actions of a filter, and whether ours needs them or they only tell more. */
static const struct {
	const char *name;
	uint32_t action;
} actions[] = {
	{ "kill_process", SECCOMP_RET_KILL_PROCESS },
	{ "errno", SECCOMP_RET_ERRNO },
	{ "log", SECCOMP_RET_LOG },
	{ "user_notif", SECCOMP_RET_USER_NOTIF },
};

void kernel_probe_seccomp_actions(
	const struct probe *self, const struct host *host, struct finding *ret)
{
	char present[64] = "";
	char absent[64] = "";

	(void)self;
	(void)host;
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		uint32_t action = actions[i].action;
		long r = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
		char *list = r == 0 ? present : absent;

		if (list[0])
			(void)strncat(list, " ", sizeof(present) - strlen(list) - 1);
		(void)strncat(list, actions[i].name, sizeof(present) - strlen(list) - 1);
	}
	if (!present[0])
		finding_set(
			ret, PROBE_MISSING, "the kernel does not tell of any: %s", strerror(errno));
	else if (absent[0])
		finding_set(ret, PROBE_PARTIAL, "%s; absent: %s", present, absent);
	else
		finding_set(ret, PROBE_OK, "%s", present);
}

void kernel_probe_landlock(const struct probe *self, const struct host *host, struct finding *ret)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	(void)self;
	(void)host;
	if (abi < 0 && errno == EOPNOTSUPP) {
		finding_set(ret, PROBE_MISSING, "built into the kernel, but off since boot");
		ret->fix =
			"add landlock to the list in lsm= on the kernel's command line, and boot";
	} else if (abi < 0 && errno == ENOSYS) {
		finding_set(ret, PROBE_MISSING, "not built into this kernel");
	} else if (abi < 0) {
		finding_set(ret, PROBE_MISSING, "%s", strerror(errno));
	} else if (abi < LANDLOCK_ABI_WANTED) {
		finding_set(ret, PROBE_PARTIAL, "ABI %ld, which does not hold truncation", abi);
	} else {
		finding_set(ret, PROBE_OK, "ABI %ld", abi);
	}
}

void kernel_probe_core_pattern(
	const struct probe *self, const struct host *host, struct finding *ret)
{
	char text[160];

	(void)self;
	(void)host;
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/sys/kernel/core_pattern", text, sizeof(text));
	if (n < 0)
		finding_set(ret, PROBE_UNKNOWN, "can not be read: %s", strerror((int)-n));
	else if (text[0] == '|')
		finding_set(ret, PROBE_PARTIAL, "core dumps are piped to %s", text + 1);
	else
		finding_set(ret, PROBE_OK, "core dumps go to a file ('%s')", text);
}

void kernel_probe_ptrace_scope(
	const struct probe *self, const struct host *host, struct finding *ret)
{
	uint64_t n = 0;

	(void)self;
	(void)host;
	int r = read_number("/proc/sys/kernel/yama/ptrace_scope", &n);
	if (r == -ENOENT && can_see_settings())
		finding_set(ret, PROBE_MISSING, "this kernel has no Yama");
	else if (r < 0)
		finding_set(ret, PROBE_UNKNOWN, "can not be read: %s", strerror(-r));
	else
		finding_set(ret, n ? PROBE_OK : PROBE_PARTIAL, "%llu", (unsigned long long)n);
}
