/* JSON-RPC messages of strangers: whatever comes is read, or refused with words that can be sent
 * back. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "rpc/rpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const json_t *json)
{
	struct rpc_fault fault = { 0 };
	struct rpc_message m;

	if (rpc_parse(json, &m, &fault) < 0) {
		AUTO_JSON *answer = rpc_error(m.id, fault.code, fault.text, NULL);

		assert(fault.code < 0 && fault.text[0] && answer);
		return;
	}
	assert(m.kind != RPC_REQUEST || (m.id && m.method));
	assert(m.kind != RPC_NOTIFICATION || (!m.id && strlen(m.method) <= RPC_METHOD_MAX));
	assert(m.kind != RPC_RESPONSE || !m.result != !m.error);
	AUTO_JSON *answer = rpc_result(m.id, NULL);
	AUTO_FREE char *text = json_dumps(answer, JSON_COMPACT);
	assert(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_JSON *json = NULL;
	struct rpc_fault fault = { 0 };
	size_t i;
	json_t *item;

	if (rpc_read((const char *)data, size, &json, &fault) < 0) {
		assert(fault.code < 0 && fault.text[0]);
		return 0;
	}
	if (!json_is_array(json))
		look(json);
	json_array_foreach(json, i, item) look(item);
	return 0;
}
