/* Headers of a download from a stranger, and names of files that a guest chose. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/download.h"
#include "base/str.h"

#define TEXT_MAX 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name, size_t size)
{
	AUTO_FREE char *text = xcalloc(1, DOWNLOAD_DISPOSITION_SIZE(size));

	download_disposition(name, text);
	for (const char *p = text; *p; p++)
		assert(*p >= ' ' && *p < 0x7f);
	assert(strlen(text) < DOWNLOAD_DISPOSITION_SIZE(size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char sha[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

	if (size > TEXT_MAX)
		return 0;
	AUTO_FREE char *text = xcalloc(1, size + 1);
	memcpy(text, data, size);
	(void)download_takes_gzip(text);
	(void)download_is_known(text, sha);
	(void)download_may_resume(text, sha);
	check_name(text, strlen(text));
	return 0;
}
