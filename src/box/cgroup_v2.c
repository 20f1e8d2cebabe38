/* cgroup v2: one hierarchy for all controllers. A group may either have processes
 * or hand controllers on to groups below it, the root of the machine excepted. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/spec.h"

/* Everything in our own group is listed and moved this often, for what is forked
 * in the meantime. */
#define MOVE_ROUNDS 8
#define PROCS_MAX   (1u << 20)

static void format_memory(const struct limits *l, char *buf)
{
	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu", (unsigned long long)l->memory_bytes);
}

static void format_one(const struct limits *l, char *buf)
{
	(void)l;
	(void)snprintf(buf, CGROUP_VALUE_MAX, "1");
}

static void format_pids(const struct limits *l, char *buf)
{
	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu", (unsigned long long)l->pids);
}

static void format_quota(const struct limits *l, char *buf)
{
	unsigned long long us = l->cpu_milli * CPU_PERIOD_US / 1000;

	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu %d", us, CPU_PERIOD_US);
}

/* Swap is not here: the parent group holds it off for all, see v2_prepare(). */
static const struct cgroup_knob knobs[] = {
	{ CONTROLLER_MEMORY, "memory.max", format_memory, false },
	{ CONTROLLER_MEMORY, "memory.oom.group", format_one, false },
	{ CONTROLLER_PIDS, "pids.max", format_pids, false },
	{ CONTROLLER_CPU, "cpu.max", format_quota, false },
};

#define MEMORY CONTROLLER_BIT(CONTROLLER_MEMORY)
#define PIDS   CONTROLLER_BIT(CONTROLLER_PIDS)
#define AT(f)  offsetof(struct cgroup_stats, f)

static const struct cgroup_gauge gauges[] = {
	{ 0, "cpu.stat", "usage_usec", 1, AT(cpu_us) },
	{ MEMORY, "memory.peak", NULL, 1, AT(peak_bytes) },
	{ MEMORY, "memory.events", "oom_kill", 1, AT(oom_kills) },
	{ PIDS, "pids.peak", NULL, 1, AT(pids_peak) },
	{ PIDS, "pids.events", "max", 1, AT(pids_max_hits) },
};
_Static_assert(ARRAY_SIZE(gauges) <= CGROUP_GAUGES_MAX, "each may have a descriptor");

static uint32_t read_controllers(int fd, const char *file)
{
	char text[1024];

	if (fd_read_text(fd, file, text, sizeof(text)) < 0)
		return 0;
	return cgroup_parse_controllers(text, " \n");
}

/* True when processes in `fd` keep it from handing on controllers. Without asking,
 * the kernel would hand on pids and cpu even so, but then take `fd` for one whose
 * children share its processes thread by thread, and let nobody else in. The root
 * of the machine alone may have both; it alone has no type. */
static bool is_busy(int fd)
{
	AUTO_FD list_fd = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char first = 0;

	if (faccessat(fd, "cgroup.type", F_OK, 0) < 0)
		return false;
	return list_fd < 0 || read(list_fd, &first, 1) != 0;
}

/* Hand as many of `wanted` as possible on to the groups below `fd`, one by one,
 * since a list is refused as a whole; those that are. `*ret_busy` says that more
 * of them were, if it had no processes. */
static uint32_t hand_on(int fd, uint32_t wanted, bool *ret_busy)
{
	uint32_t handed = read_controllers(fd, "cgroup.subtree_control");
	uint32_t missing = wanted & ~handed & read_controllers(fd, "cgroup.controllers");

	*ret_busy = missing && is_busy(fd);
	for (size_t i = 0; i < CONTROLLER_COUNT && !*ret_busy; i++) {
		char text[32];

		if (!(missing & CONTROLLER_BIT(i)))
			continue;
		(void)snprintf(text, sizeof(text), "+%s", cgroup_controller_name(i));
		if (fd_write_text(fd, "cgroup.subtree_control", text) == 0)
			handed |= CONTROLLER_BIT(i);
	}
	return handed & wanted;
}

/* The same for all groups above the base, as far as we are let. */
static void hand_down(int root_fd, const struct cgroup_base *base, uint32_t wanted)
{
	bool busy = false;

	for (size_t size = 0; size < base->size; size++) {
		struct cgroup_base above = { base->path, size, false, false };

		if (size > 0 && base->path[size] != '/')
			continue;
		AUTO_FD fd = cgroup_base_open(root_fd, &above);
		if (fd >= 0)
			(void)hand_on(fd, wanted, &busy);
	}
}

