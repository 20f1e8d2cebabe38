/* Input: the text of /proc/self/mountinfo, a line with "--", that of
 * /proc/self/cgroup. The names in both are chosen by whoever makes mounts and
 * groups. */
#include <stdint.h>

#include "base/str.h"
#include "box/cgroup_backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char nothing[1];
	struct cgroup_mounts mounts;
	AUTO_FREE char *text = xcalloc(1, size + 1);

	if (size)
		memcpy(text, data, size);
	char *self = strstr(text, "\n--\n");
	if (self) {
		*self = '\0';
		self += 4;
	}
	cgroup_mounts_parse(&mounts, text, self ? self : nothing);
	for (size_t i = 0; i < mounts.n; i++)
		if (mounts.items[i].own && mounts.items[i].own[0] == '/')
			abort();
	cgroup_mounts_fini(&mounts);
	return 0;
}
