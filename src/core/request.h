/* What somebody asks for: the body of a request for a session or a run, checked against one
 * table of fields. The same form is stored with a run that waits, so that a server which
 * comes back can still execute it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "core/upload.h"

struct policy;
struct problem;
struct settings;

#define REQUEST_TEXT_MAX    256u /* characters of a name, an id, a label */
#define REQUEST_IMAGE_MAX   255u
#define REQUEST_COMMAND_MAX 4096u /* arguments */
#define REQUEST_FILES_MAX   256u
#define REQUEST_LABELS_MAX  64u
#define REQUEST_GLOBS_MAX   64u
#define REQUEST_GLOB_MAX    1024u /* bytes of a capture pattern */
#define REQUEST_PATCH_MAX   (1u << 20)
#define REQUEST_STDIN_MAX   (1u << 20)
#define REQUEST_CODE_MAX    (1u << 20)

enum request_kind {
	REQUEST_SESSION,
	REQUEST_RUN,
};

/* Texts and values belong to `body`. NULL, 0 or false where nothing was sent. */
struct request {
	json_t *body; /* only fields we know, at any depth, without nulls and zeros */
	const char *spec_version;
	const char *session_id;
	const char *base_image;
	const char *runtime;
	const char *network_policy;
	const char *trust_level;
	const char *persona_id;
	const char *workspace_id;
	const char *workspace_group_id;
	const char *scope_snapshot_id;
	const json_t *command; /* array of texts */
	const char *language;  /* with `code` instead of a command: request_code.h */
	const char *code;
	const json_t *args;   /* array of texts that follow the code */
	const json_t *env;    /* object of texts */
	const json_t *labels; /* object of texts */
	const json_t *capture_patterns;
	const json_t *files;
	const json_t *git;
	const json_t *context; /* for the audit log only: object of texts */
	uint64_t cpu_milli;
	uint64_t memory_mb;
	uint64_t timeout_sec;
	uint64_t timeout_ms; /* instead of timeout_sec */
	uint64_t startup_timeout_sec;
	uint64_t max_output_bytes; /* of stdout and stderr; one more ends the run */
	const char *input;         /* "stdin": all there is to read, then it is closed */
	bool interactive;
	uint64_t stdin_max_bytes;
	uint64_t stdin_max_frame_bytes;
	uint64_t stdin_bps;
	uint64_t stdin_idle_timeout_sec;
	uint64_t resume_from_seq;
};

/* Check `body` (borrowed). Returns 0, or -1 with a problem that names the field. */
int request_parse(
	const json_t *body, enum request_kind kind, struct request *ret, struct problem *problem);
void request_fini(struct request *r);

/* The names of the members of a body that somebody sent, at any depth. Returns 0, or -1 with a
 * problem that names the first that is unknown, and the one that was probably meant. With `warns`
 * unknown ones become sentences in the array `warnings`; those that the earlier interface has and
 * that mean nothing here do so in any case. */
int request_check_names(const json_t *body, enum request_kind kind, bool warns, json_t *warnings,
	struct problem *problem);

/* The `context` of a request that is for neither a session nor a run: a new object, empty where
 * there is none (NULL), or NULL with a problem. */
json_t *request_read_context(const json_t *value, struct problem *problem);

/* What the policy makes of it. Returns 0, or -1 with a problem. */
int request_decide(const struct request *r, const struct settings *c, struct policy *ret,
	struct problem *problem);

/* SHA-256 over the canonical form of the request with every default filled in: equal for
 * requests that mean the same. */
void request_fingerprint(
	const struct request *r, enum request_kind kind, const struct settings *c, char ret[65]);

/* The inline files, decoded. The caller frees `*ret` and everything in it with
 * request_free_files(). At most `max_bytes` together. */
int request_decode_files(const struct request *r, uint64_t max_bytes, struct upload_inline **ret,
	size_t *ret_n, struct problem *problem);
void request_free_files(struct upload_inline *files, size_t n);

/* -1 with a problem if two of them can not both be there. */
int request_check_paths(const struct upload_inline *files, size_t n, struct problem *problem);

/* For where binaries are blocked: -1 with a problem if one of them is, as uploads judge it, and
 * fits no pattern of `allow`, as in struct upload_limits. */
int request_check_binaries(
	const struct upload_inline *files, size_t n, char *const *allow, struct problem *problem);
