/* run_python with `kernel`: code for the interpreter that a session keeps. */
#pragma once
#include <jansson.h>

struct call;

/* Answers as run_python does. `arguments` were checked. */
void tool_kernel_run(struct call *c, const json_t *arguments);
