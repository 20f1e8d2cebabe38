#include "box/template.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "box/box.h"
#include "box/clone.h"
#include "box/guest.h"
#include "box/mount.h"
#include "box/root.h"
#include "ipc/cur.h"
#include "ipc/frame.h"
#include "ipc/message.h"

#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* Where a guest would find it. */
static const char *const programs[] = { "/usr/local/bin/python3", "/usr/bin/python3" };

/* The environment that a run has by itself; what the interpreter reads of it at its start is
 * what decides whether a clone is as good as a new one. And what the library is for; a function
 * that a clone looks up first, each clone would. */
static char *const environment[] = { (char *)"PATH=/usr/local/bin:/usr/bin:/bin",
	(char *)"HOME=/workspace", (char *)"LANG=C.UTF-8", (char *)"LD_PRELOAD=/proc/self/fd/4",
	(char *)"LD_BIND_NOW=1", NULL };

/* Whom it is in there. Where boxes have users of their own, root: which is a user of the host
 * that is nobody else. A plain user's boxes are himself, as it is, so there is no root: to that
 * of the namespace that it was executed in the kernel gives the files in /proc of an init that
 * can not be dumped, and its guest must not have them. */
static uid_t id_inside(const struct box_host *host)
{
	return host->privileged ? 0 : BOX_UID;
}

/* For imports that want to write. */
static const char *const scratch[] = { "/tmp", "/workspace" };

/* In mounts of its own, which its boxes do not have. */
static bool make_mounts(void)
{
	if (unshare(CLONE_NEWNS) < 0 ||
		mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(scratch); i++) {
		if (mount("tmpfs", scratch[i], "tmpfs", MOUNT_SAFE, "size=16m,mode=1777") < 0)
			return false;
	}
	return true;
}

/* Nothing but what a template has: pipes that nobody listens to, and the two that it needs. */
static bool set_descriptors(int control_fd, int library_fd)
{
	int in, out;
	int control = fcntl(control_fd, F_DUPFD, TEMPLATE_LIBRARY_FD + 3);
	int library = fcntl(library_fd, F_DUPFD, TEMPLATE_LIBRARY_FD + 3);

	if (control < 0 || library < 0 || fd_pipe(&in, &out) < 0)
		return false;
	in = fcntl(in, F_DUPFD, TEMPLATE_LIBRARY_FD + 3);
	out = fcntl(out, F_DUPFD, TEMPLATE_LIBRARY_FD + 3);
	return dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 &&
	       dup2(control, TEMPLATE_CONTROL_FD) >= 0 && dup2(library, TEMPLATE_LIBRARY_FD) >= 0 &&
	       syscall(SYS_close_range, TEMPLATE_LIBRARY_FD + 1, ~0u, 0u) == 0;
}

/* Over execve(), for who is not root. */
static bool keep_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &head, caps) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++)
		caps[i].inheritable = caps[i].permitted;
	if (syscall(SYS_capset, &head, caps) < 0)
		return false;
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0 && errno != EPERM &&
			errno != EINVAL)
			return false; /* it never had this one, or the kernel has not */
	}
	return true;
}

static bool become_own_user(const struct box_host *host)
{
	uid_t id = id_inside(host);

	return (!host->privileged || setgroups(0, NULL) == 0) && setresgid(id, id, id) == 0 &&
	       setresuid(id, id, id) == 0 && (host->privileged || keep_capabilities());
}

/* In the new process, once its user is mapped. Whoever waits for an answer sees the end of the
 * socket when this fails. */
static _Noreturn void be_template(
	const struct box_host *host, int keepers_fd, int control_fd, int library_fd)
{
	char go;

	(void)close(keepers_fd); /* or we would not see its end */
	if (recv(control_fd, &go, 1, 0) != 1 || !become_own_user(host) || !make_mounts() ||
		sethostname("box", 3) < 0 || chdir("/") < 0 ||
		!set_descriptors(control_fd, library_fd))
		_exit(1);
	guest_reset_handlers();
	guest_unblock_signals();
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		char *argv[] = { (char *)"python3", (char *)programs[i], NULL };

		(void)execve(programs[i], argv, environment);
	}
	_exit(1);
}

static int write_map(pid_t pid, const char *name, const char *text, struct err *err)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int r = fd_write_text(AT_FDCWD, path, text);
	return r < 0 ? err_set(err, r, "write %s of a template", name) : 0;
}

