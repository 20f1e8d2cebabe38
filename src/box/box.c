#include "box/box.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newroot.h"
#include "base/str.h"
#include "box/caps.h"
#include "box/clone.h"
#include "box/init.h"
#include "box/landlock.h"
#include "box/net.h"
#include "box/profile.h"
#include "box/root.h"
#include "box/shrink.h"
#include "box/user.h"
#include "ipc/spec.h"

/* Two are missing here on purpose: init makes the cgroup namespace after joining its group,
 * or the group would not be its root; and the network's is made ahead, see net.h. */
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* Facets that hold on every host on which a box can be made at all. */
#define ALWAYS                                                                                     \
	(FACET_BIT(FACET_USER) | FACET_BIT(FACET_MOUNT) | FACET_BIT(FACET_PID) |                   \
		FACET_BIT(FACET_NET) | FACET_BIT(FACET_IPC) | FACET_BIT(FACET_UTS) |               \
		FACET_BIT(FACET_CGROUP) | FACET_BIT(FACET_TIMEOUT) | FACET_BIT(FACET_WORKSPACE) |  \
		FACET_BIT(FACET_RLIMITS) | FACET_BIT(FACET_CAPABILITIES) |                         \
		FACET_BIT(FACET_SECCOMP))

static bool has_capability(unsigned cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return data[cap / 32].effective & (1u << (cap % 32));
}

/* The first line of the map of user ids: what our root is outside, and how many ids
 * there are. */
static bool read_map(char outside[16], char size[16])
{
	char map[256];
	char inside[16];

	return fd_read_text(AT_FDCWD, "/proc/self/uid_map", map, sizeof(map)) >= 0 &&
	       sscanf(map, "%15s %15s %15s", inside, outside, size) == 3 && streq(inside, "0");
}

bool box_is_privileged(void)
{
	char outside[16], size[16];

	if (geteuid() != 0 || !has_capability(CAP_SYS_ADMIN) || !has_capability(CAP_SETUID) ||
		!has_capability(CAP_SETGID) || !has_capability(CAP_MKNOD) ||
		!has_capability(CAP_NET_ADMIN))
		return false;
	return read_map(outside, size) && streq(outside, "0") && streq(size, "4294967295");
}

/* RLIMIT_NPROC counts the processes of a box, but does not hold for the host's root,
 * even one without capabilities, as in a container without a user namespace: that is
 * who its boxes belong to then. */
static bool counts_processes(bool is_privileged)
{
	char outside[16], size[16];

	if (is_privileged || geteuid() != 0)
		return true;
	return read_map(outside, size) && !streq(outside, "0");
}

/* Whoever is not mapped looks from inside like one user, whom the kernel calls the
 * overflow uid: 65534, nobody. Who has that number himself must get another one, or
 * he could not be told from strangers. */
static unsigned uid_inside(unsigned uid)
{
	char text[16];
	uint64_t overflow = 65534;

	if (fd_read_text(AT_FDCWD, "/proc/sys/kernel/overflowuid", text, sizeof(text)) > 0)
		(void)str_parse_u64(text, UINT32_MAX, &overflow);
	return uid == overflow ? uid ^ 1u : uid;
}

/* A plain user becomes the master of a user namespace with nobody else in it. */
static int enter_own_namespace(struct err *err)
{
	unsigned uid = geteuid();
	unsigned gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return err_errno(err, "make a user namespace (belljar doctor explains)");
	return user_map_self(uid_inside(uid), uid, gid, gid, err);
}

/* Root changes its effective uid for the moment of each clone. Its capabilities
 * must survive that, and no group of root's may reach a box. */
static int ready_for_switching(struct err *err)
{
	if (setgroups(0, NULL) < 0)
		return err_errno(err, "drop supplementary groups");
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return err_errno(err, "keep capabilities");
	return 0;
}

/* No process of a box may leave a dump: the host's core_pattern may name a helper,
 * which runs as the host's root on what the guest made of its memory. Such a helper
 * is called with a limit of 0 too; only 1 means that there is no dump at all. It is
 * set here, before the filter that keeps the guest from lowering it.
 * Fails where somebody set the hard limit to 0 before us. */
static bool forbid_dumps(void)
{
	const struct rlimit one = { 1, 1 };

	return setrlimit(RLIMIT_CORE, &one) == 0;
}

int box_host_init(struct box_host *host, const char *profile, size_t profile_size, struct err *err)
{
	*host = (struct box_host){ .privileged = box_is_privileged(), .home_ns_fd = -1 };
	/* Asked before there is a user namespace of our own, in which all looks different. */
	uint64_t pids = counts_processes(host->privileged) ? FACET_BIT(FACET_PIDS) : 0;
	int r = host->privileged ? newroot_if_chrooted(err) : 0;

	if (r >= 0)
		r = profile_compile(profile ? profile : profile_default,
			profile ? profile_size : profile_default_size, &host->filter, err);

	if (r == 0)
		(void)shrink_program(&host->filter);
	/* One for all keepers and boxes of a user, by its name: one for each would soon be
	 * more than a user may have, since the kernel is slow to let them go. */
	if (r == 0)
		r = caps_leave_keyring("belljar", err);
	if (r == 0)
		r = host->privileged ? ready_for_switching(err) : enter_own_namespace(err);
	if (r == 0)
		r = nets_new(&host->nets, err);
	if (r < 0) {
		box_host_fini(host);
		return r;
	}
	host->home_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (host->home_ns_fd < 0) {
		r = err_errno(err, "open /proc/self/ns/mnt");
		box_host_fini(host);
		return r;
	}
	host->landlock_abi = landlock_abi();
	host->facets = ALWAYS | pids | (host->landlock_abi > 0 ? FACET_BIT(FACET_LANDLOCK) : 0) |
		       (host->privileged ? FACET_BIT(FACET_UID) : 0);
	if (!forbid_dumps())
		host->facets &= ~FACET_BIT(FACET_RLIMITS);
	return 0;
}

