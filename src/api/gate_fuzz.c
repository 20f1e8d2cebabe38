/* What stands in the headers Host, Origin and traceparent. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/gate.h"
#include "base/str.h"
#include "core/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *hosts[] = { (char *)"box.example", NULL };
	struct settings c = { .host = (char *)"0.0.0.0",
		.allowed_hosts = hosts,
		.public_url = (char *)"https://public.example/x" };
	AUTO_FREE char *text = xcalloc(1, size + 1);
	char bucket[GATE_BUCKET_SIZE];
	char id[33] = "";

	memcpy(text, data, size);
	(void)gate_is_host_allowed(&c, text);
	(void)gate_is_origin_allowed(&c, "localhost:8080", text);
	gate_bucket(text, bucket);
	if (gate_parse_trace(text, id) && !str_is_hex(id, 32))
		abort();
	return 0;
}