/* Where boxes have users of their own, those are mapped, each to itself. */
static int map_users(const struct box_host *host, pid_t pid, struct err *err)
{
	char users[96], groups[96];

	if (!host->privileged) {
		(void)snprintf(users, sizeof(users), "%u %u 1\n", id_inside(host), geteuid());
		(void)snprintf(groups, sizeof(groups), "%u %u 1\n", id_inside(host), getegid());
	} else {
		(void)snprintf(users, sizeof(users), "0 %u 1\n%u %u %u\n", BOX_UID_TEMPLATE,
			BOX_UID_FIRST, BOX_UID_FIRST, BOX_UID_COUNT);
		(void)memcpy(groups, users, sizeof(groups));
	}
	int r = host->privileged ? 0 : write_map(pid, "setgroups", "deny", err);
	if (r == 0)
		r = write_map(pid, "uid_map", users, err);
	return r < 0 ? r : write_map(pid, "gid_map", groups, err);
}

/* The mounts it began with: a clone of those of the root, before it adds its own. */
static int open_mounts(pid_t pid, int *ret_fd, struct err *err)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", pid);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? err_errno(err, "open the mounts of a template") : 0;
}

static int send_setup(
	const struct box_host *host, int fd, const char *imports, int mounts_fd, struct err *err)
{
	struct put p;

	put_init(&p, FRAME_SIZE_MAX);
	put_u8(&p, host->privileged);
	put_u32(&p, (uint32_t)host->landlock_abi);
	put_str(&p, imports);
	put_u64(&p, host->filter.n_code);
	for (size_t i = 0; i < host->filter.n_code; i++) {
		uint64_t word;

		memcpy(&word, &host->filter.code[i], sizeof(word));
		put_u64(&p, word);
	}
	int r = put_end(&p);
	if (r == 0)
		r = frame_send(fd, MESSAGE_TEMPLATE_SETUP, &p, &mounts_fd, 1);
	put_fini(&p);
	return r < 0 ? err_set(err, r, "set up a template: %s", strerror(-r)) : 0;
}

static pid_t clone_into(const struct box_host *host, const struct root *root, int *ret_pid_fd)
{
	if (setns(root->ns_fd, CLONE_NEWNS) < 0)
		return -1;
	pid_t pid = clone_process(NAMESPACES, -1, ret_pid_fd);
	if (pid == 0)
		return 0;
	int saved = errno;
	if (setns(host->home_ns_fd, CLONE_NEWNS) < 0)
		abort(); /* a keeper in a box's mounts is of no use to anybody */
	errno = saved;
	return pid;
}

int template_start(const struct box_host *host, const struct root *root, int library_fd,
	const char *imports, struct template_process *ret, struct err *err)
{
	struct template_process t = { .pid_fd = -1, .control_fd = -1 };
	AUTO_FD theirs = -1;
	AUTO_FD mounts_fd = -1;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "make a control socket");
	t.control_fd = ends[0];
	theirs = ends[1];
	t.pid = clone_into(host, root, &t.pid_fd);
	if (t.pid == 0)
		be_template(host, t.control_fd, theirs, library_fd);
	int r = t.pid < 0 ? err_errno(err, "make the namespaces of a template") : 0;
	if (r == 0)
		r = map_users(host, t.pid, err);
	if (r == 0)
		r = open_mounts(t.pid, &mounts_fd, err);
	if (r == 0 && send(t.control_fd, "g", 1, MSG_NOSIGNAL) != 1)
		r = err_errno(err, "start a template");
	if (r == 0)
		r = send_setup(host, t.control_fd, imports, mounts_fd, err);
	if (r < 0) {
		template_fini(&t);
		return r;
	}
	(void)fd_set_nonblock(t.control_fd, true);
	*ret = t;
	return 0;
}

bool template_end(struct template_process *t)
{
	siginfo_t info = { 0 };

	close_fdp(&t->control_fd);
	if (t->pid > 0 && waitid(P_PID, (id_t)t->pid, &info, WEXITED | WNOHANG) == 0 &&
		info.si_pid == 0)
		return false;
	t->pid = 0;
	close_fdp(&t->pid_fd);
	return true;
}

void template_kill(const struct template_process *t)
{
	if (t->pid_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, t->pid_fd, SIGKILL, NULL, 0);
}

void template_fini(struct template_process *t)
{
	if (t->pid > 0) {
		template_kill(t);
		(void)waitid(P_PID, (id_t)t->pid, NULL, WEXITED);
		t->pid = 0;
	}
	(void)template_end(t);
}
