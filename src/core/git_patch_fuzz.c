/* Input: a patch. What was completed needs nothing more: a second time changes nothing. */
#include "core/git_patch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *once = NULL;
	AUTO_FREE char *twice = NULL;
	size_t n_once = 0;
	size_t n_twice = 0;
	struct err err = { 0 };

	if (git_patch_complete((const char *)data, size, &once, &n_once, &err) < 0) {
		if (!err.text[0])
			abort();
		return 0;
	}
	if (git_patch_complete(once, n_once, &twice, &n_twice, &err) < 0)
		abort();
	if (n_once != n_twice || memcmp(once, twice, n_once) != 0)
		abort();
	return 0;
}
