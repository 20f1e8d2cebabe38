/* What an admin is shown of a run before it may begin: what it would execute, with which files,
 * and within which limits. It is made when the run comes, and kept while the run lives, since the
 * request itself is not in memory while the run waits. */
#pragma once
#include <jansson.h>

struct run;

#define APPROVAL_COMMAND_MAX (64u << 10) /* bytes of all arguments that are shown */
#define APPROVAL_FILES_MAX   256u
#define APPROVAL_PATHS_MAX   (32u << 10) /* bytes of their names */
#define APPROVAL_NAMES_MAX   256u        /* of variables */

/* {"command", "command_bytes", "command_truncated", "files": [{"path", "size"}], "files_omitted",
 * "git", "env_names", "stdin_bytes", "interactive", "capture_patterns", "rule", "limits"}. Names of
 * variables are shown, their values may be secrets. The caller owns it. */
json_t *approval_brief(const struct run *run);
