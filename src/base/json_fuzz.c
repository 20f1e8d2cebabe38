/* Input: a JSON text. What is accepted has a canonical form that is accepted, and is its own
 * canonical form, and that of jansson. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_JSON *json = NULL;
	AUTO_JSON *again = NULL;

	if (json_read((const char *)data, size, &json, NULL) < 0)
		return 0;
	AUTO_FREE char *text = json_canonical(json);
	if (json_read(text, strlen(text), &again, NULL) < 0)
		abort();
	AUTO_FREE char *same = json_canonical(again);
	AUTO_FREE char *jansson = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	if (!streq(text, same) || !jansson || !streq(text, jansson))
		abort();
	return 0;
}
