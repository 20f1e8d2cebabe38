/* Input: a text. What it is mirrored as holds no control character, and says it again; as the
 * value of a header it is looked at without harm. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/mirror.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = calloc(1, size + 1);

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	AUTO_FREE char *value = mirror_encode(text);
	if (strpbrk(value, "\r\n") || !mirror_equals(value, text))
		abort();
	(void)mirror_equals(text, value);
	return 0;
}