/* Move what `fd`/cgroup.procs lists to the leaf. True once nothing is listed. */
static bool move_listed(int fd)
{
	AUTO_FD list_fd = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	AUTO_FREE char *list = NULL;
	size_t size = 0;

	if (list_fd < 0 || fd_read_all(list_fd, PROCS_MAX, &list, &size) < 0)
		return false;
	char *rest = list;
	for (const char *pid = NULL; (pid = strsep(&rest, "\n"));)
		if (*pid)
			(void)fd_write_text(fd, CGROUP_LEAF "/cgroup.procs", pid);
	return size == 0;
}

/* Make room in our own group `fd`. Only ourselves go if others may be in there
 * who have nothing to do with us. */
static bool move_to_leaf(int fd, bool all)
{
	if (mkdirat(fd, CGROUP_LEAF, 0755) < 0 && errno != EEXIST)
		return false;
	if (!all)
		return fd_write_text(fd, CGROUP_LEAF "/cgroup.procs", "0") == 0;
	for (int i = 0; i < MOVE_ROUNDS; i++)
		if (move_listed(fd))
			return true;
	return false;
}

static void move_back(int fd)
{
	(void)fd_write_text(fd, "cgroup.procs", "0");
	(void)unlinkat(fd, CGROUP_LEAF, AT_REMOVEDIR);
}

static int v2_offer(int root_fd, const struct cgroup_base *base, uint32_t wanted)
{
	AUTO_FD fd = cgroup_base_open(root_fd, base);

	if (fd < 0)
		return fd;
	/* who moves a process must be allowed to do so in the group that is above
	 * where it comes from and where it goes to, and that is the base */
	if (faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ||
		faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		return -errno;
	hand_down(root_fd, base, wanted);
	bool busy = false;
	uint32_t got = hand_on(fd, wanted, &busy);
	if (!busy || !base->is_own)
		return (int)got;
	if (move_to_leaf(fd, base->is_ours_alone))
		got = hand_on(fd, wanted, &busy);
	if (busy)
		move_back(fd);
	return (int)got;
}

/* A limit of swap at the parent holds for all groups below. The file is missing
 * where the kernel does not account for swap. */
static bool hold_swap(int parent_fd)
{
	int r = fd_write_text(parent_fd, "memory.swap.max", "0");

	return r == 0 || (r == -ENOENT && !cgroup_host_swaps());
}

static int v2_prepare(struct cgroup_tree *t)
{
	bool busy = false;
	char type[32];

	/* "domain invalid" below a group of threads: nobody could join */
	if (fd_read_text(t->parent_fd, "cgroup.type", type, sizeof(type)) < 0 ||
		!streq(type, "domain"))
		return -EOPNOTSUPP;
	if ((t->controllers & MEMORY) && !hold_swap(t->parent_fd))
		t->controllers &= ~MEMORY;
	t->controllers = hand_on(t->parent_fd, t->controllers, &busy);
	return 0;
}

static bool v2_ack_event(int fd)
{
	char text[1024];
	uint64_t kills = 0;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return cgroup_parse_gauge(text, "oom_kill", &kills) == 0 && kills > 0;
}

/* The kernel wakes pollers of this file with EPOLLPRI, until it is read again.
 * (Inotify would do as well, but a user has only 128 instances of it.) */
static int v2_open_event(const struct cgroup_tree *t, const char *name)
{
	char path[CGROUP_NAME_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/memory.events", name);
	int fd = openat(t->parent_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)v2_ack_event(fd); /* a file that was never read counts as changed */
	return fd;
}

const struct cgroup_ops cgroup_v2 = {
	.name = "v2",
	.magic = CGROUP2_SUPER_MAGIC,
	.knobs = knobs,
	.n_knobs = ARRAY_SIZE(knobs),
	.gauges = gauges,
	.n_gauges = ARRAY_SIZE(gauges),
	.event_mask = EPOLLPRI,
	.offer = v2_offer,
	.prepare = v2_prepare,
	.open_event = v2_open_event,
	.ack_event = v2_ack_event,
};
