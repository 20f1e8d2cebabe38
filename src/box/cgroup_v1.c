/* cgroup v1: a hierarchy per controller or bundle of them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/cgroup_backend.h"
#include "ipc/spec.h"

static void format_memory(const struct limits *l, char *buf)
{
	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu", (unsigned long long)l->memory_bytes);
}

/* cgroup v1 counts the queues of TCP and UDP sockets apart from memory, and only where they have a
 * limit. Without a limit the sockets of one box may fill what the host grants all sockets (tcp_mem,
 * udp_mem). */
#define SOCKETS_PART 8
#define SOCKETS_MIN  (UINT64_C(4) << 20)

static void format_sockets(const struct limits *l, char *buf)
{
	uint64_t part = l->memory_bytes / SOCKETS_PART;

	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu",
		(unsigned long long)(part < SOCKETS_MIN ? SOCKETS_MIN : part));
}

static void format_pids(const struct limits *l, char *buf)
{
	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu", (unsigned long long)l->pids);
}

static void format_quota(const struct limits *l, char *buf)
{
	unsigned long long us = l->cpu_milli * CPU_PERIOD_US / 1000;

	(void)snprintf(buf, CGROUP_VALUE_MAX, "%llu", us);
}

/* The file with memsw limits memory and swap together, hence the same value. */
static const struct cgroup_knob knobs[] = {
	{ CONTROLLER_MEMORY, "memory.limit_in_bytes", format_memory, false },
	{ CONTROLLER_MEMORY, "memory.memsw.limit_in_bytes", format_memory, true },
	{ CONTROLLER_MEMORY, "memory.kmem.tcp.limit_in_bytes", format_sockets, true },
	{ CONTROLLER_PIDS, "pids.max", format_pids, false },
	{ CONTROLLER_CPU, "cpu.cfs_quota_us", format_quota, false },
};

#define MEMORY  CONTROLLER_BIT(CONTROLLER_MEMORY)
#define PIDS    CONTROLLER_BIT(CONTROLLER_PIDS)
#define CPUACCT CONTROLLER_BIT(CONTROLLER_CPUACCT)
#define AT(f)   offsetof(struct cgroup_stats, f)

static const struct cgroup_gauge gauges[] = {
	{ CPUACCT, "cpuacct.usage", NULL, 1000, AT(cpu_us) },
	{ MEMORY, "memory.max_usage_in_bytes", NULL, 1, AT(peak_bytes) },
	{ MEMORY, "memory.oom_control", "oom_kill", 1, AT(oom_kills) },
	{ PIDS, "pids.peak", NULL, 1, AT(pids_peak) },
	{ PIDS, "pids.events", "max", 1, AT(pids_max_hits) },
};
_Static_assert(ARRAY_SIZE(gauges) <= CGROUP_GAUGES_MAX, "each may have a descriptor");

static int v1_offer(int root_fd, const struct cgroup_base *base, uint32_t wanted)
{
	AUTO_FD fd = cgroup_base_open(root_fd, base);

	if (fd < 0)
		return fd;
	return faccessat(fd, ".", W_OK, AT_EACCESS) < 0 ? -errno : (int)wanted;
}

/* Groups inherit swappiness from their parent when they are made. Zero keeps
 * reclaim at the group's own limit from swapping, but not that of the whole
 * machine: only the memsw limit does. */
static bool hold_swap(int parent_fd)
{
	if (fd_write_text(parent_fd, "memory.swappiness", "0") < 0)
		return false;
	return faccessat(parent_fd, "memory.memsw.limit_in_bytes", W_OK, AT_EACCESS) == 0 ||
	       !cgroup_host_swaps();
}

/* A group begins with the kernel's default period, which is ours as well, so that
 * the file need not be written for each. The parent, being new, shows it. */
static bool has_period(int parent_fd)
{
	char text[32];
	uint64_t us = 0;

	return fd_read_text(parent_fd, "cpu.cfs_period_us", text, sizeof(text)) > 0 &&
	       str_parse_u64(text, UINT64_MAX, &us) == 0 && us == CPU_PERIOD_US;
}

static int v1_prepare(struct cgroup_tree *t)
{
	if ((t->controllers & MEMORY) && !hold_swap(t->parent_fd))
		t->controllers &= ~MEMORY;
	if ((t->controllers & CONTROLLER_BIT(CONTROLLER_CPU)) && !has_period(t->parent_fd))
		t->controllers &= ~CONTROLLER_BIT(CONTROLLER_CPU);
	return 0;
}

/* An eventfd that counts when the group runs out of memory. It counts once more
 * when the group is removed. The kernel keeps what it needs of the two files. */
static int v1_open_event(const struct cgroup_tree *t, const char *name)
{
	char path[CGROUP_NAME_MAX + 32];
	char text[32];

	AUTO_FD event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event_fd < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/memory.oom_control", name);
	AUTO_FD oom_fd = openat(t->parent_fd, path, O_RDONLY | O_CLOEXEC);
	if (oom_fd < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "%s/cgroup.event_control", name);
	(void)snprintf(text, sizeof(text), "%d %d", event_fd, oom_fd);
	int r = fd_write_text(t->parent_fd, path, text);
	return r < 0 ? r : take_fd(&event_fd);
}

static bool v1_ack_event(int fd)
{
	eventfd_t count = 0;

	return eventfd_read(fd, &count) == 0;
}

const struct cgroup_ops cgroup_v1 = {
	.name = "v1",
	.magic = CGROUP_SUPER_MAGIC,
	.knobs = knobs,
	.n_knobs = ARRAY_SIZE(knobs),
	.gauges = gauges,
	.n_gauges = ARRAY_SIZE(gauges),
	.usage_file = "memory.usage_in_bytes",
	.usage_swap_file = "memory.memsw.usage_in_bytes",
	.usage_sockets_file = "memory.kmem.tcp.usage_in_bytes",
	.reset_file = "memory.max_usage_in_bytes",
	/* Not cgroup.procs: a single thread that moves itself is spared the lock
	 * that stops every fork and exit on the machine, for up to milliseconds. */
	.join_file = "tasks",
	.event_mask = EPOLLIN,
	.offer = v1_offer,
	.prepare = v1_prepare,
	.open_event = v1_open_event,
	.ack_event = v1_ack_event,
};
