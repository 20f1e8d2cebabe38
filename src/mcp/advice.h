/* What a model may do about what went wrong: a sentence for each way in which a request is refused
 * or a run ends, where that is not plain. */
#pragma once
#include <stdbool.h>

struct problem;

/* NULL when its message says all there is to say. */
const char *advice_of_problem(const struct problem *problem);

/* NULL for a reason that needs none, or that nobody here has heard of. `is_command`: of
 * sandbox.run, which has other arguments. */
const char *advice_of_reason(const char *reason, bool is_command);
