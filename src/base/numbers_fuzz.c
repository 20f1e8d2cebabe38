/* Input: a number as people type it. Whatever is accepted must be in range, and
 * what is refused must leave the output alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define UNTOUCHED UINT64_C(0xfeedfacecafebeef)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r, uint64_t value, uint64_t max)
{
	if (r == 0 ? value > max : value != UNTOUCHED)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const parsers[])(const char *text, uint64_t *ret) = { str_parse_bytes,
		str_parse_duration, str_parse_milli };
	char *text = malloc(size + 1);

	if (!text)
		abort();
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	for (size_t i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
		uint64_t v = UNTOUCHED;
		int r = parsers[i](text, &v);

		check(r, v, UINT64_MAX / 2 + (UINT64_C(1) << 40));
	}
	uint64_t max = size ? data[size - 1] : UINT64_MAX;
	uint64_t v = UNTOUCHED;
	int r = str_parse_u64(text, max, &v);
	check(r, v, max);
	free(text);
	return 0;
}
