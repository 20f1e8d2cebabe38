/* Sessions: a workspace that outlives its runs, with limits and a policy. Its files live in
 * the keeper, in memory; the server never touches them but through boxes. What changes files
 * from outside (uploads, restoring) happens one after the other. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/uuid.h"
#include "core/mime.h"
#include "core/upload.h"
#include "ipc/spec.h"
#include "store/record.h"

struct errand;
struct identity;
struct kernel;
struct inventory;
struct problem;
struct request;
struct service;

/* What a restore has begun, and not ended. */
enum session_mark {
	SESSION_WHOLE,
	SESSION_RESTORING, /* old files and new ones may be mixed */
	SESSION_REMAKING,  /* its workspace is new, and has none of its files */
};

struct session {
	struct session *next;
	struct service *service;
	struct session_row row;
	char workspace[33]; /* as the keeper calls it: the id without dashes */
	uint64_t workspace_bytes;
	bool is_stored;   /* its row is */
	int64_t kept_sec; /* when it expires, as the store knows */
	bool is_lost;     /* the keeper that had its files is gone */
	bool is_ending;   /* being deleted */
	bool is_gone;     /* not in the list any more; freed when n_work is 0 */
	enum session_mark mark;
	size_t n_restores;     /* under way */
	size_t n_mends;        /* the same, of boxes that make good what is marked */
	size_t n_runs;         /* live ones in it */
	size_t n_work;         /* threads, calls and callbacks that come back to it */
	struct ending *ending; /* whoever waits for the end of its runs */
	struct kernel *kernel; /* its interpreter; NULL: none */
	bool is_inherited;     /* it is a predecessor's, and may have lost a kernel with it */
	struct errand *errand; /* what is done to its files now, and then next */

	/* The digits of what is marked: box/commit.h. */
	char change[SPEC_CHANGE_SIZE + 1];
};

/* The session of this id that did not go yet, if it belongs to `who` (or `who` may see all: NULL).
 */
struct session *session_find(struct service *s, const char *id, const struct identity *who);

/* `problem->status` is 0 when it worked. Valid during the call; the session may be kept
 * until it ends. */
typedef void session_cb(void *ctx, struct session *session, struct problem *problem);

/* Make one as `request` asks. With a key: the same key and request give the same session. */
struct session_wish {
	const struct request *request;
	const struct identity *who;
	const char *idempotency_key; /* may be NULL */
	const char *source;          /* "rest" */
	const char *name;            /* that its user calls it by; may be NULL */
	const struct session *like;  /* clone of this one, instead of a request; may be NULL */
	int *files_fd;               /* with these files, a pack stream; taken; may be NULL */
	session_cb *replayed;        /* instead of `done`, for who wants to know; may be NULL */
};
void session_create(
	struct service *s, const struct session_wish *wish, session_cb *done, void *ctx);

/* --- names: what a user calls a session, who need not know its id --- */

#define SESSION_NAME_MAX 64u

/* Letters, digits, "_", "-" and ".", but no dot first, and nothing that could be an id. */
bool session_name_is_valid(const char *name);

/* The live session that this user calls so, by its name or its id. Never another user's. */
struct session *session_find_named(struct service *s, const char *name, const struct identity *who);

/* The same, made as `wish` asks, with its name, if there is none. Who asks while it is being made
 * gets the same one. */
void session_obtain(
	struct service *s, const struct session_wish *wish, session_cb *done, void *ctx);

/* Make one with a name that no live session of this user has, and none that is being made:
 * otherwise session_name_taken. Who obtains the name meanwhile gets this one. */
void session_create_named(
	struct service *s, const struct session_wish *wish, session_cb *done, void *ctx);

/* False, with that problem, when it would be refused now. */
bool session_name_is_free(
	struct service *s, const char *name, const struct identity *who, struct problem *problem);

/* When the last session expired that this user called so, by its name or its id. NULL when there
 * was none, or nobody remembers. Valid until something is done. */
