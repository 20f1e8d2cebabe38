/* Input: the text of /proc/self/mountinfo, a NUL, the text of /proc/self/cgroup. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "probe/mountinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mountinfo_table t = { 0 };
	char *text = xcalloc(1, size + 2);
	char path[256];
	char dir[256];

	if (size)
		memcpy(text, data, size);
	const char *cgroups = text + strlen(text) + 1;
	int has_path = mountinfo_find_cgroup(cgroups, "memory", path, sizeof(path)) == 0 ||
		       mountinfo_find_cgroup(cgroups, NULL, path, sizeof(path)) == 0;
	if (mountinfo_parse(text, &t) < 0)
		abort();
	for (size_t i = 0; i < t.n; i++) {
		if (has_path)
			(void)mountinfo_cgroup_dir(&t.rows[i], path, dir, sizeof(dir));
	}
	mountinfo_fini(&t);
	return 0;
}
