#include "mcp/catalog.h"

#include <stddef.h>

#include "mcp/prompts.h"
#include "mcp/resources.h"
#include "mcp/tool.h"

static const struct mcp_tool *const tools[] = {
	&tool_run_python,
	&tool_run_code,
	&tool_sandbox_run,
	&tool_upload_file,
	&tool_read_artifact,
	&tool_list_files,
	&tool_list_artifacts,
	&tool_session_info,
	&tool_close_session,
	NULL,
};

static const struct mcp_prompt *const prompts[] = {
	&prompt_analyze_file,
	&prompt_make_report,
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
	.prompts = prompts,
	.templates = RESOURCES_TEMPLATES,
	.list_resources = resources_list,
	.read_resource = resources_read,
	.subscribe = resources_subscribe,
	.complete = prompts_complete,
};