const char *session_expired_at(struct service *s, const char *name, const struct identity *who);

/* What users are shown as its id: its name, if it has one. */
static inline const char *session_shown_id(const struct session *session)
{
	return session->row.name ? session->row.name : session->row.id;
}

/* It was used just now: its time begins anew. */
void session_touch(struct session *session);

/* Can it be found and used? Not while it is made, nor when it is being deleted, nor when its time
 * is over, though it goes only some moments later. */
bool session_is_open(const struct session *session);

/* Its runs and what is done to its files are canceled and waited for; then it is gone with all
 * its files, snapshots, and the artifacts of its runs. One that is being deleted already is not
 * found. */
void session_delete(struct session *session, session_cb *done, void *ctx);

/* As answers show it. The caller owns it. */
json_t *session_json(const struct session *session);

/* Those whose time is over go, a number at a time, as if deleted; but the artifacts of their runs
 * stay for SANDBOX_ARTIFACT_TTL_HOURS. */
void session_expire(struct service *s, uint64_t now_sec);

/* After a restart: what the store has, then what the keeper still holds of it. */
void session_recover(struct service *s, const struct session_row *row);
void session_match(struct service *s, const char (*workspaces)[33], size_t n);

/* Its run is over. */
void session_leave(struct session *session);

/* If it is to end, and nothing of it is under way any more, it does; it may be freed then. */
void session_check_ending(struct session *session);

/* Take it off the list, and free it unless somebody comes back to it. */
void session_free(struct session *session);

/* --- its files --- */

struct session_upload {
	struct upload_source *sources; /* taken, with names */
	size_t n_sources;
	const char *kind; /* "multipart", "tar", "zip", "plain", "git": for counters */
	int fd;           /* what the sources read; taken */
};

typedef void upload_cb(void *ctx, const struct upload_result *result, struct problem *problem);
void session_put_files(
	struct session *session, struct session_upload *upload, upload_cb *done, void *ctx);

/* One of them, copied out. */
struct session_file {
	int fd;          /* a nameless file; who wants it takes it and leaves -1 */
	uint64_t offset; /* where the content begins in it, `size` bytes */
	uint64_t size;
	char mime[MIME_SIZE];
	char sha256[DIGEST_HEX_SIZE + 1];
};

/* Copy out the file at `path`, relative to the workspace: no larger than an artifact may be, and
 * never by way of a link. Runs may go on meanwhile. `problem->status` is 0 when it worked;
 * among others it is file_not_found, invalid_path or payload_too_large. */
typedef void session_file_cb(void *ctx, struct session_file *file, struct problem *problem);
void session_get_file(struct session *session, const char *path, session_file_cb *done, void *ctx);

/* What is in its workspace, at any time, also while runs change it. It belongs to the caller of
 * `done`; NULL with a problem. */
typedef void session_listing_cb(void *ctx, struct inventory *listing, struct problem *problem);
void session_list_files(struct session *session, bool digests, session_listing_cb *done, void *ctx);

/* Are its files being replaced, or made good? Runs wait as long. When they are not and it is marked
 * SESSION_RESTORING all the same, that could not be done, and is tried again by the second. */
bool session_is_mending(const struct session *session);
void session_mend_again(struct session *session);

typedef void snapshot_cb(void *ctx, const struct snapshot_row *row, struct problem *problem);
void session_snapshot(struct session *session, snapshot_cb *done, void *ctx);
/* Also when its workspace is lost: then it gets a new one, and is as good as before. */
void session_restore(struct session *session, const char *snapshot_id, session_cb *done, void *ctx);
/* `removed` false when there was none. */
typedef void snapshot_removed_cb(void *ctx, bool removed, struct problem *problem);
void session_remove_snapshot(
	struct session *session, const char *snapshot_id, snapshot_removed_cb *done, void *ctx);
/* A new session with the same files and settings, and a name of its own; NULL for none. */
void session_clone(struct session *session, const struct identity *who, const char *name,
	session_cb *done, void *ctx);