int box_host_adopt(struct box_host *host, struct err *err)
{
	int r = host->privileged ? ready_for_switching(err) : 0;

	return r < 0 ? r : nets_new(&host->nets, err);
}

void box_host_fini(struct box_host *host)
{
	close_fdp(&host->home_ns_fd);
	nets_free(host->nets);
	host->nets = NULL;
	seccomp_fini(&host->filter);
}

/* Be the box's user for the moment of the clone: the new user namespace belongs to
 * who makes it, and may then map that user without further privilege. */
static int put_on(const struct box_host *host, uid_t uid)
{
	if (!host->privileged)
		return 0;
	return setresgid((gid_t)-1, uid, (gid_t)-1) < 0 || setresuid((uid_t)-1, uid, (uid_t)-1) < 0
		       ? -errno
		       : 0;
}

static void take_off(const struct box_host *host)
{
	if (!host->privileged)
		return;
	/* Can not fail for a process that kept its capabilities; and must not. */
	if (setresuid((uid_t)-1, 0, (uid_t)-1) < 0 || setresgid((gid_t)-1, 0, (gid_t)-1) < 0)
		abort();
}

static pid_t clone_onto(const struct box_host *host, const struct box_order *order, struct box *box)
{
	if (setns(order->root->ns_fd, CLONE_NEWNS) < 0)
		return -1;
	pid_t pid = -1;
	if (nets_enter(box->net_fd) == 0 && put_on(host, order->uid) == 0)
		pid = clone_process(NAMESPACES | host->clone_flags, order->cgroup_fd, &box->pid_fd);
	if (pid == 0)
		return 0;
	int saved = errno;
	take_off(host);
	nets_leave(host->nets);
	if (setns(host->home_ns_fd, CLONE_NEWNS) < 0)
		abort(); /* a keeper in a box's mounts is of no use to anybody */
	errno = saved;
	return pid;
}

int box_prepare(const struct box_host *host, const struct box_order *order, struct box *ret,
	int *ret_init_fd, struct err *err)
{
	AUTO_FD ours = -1;
	AUTO_FD theirs = -1;
	int ends[2];
	struct box box = { .pid_fd = -1, .control_fd = -1, .net_fd = -1 };

	box.uid = host->privileged ? order->uid : geteuid();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "make a control socket");
	ours = ends[0];
	theirs = ends[1];
	int r = nets_take(host->nets, &box.net_fd, err);
	if (r < 0)
		return r;
	(void)fd_set_nonblock(ours, true);
	box.control_fd = take_fd(&ours);
	*ret_init_fd = take_fd(&theirs);
	*ret = box;
	return 0;
}

enum seal box_seal_for(const struct spec *spec)
{
	if (!spec_is_plain(spec))
		return SEAL_NONE;
	return spec->exec ? SEAL_EXEC : SEAL_PLAIN;
}

int box_clone(const struct box_host *host, const struct box_order *order, int init_fd,
	struct box *box, struct err *err)
{
	struct init_args args = {
		.host = host,
		.control_fd = init_fd,
		.join_fds = order->join_fds,
		.n_join_fds = order->n_join_fds,
		.uid = host->privileged ? order->uid : geteuid(),
		.gid = host->privileged ? (gid_t)order->uid : getegid(),
		.seal = order->seal,
	};
	pid_t pid = clone_onto(host, order, box);

	if (pid == 0)
		init_main(&args);
	if (pid < 0)
		return err_errno(err, "make namespaces");
	box->pid = pid;
	return 0;
}

int box_start(const struct box_host *host, const struct box_order *order, struct box *ret,
	struct err *err)
{
	AUTO_FD init_fd = -1;
	struct box box;
	int r = box_prepare(host, order, &box, &init_fd, err);

	if (r < 0)
		return r;
	r = box_clone(host, order, init_fd, &box, err);
	if (r < 0) {
		nets_give(host->nets, take_fd(&box.net_fd));
		box_fini(&box);
		return r;
	}
	*ret = box;
	return 0;
}

void box_kill(const struct box *box)
{
	if (box->pid_fd >= 0)
		(void)syscall(SYS_pidfd_send_signal, box->pid_fd, SIGKILL, NULL, 0);
}

/* Who has other parents is waited for by them; we see only that it is gone. */
static bool is_gone(const struct box *box, bool wait)
{
	struct pollfd gone = { .fd = box->pid_fd, .events = POLLIN };
	siginfo_t info = { 0 };

	if (box->pid == BOX_OF_TEMPLATE)
		return poll(&gone, 1, wait ? -1 : 0) > 0;
	return waitid(P_PID, (id_t)box->pid, &info, WEXITED | (wait ? 0 : WNOHANG)) < 0 ||
	       info.si_pid != 0;
}

bool box_reap(struct box *box)
{
	if (box->pid == 0)
		return true;
	if (!is_gone(box, false))
		return false;
	box->pid = 0;
	return true;
}

void box_fini(struct box *box)
{
	if (box->pid != 0) {
		box_kill(box);
		(void)is_gone(box, true);
		box->pid = 0;
	}
	close_fdp(&box->control_fd);
	close_fdp(&box->pid_fd);
	close_fdp(&box->net_fd);
}
