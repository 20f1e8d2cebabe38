/* Input: the lines of a file of patterns, a NUL, and a path. What is compared: a list that
 * ends with "**" ignores everything, one that ends with "!**" nothing. */
#include "core/ignore.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct ignore *g, const char *path)
{
	struct err err = { 0 };
	int r = ignore_match(g, path, &err);

	if (r != 0 && r != 1 && !(r == -E2BIG && err.text[0]))
		abort();
	if (ignore_add(g, "**", NULL) == 0 && ignore_match(g, path, NULL) == 0)
		abort();
	if (ignore_add(g, "!**", NULL) == 0 && ignore_match(g, path, NULL) == 1)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(ignore_freep) struct ignore *g = ignore_new();
	const uint8_t *nul = memchr(data, '\0', size);
	char path[256];
	struct err err = { 0 };

	if (!nul)
		return 0;
	size_t n = (size_t)(nul - data);
	(void)snprintf(path, sizeof(path), "%.*s", (int)(size - n - 1), (const char *)nul + 1);
	int r = ignore_add_text(g, (const char *)data, n, &err);
	if (r < 0 && !err.text[0])
		abort();
	if (pack_name_is_clean(path))
		check(g, path);
	return 0;
}
