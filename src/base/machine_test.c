#include "base/machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/test.h"

TEST(without_a_limit_it_is_what_the_kernel_has)
{
	SCRATCH(dir);
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	CHECK_EQ(machine_memory_bytes_in(dir.fd), bytes);
	CHECK_EQ(machine_memory_bytes_in(-1), bytes);
	CHECK(machine_cpu_milli_in(dir.fd) >= 1000);
	CHECK_EQ(machine_cpu_milli_in(dir.fd) % 1000, 0);
	scratch_write(dir.fd, "memory.max", "max\n");
	scratch_write(dir.fd, "cpu.max", "max 100000\n");
	CHECK_EQ(machine_memory_bytes_in(dir.fd), bytes);
	CHECK_EQ(machine_cpu_milli_in(dir.fd) % 1000, 0);
}

TEST(a_container_has_what_it_was_given)
{
	SCRATCH(dir);

	scratch_write(dir.fd, "memory.max", "134217728\n");
	scratch_write(dir.fd, "cpu.max", "50000 100000\n");
	CHECK_EQ(machine_memory_bytes_in(dir.fd), 134217728);
	CHECK_EQ(machine_cpu_milli_in(dir.fd), 500);
}

TEST(so_has_one_of_version_1)
{
	SCRATCH(dir);

	CHECK_EQ(mkdirat(dir.fd, "memory", 0700), 0);
	CHECK_EQ(mkdirat(dir.fd, "cpu", 0700), 0);
	scratch_write(dir.fd, "memory/memory.limit_in_bytes", "134217728\n");
	scratch_write(dir.fd, "cpu/cpu.cfs_quota_us", "25000\n");
	scratch_write(dir.fd, "cpu/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(machine_memory_bytes_in(dir.fd), 134217728);
	CHECK_EQ(machine_cpu_milli_in(dir.fd), 250);
	scratch_write(dir.fd, "cpu/cpu.cfs_quota_us", "-1\n");
	CHECK(machine_cpu_milli_in(dir.fd) >= 1000);
}

TESTS(UNIT(without_a_limit_it_is_what_the_kernel_has), UNIT(a_container_has_what_it_was_given),
	UNIT(so_has_one_of_version_1))
