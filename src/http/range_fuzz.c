/* Eight bytes of a file's size, then a header: what is granted lies within the file. */
#include "http/range.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t file_size = 0;
	uint64_t offset = 0;
	uint64_t n = 0;

	if (size < sizeof(file_size))
		return 0;
	memcpy(&file_size, data, sizeof(file_size));
	char *header = strndup((const char *)data + 8, size - 8);
	if (!header)
		abort();
	if (range_parse(header, file_size, &offset, &n) == RANGE_PART &&
		(n == 0 || offset >= file_size || n > file_size - offset))
		abort();
	if (range_count(header) > size)
		abort();
	free(header);
	return 0;
}
