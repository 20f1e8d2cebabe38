#include "box/sample.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/str.h"
#include "ipc/result.h"

#define FIRST_MS      20
#define LAST_MS       1000
#define MS_NS         UINT64_C(1000000)
#define PROCESSES_MAX 64 /* looked into at a time, so that a look stays short */
#define FILES_MAX     (1u << 20)

void sample_init(struct sample *s)
{
	*s = (struct sample){
		.wait_ms = FIRST_MS,
		.due_ns = clock_monotonic_ns() + FIRST_MS * MS_NS,
		.open_files = USAGE_UNKNOWN,
		.processes = USAGE_UNKNOWN,
	};
}

int sample_wait_ms(const struct sample *s)
{
	uint64_t now = clock_monotonic_ns();

	return now >= s->due_ns ? 0 : (int)((s->due_ns - now + MS_NS - 1) / MS_NS);
}

static uint64_t count_files(const char *pid)
{
	char path[300];
	uint64_t n = 0;
	const struct dirent *entry;

	(void)snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return 0; /* gone, or not dumpable */
	while (n < FILES_MAX && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

static void raise_to(uint64_t *most, uint64_t n)
{
	if (*most == USAGE_UNKNOWN || n > *most)
		*most = n;
}

void sample_take(struct sample *s)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	uint64_t n_processes = 0;

	s->wait_ms = s->wait_ms * 4 < LAST_MS ? s->wait_ms * 4 : LAST_MS;
	s->due_ns = clock_monotonic_ns() + (uint64_t)s->wait_ms * MS_NS;
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || streq(entry->d_name, "1"))
			continue;
		if (n_processes++ < PROCESSES_MAX)
			raise_to(&s->open_files, count_files(entry->d_name));
	}
	(void)closedir(dir);
	raise_to(&s->processes, n_processes);
}
