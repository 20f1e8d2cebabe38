#include "api/idempotency.h"

#include <errno.h>
#include <string.h>

#include "api/reply.h"
#include "core/claim.h"
#include "http/http.h"

bool idempotency_is_key(const char *text)
{
	size_t size = strlen(text);

	for (const char *c = text; *c; c++) {
		if (*c < 0x20 || *c > 0x7e)
			return false;
	}
	return size > 0 && size <= CLAIM_KEY_MAX;
}

int idempotency_read_key(struct exchange *x, const char **ret)
{
	const char *key = exchange_header(x, "idempotency-key");

	if (key && !idempotency_is_key(key)) {
		reply_field(x, PROBLEM_IN_HEADER, "Idempotency-Key",
			"must have 1 to %u printable ASCII characters", CLAIM_KEY_MAX);
		return -EINVAL;
	}
	*ret = key;
	return 0;
}

void idempotency_tell(struct exchange *x, json_t *answer, bool is_replay)
{
	const char *key = exchange_header(x, "idempotency-key");

	if (key)
		(void)json_object_set_new(answer, "details",
			json_pack("{s:s,s:s}", "idempotency_key_echo", key, "idempotency_status",
				is_replay ? "replayed" : "new"));
}
