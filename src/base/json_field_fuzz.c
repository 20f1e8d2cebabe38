/* Input: a JSON text, or what somebody takes for one. The path is printable and ends within its
 * room; that of a text which is JSON as a whole is empty. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_JSON *json = NULL;
	char field[JSON_FIELD_SIZE];

	memset(field, '\n', sizeof(field));
	json_field_at((const char *)data, size, field);
	size_t n = strnlen(field, sizeof(field));
	if (n == sizeof(field))
		abort();
	for (size_t i = 0; i < n; i++) {
		if (field[i] < ' ' || field[i] > '~')
			abort();
	}
	if (json_read((const char *)data, size, &json, NULL) == 0 && n > 0)
		abort();
	return 0;
}
