#include "warm/title.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"

static struct prctl_mm_map map;
static int is_prepared;

/* Where each of these is in the line of /proc/self/stat, whose first field is 1. */
static const struct {
	int field;
	__u64 *at;
} fields[] = {
	{ 26, &map.start_code },
	{ 27, &map.end_code },
	{ 28, &map.start_stack },
	{ 45, &map.start_data },
	{ 46, &map.end_data },
	{ 47, &map.start_brk },
};

void title_prepare(void)
{
	char line[1024];
	ssize_t n = fd_read_text(AT_FDCWD, "/proc/self/stat", line, sizeof(line));
	char *at = n < 0 ? NULL : strrchr(line, ')');
	size_t next = 0;

	for (int field = 2; at && next < sizeof(fields) / sizeof(fields[0]); field++) {
		if (field == fields[next].field)
			*fields[next++].at = strtoull(at, NULL, 10);
		at = strchr(at + 1, ' ');
	}
	is_prepared = next == sizeof(fields) / sizeof(fields[0]);
}

static size_t size_of(char *const *words)
{
	size_t size = 0;

	for (; *words; words++)
		size += strlen(*words) + 1;
	return size;
}

static char *copy(char *to, char *const *words)
{
	for (; *words; words++)
		to = stpcpy(to, *words) + 1;
	return to;
}

void title_set(char *const *argv, char *const *env)
{
	size_t size = size_of(argv) + size_of(env);

	if (!is_prepared || size == 0)
		return;
	char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return;
	char *middle = copy(block, argv);
	char *end = copy(middle, env);
	map.brk = (uintptr_t)sbrk(0);
	map.arg_start = (uintptr_t)block;
	map.arg_end = map.env_start = (uintptr_t)middle;
	map.env_end = (uintptr_t)end;
	map.auxv = NULL;
	map.exe_fd = (uint32_t)-1;
	(void)prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
}
