#include "mcp/revision.h"

#include <errno.h>

#include "base/json.h"
#include "base/str.h"
#include "mcp/call.h"
#include "rpc/rpc.h"

#include "lib/test.h"

TEST(each_revision_is_found_by_its_name)
{
	AUTO_JSON *names = mcp_revision_names();
	const json_t *item;
	size_t i;

	CHECK_EQ(json_array_size(names), 4);
	json_array_foreach(names, i, item) CHECK_STR(
		mcp_revision_find(json_string_value(item))->name, json_string_value(item));
	CHECK(!mcp_revision_find("2024-11-05"));
	CHECK(!mcp_revision_find(""));
	CHECK(!mcp_revision_find(NULL));
	CHECK_STR(mcp_revision_with_sessions()->name, "2025-11-25");
}

#define VERSION(v)  "\"" MCP_META_VERSION "\":" v
#define CAN(v)      "\"" MCP_META_CAPABILITIES "\":" v
#define LEVEL(v)    "\"" MCP_META_LOG_LEVEL "\":" v
#define META(words) "{\"_meta\":{" words "}}"
#define OURS        VERSION("\"2026-07-28\"")

TEST(what_a_request_must_say_of_itself)
{
	static const struct {
		const char *params;
		int code;
	} rows[] = {
		{ META(OURS "," CAN("{}")), 0 },
		{ META(OURS "," CAN("{}") "," LEVEL("\"error\"")), 0 },
		{ "{}", RPC_INVALID_PARAMS },
		{ "{\"_meta\":7}", RPC_INVALID_PARAMS },
		{ META(CAN("{}")), RPC_INVALID_PARAMS },
		{ META(VERSION("7") "," CAN("{}")), RPC_INVALID_PARAMS },
		{ META(OURS), RPC_INVALID_PARAMS },
		{ META(OURS "," CAN("[]")), RPC_INVALID_PARAMS },
		{ META(OURS "," CAN("{}") "," LEVEL("\"loud\"")), RPC_INVALID_PARAMS },
		{ META(OURS "," CAN("{}") "," LEVEL("3")), RPC_INVALID_PARAMS },
		{ META(VERSION("\"2099-01-01\"") "," CAN("{}")), MCP_UNSUPPORTED_VERSION },
		{ META(VERSION("\"2025-11-25\"") "," CAN("{}")), MCP_UNSUPPORTED_VERSION },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_JSON *params = json_loads(rows[i].params, 0, NULL);
		struct mcp_meta meta;
		struct rpc_fault fault = { 0 };

		CHECK_EQ(mcp_meta_read(params, &meta, &fault), rows[i].code ? -EBADMSG : 0);
		CHECK_EQ(fault.code, rows[i].code);
		if (rows[i].code)
			continue;
		CHECK(meta.revision->is_stateless);
		CHECK(json_is_object(meta.capabilities));
		CHECK_EQ(meta.log_level, i == 0 ? -1 : CALL_ERROR);
	}
}

TESTS(UNIT(each_revision_is_found_by_its_name), UNIT(what_a_request_must_say_of_itself))
