/* How much of a machine there is for us: what the kernel has, or what a container was given of it.
 * Asked at start, in any thread; needs no privilege. */
#pragma once
#include <stdint.h>

/* Processors that we may use, in thousandths; at least 1. */
uint64_t machine_cpu_milli(void);

/* Memory in bytes; never 0. */
uint64_t machine_memory_bytes(void);

/* The same, with control groups looked for below the directory `groups` and not in
 * /sys/fs/cgroup: for tests. */
uint64_t machine_cpu_milli_in(int groups_fd);
uint64_t machine_memory_bytes_in(int groups_fd);
