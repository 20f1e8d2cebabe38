/* A query string, taken apart: nothing that was decoded is longer than what it came from. */
#include "http/query.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_unescape(const char *text, size_t size)
{
	char *out = malloc(size + 1);

	if (!out)
		abort();
	int n = query_unescape(text, size, out);
	if (n >= 0 && ((size_t)n > size || strlen(out) != (size_t)n))
		abort();
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct query_pair pairs[QUERY_PAIRS_MAX];
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	size_t total = strlen(text);
	check_unescape((const char *)data, size);
	int n = query_parse(text, pairs);
	for (int i = 0; i < n; i++)
		if (strlen(pairs[i].name) + strlen(pairs[i].value) > total)
			abort();
	free(text);
	return 0;
}
