/* Prompts that a user may choose, and completion of their arguments and of resources. */
#pragma once
#include <jansson.h>

#include "mcp/catalog.h"

struct call;

extern const struct mcp_prompt prompt_analyze_file;
extern const struct mcp_prompt prompt_make_report;

#define PROMPTS_VALUES_MAX 100u /* that a completion may have */

void prompts_complete(struct call *c, const json_t *ref, const json_t *argument);
