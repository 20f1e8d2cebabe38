/* What the tools share: rows of the catalog, one file per family. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/catalog.h"

struct call;
struct problem;
struct session;

/* Where a session's files are, as programs and clients see them. */
#define TOOL_DATA "/mnt/data"

extern const struct mcp_tool tool_run_python;
extern const struct mcp_tool tool_run_code;
extern const struct mcp_tool tool_sandbox_run;
extern const struct mcp_tool tool_upload_file;
extern const struct mcp_tool tool_read_artifact;
extern const struct mcp_tool tool_list_files;
extern const struct mcp_tool tool_list_artifacts;
extern const struct mcp_tool tool_session_info;
extern const struct mcp_tool tool_close_session;

/* Parts of schemas. */
#define SCHEMA_SESSION_ID                                                                          \
	"\"session_id\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64,\"description\":"    \
	"\"A name of your own for the session, such as sess_1: letters, digits, _ - and . only. "  \
	"It is created when it is first used, and its files stay until it is closed or was not "   \
	"used for a while.\"}"
#define SCHEMA_DIALECT "\"$schema\":\"https://json-schema.org/draft/2020-12/schema\""

/* What a client may tell its user of a tool before it calls it. None reaches beyond this server. */
#define TOOL_HINTS(reads, destroys, repeats)                                                       \
	"{\"readOnlyHint\":" reads ",\"destructiveHint\":" destroys ",\"idempotentHint\":" repeats \
	",\"openWorldHint\":false}"
#define TOOL_READS   TOOL_HINTS("true", "false", "true")
#define TOOL_CHANGES TOOL_HINTS("false", "true", "false")

/* The live session that `arguments` name, or NULL when it was answered that there is none. */
struct session *tool_find_session(struct call *c, const json_t *arguments);

/* The same, made if there is none; `found` gets NULL when that was answered with a failure. */
typedef void tool_session_cb(struct call *c, struct session *session);
void tool_obtain_session(struct call *c, const json_t *arguments, tool_session_cb *found);

/* If the call began anew in a session that had expired, that is said in `message` of the answer,
 * with what is said there already. */
void tool_tell_of_expiry(const struct call *c, json_t *answer);

/* "/mnt/data/a/b.txt", "/workspace/a/b.txt", "./a/b.txt" and "a/b.txt" are a/b.txt. NULL for what
 * can not be the path of a file in a session. Part of `path`. */
const char *tool_relative_path(const char *path);

/* The URL at which a file of the session can be fetched; the caller frees it. */
char *tool_download_url(const struct call *c, const struct session *session, const char *path);

/* {"path", "filename", "size_bytes", "mime_type", "download_url"}. */
json_t *tool_artifact(
	const struct call *c, const struct session *session, const char *path, uint64_t size);

/* The resource that a file is: "belljar://sess_1/a/b.txt"; the caller frees it. */
char *tool_uri(const struct session *session, const char *path);
/* In the _meta of a link. */
#define TOOL_META_SHA256 "belljar/sha256"

/* Appends a link to it for a client that knows such. */
void tool_add_link(json_t *content, const struct session *session, const json_t *artifact);
