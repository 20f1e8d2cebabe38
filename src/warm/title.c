#include "warm/title.h"

#include <errno.h>
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

/* The arguments that this was executed with, which the linker goes on to call it by. */
static char *first_argument;
static size_t first_room;

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
	{ 48, &map.arg_start },
	{ 49, &map.arg_end },
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
	first_argument = (char *)(uintptr_t)map.arg_start;
	first_room = map.arg_end - map.arg_start;
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

/* As it is in messages of libraries, and of the linker. */
static void set_names(char *name)
{
	char *slash = strrchr(name, '/');

	program_invocation_name = name;
	program_invocation_short_name = slash ? slash + 1 : name;
	if (strlen(name) < first_room)
		(void)stpcpy(first_argument, name);
}

void title_set(const char *program, char *const *argv, char *const *env)
{
	const char *slash = strrchr(program, '/');
	size_t size = size_of(argv) + size_of(env);

	if (!is_prepared || size == 0)
		return;
	char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return;
	char *middle = copy(block, argv);
	char *end = copy(middle, env);
	set_names(block);
	(void)prctl(PR_SET_NAME, slash ? slash + 1 : program);
	map.brk = (uintptr_t)sbrk(0);
	map.arg_start = (uintptr_t)block;
	map.arg_end = map.env_start = (uintptr_t)middle;
	map.env_end = (uintptr_t)end;
	map.auxv = NULL;
	map.exe_fd = (uint32_t)-1;
	(void)prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
}
