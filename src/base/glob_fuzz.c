/* Input: a pattern, a newline, a path. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *pattern = malloc(size + 1);

	if (!pattern)
		abort();
	if (size)
		memcpy(pattern, data, size);
	pattern[size] = '\0';
	char *path = strchr(pattern, '\n');
	if (path) {
		*path++ = '\0';
		(void)glob_match(pattern, path);
	}
	free(pattern);
	return 0;
}
