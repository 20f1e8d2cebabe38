#include "mcp/catalog.h"

#include <stddef.h>

#include "mcp/tool.h"

static const struct mcp_tool *const tools[] = {
	&tool_run_python,
	&tool_run_code,
	&tool_sandbox_run,
	NULL,
};

const struct mcp_catalog mcp_catalog = {
	.name = "belljar",
	.title = "Belljar",
	.instructions =
		"Runs code in sandboxes. Choose a session_id of your own, such as sess_1, and use it "
		"in every call that is to see the same files. upload_file puts data into "
		"/mnt/data, run_python works on it there, read_artifact shows what it made, and "
		"close_session ends it.",
	.tools = tools,
};
