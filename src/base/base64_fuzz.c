/* Input: a text. What decodes encodes to the same text again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(BASE64_BYTES_SIZE(size) + 1);
	char *text = malloc(BASE64_TEXT_SIZE(size));
	size_t n = 0;

	if (!bytes || !text)
		abort();
	if (base64_decode((const char *)data, size, bytes, &n) == 0 &&
		(base64_encode(bytes, n, text) != size || (size && memcmp(text, data, size) != 0)))
		abort();
	free(bytes);
	free(text);
	return 0;
}
