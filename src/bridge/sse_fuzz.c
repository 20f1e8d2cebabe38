/* A stream of events, whole and cut: the same events either way. */
#include "bridge/sse.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over all events, in their order. */
static uint64_t read_all(const char *data, size_t size, size_t step)
{
	struct sse s = { 0 };
	uint64_t sum = 0;

	for (size_t at = 0; at < size;) {
		bool has_event = false;
		int n = sse_feed(&s, data + at, size - at < step ? size - at : step, &has_event);

		if (n <= 0)
			abort();
		at += (size_t)n;
		if (!has_event)
			continue;
		if (s.data_size > size || strlen(s.id) > SSE_ID_MAX)
			abort();
		sum = sum * 31 + s.data_size + strlen(s.id) * 7 + s.is_message;
		for (size_t i = 0; i < s.data_size; i++)
			sum = sum * 31 + (unsigned char)s.data[i];
	}
	sse_fini(&s);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	if (read_all(text, size, size + 1) != read_all(text, size, 1) ||
		read_all(text, size, 3) != read_all(text, size, 7))
		abort();
	return 0;
}
