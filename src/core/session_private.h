/* What the files of sessions share: session.c finds and ends them, session_create.c makes them,
 * session_files.c, session_restore.c and session_git.c change what is in their workspaces,
 * session_snapshot.c keeps it, session_fetch.c reads it, and session_clear.c removes what their
 * runs left. */
#pragma once
#include "core/session.h"

void session_set_text(char **field, const char *value);
void session_list(struct session *session);

/* When it would expire if it were not used from now on. */
void session_fill_expiry(struct session *session);

/* Can anything be done to its files, and do none of its runs touch them now? */
bool session_is_usable(const struct session *session, struct problem *p);
bool session_is_quiet(const struct session *session, struct problem *p);
/* Only the latter. */
bool session_is_still(const struct session *session, struct problem *p);

/* The code of a problem when an errand failed since the session or the keeper is gone, or what a
 * restore left half done stays so, whatever it was for; else NULL. */
const char *session_gone_code(int r);

/* What an errand failed with, for whoever asked for it. */
void session_files_problem(
	struct problem *p, const struct session *session, int r, const char *text);

/* What kept all its files from being copied out; a copy has everything or there is none. */
struct session_copy {
	const char *what;      /* "snapshot" */
	const char *too_large; /* the code when they are too large, too many or too deep */
	uint64_t limit_mb;
};
void session_copy_problem(struct problem *p, const struct session *session,
	const struct session_copy *copy, int r, const char *text);

/* Replace its files by those in `fd`, a pack stream; takes it. */
void session_restore_from(struct session *session, int fd, session_cb *done, void *ctx);

/* It expired: that is remembered for session_expired_at(), until there is another one of this name
 * (NULL: it has none). */
void session_past_add(const struct session *session);
void session_past_forget(struct service *s, const char *name, const char *user_id);

/* A descriptor of a snapshot of it, or -1. */
int session_open_snapshot(const struct session *session, const char *snapshot_id);

/* What was said on disk of a restore when the server ended. */
void session_read_mark(struct session *session);

/* After the keeper said whether it has its workspace: what a restore left half done is made good,
 * and a workspace that was never filled goes. */
void session_mend(struct session *session);

/* Remove the artifacts of its runs; 0, or what kept them from being removed. */
typedef void session_cleared_cb(void *ctx, int r);
void session_clear_artifacts(struct session *session, session_cleared_cb *done, void *ctx);

/* Clone a repository on the server, and put it into the session's workspace. `git` is the
 * request's object, kept until then. */
void session_fetch_git(struct session *session, const json_t *git, session_cb *done, void *ctx);

/* A file of the server's that has no name and goes with its descriptor, or -1. */
int session_nameless_file(const struct service *s);
