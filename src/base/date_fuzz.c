/* Input: a date. What is accepted is written and read back as the same moment, but for what
 * is finer than a microsecond. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	char written[DATE_SIZE + 1];
	uint64_t ns;
	uint64_t again;

	if (!text)
		abort();
	if (size > 0 && date_parse(text, &ns) == 0) {
		date_format(ns, written);
		if (date_parse(written, &again) < 0 || again / 1000 != ns / 1000)
			abort();
	}
	free(text);
	return 0;
}
