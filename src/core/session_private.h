/* What session.c and session_files.c share. */
#pragma once
#include "core/session.h"

/* Clone a repository on the server, and put it into the session's workspace. `git` is the
 * request's object, kept until then. */
void session_fetch_git(struct session *session, const json_t *git, session_cb *done, void *ctx);
