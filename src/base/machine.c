#include "base/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define GROUPS       "/sys/fs/cgroup"
#define MEMORY_LEAST (UINT64_C(64) << 20)

/* The limit of a container's cgroup. On a host the root group has no such file, or no limit in it.
 */
static const char *const memory_files[] = { "memory.max", "memory/memory.limit_in_bytes" };

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool read_line(int dir_fd, const char *name, char *text, size_t size)
{
	return dir_fd >= 0 && fd_read_text(dir_fd, name, text, size) > 0;
}

static uint64_t all_cpu_milli(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (uint64_t)CPU_COUNT(&set) * 1000;
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (uint64_t)n * 1000 : 1000;
}

/* A quota and its period, in microseconds: version 2 has both in one file. */
static uint64_t quota_milli(int groups_fd)
{
	char text[64];
	char period_text[64];
	long long quota = 0;
	long long period = 0;

	if (read_line(groups_fd, "cpu.max", text, sizeof(text)))
		(void)sscanf(text, "%lld %lld", &quota, &period);
	else if (read_line(groups_fd, "cpu/cpu.cfs_quota_us", text, sizeof(text)) &&
		 read_line(groups_fd, "cpu/cpu.cfs_period_us", period_text, sizeof(period_text)) &&
		 sscanf(text, "%lld", &quota) == 1)
		(void)sscanf(period_text, "%lld", &period);
	if (quota <= 0 || period <= 0)
		return UINT64_MAX;
	return (uint64_t)quota * 1000 / (uint64_t)period;
}

uint64_t machine_cpu_milli_in(int groups_fd)
{
	uint64_t milli = least(all_cpu_milli(), quota_milli(groups_fd));

	return milli > 0 ? milli : 1;
}

uint64_t machine_memory_bytes_in(int groups_fd)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	long size = sysconf(_SC_PAGESIZE);
	uint64_t bytes = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : MEMORY_LEAST;
	char text[64];
	uint64_t limit;

	for (size_t i = 0; i < ARRAY_SIZE(memory_files); i++) {
		/* "max" is no number, and no limit. */
		if (read_line(groups_fd, memory_files[i], text, sizeof(text)) &&
			str_parse_u64(text, UINT64_MAX, &limit) == 0 && limit > 0)
			bytes = least(bytes, limit);
	}
	return bytes;
}

uint64_t machine_cpu_milli(void)
{
	AUTO_FD fd = open(GROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return machine_cpu_milli_in(fd);
}

uint64_t machine_memory_bytes(void)
{
	AUTO_FD fd = open(GROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return machine_memory_bytes_in(fd);
}
