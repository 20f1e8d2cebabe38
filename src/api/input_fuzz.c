/* Messages from the other side of a WebSocket. */
#include <assert.h>
#include <stdint.h>

#include "api/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = input_parse((const char *)data, size);

	assert((in.kind == INPUT_DATA) == (in.data != NULL));
	assert((in.kind == INPUT_DATA) == (in.size > 0));
	assert(in.size <= size);
	input_fini(&in);
	return 0;
}
