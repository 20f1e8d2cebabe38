/* The rows that are stored: the tables of the store, described for every backend. Times
 * are ISO 8601 in UTC with microseconds and a Z, so that they sort as text; what is a
 * moment to count with is in seconds or nanoseconds since 1970. */
#pragma once
#include <stdint.h>

#include "store/store.h"

/* One run, from the moment it was accepted. `request` is what is to be executed, as
 * JSON, until the run has ended; then it is NULL: code is not kept. */
struct run_row {
	char *id;
	char *user_id;
	char *session_id;
	char *spec_version;
	char *runtime;
	char *runtime_version;
	char *base_image;
	char *resolved_image;
	char *image_digest;
	char *policy_hash;
	char *phase;
	char *reason_code;
	char *message;
	char *created_at;
	char *started_at;
	char *finished_at;
	char *trust_level;
	char *network_policy;
	char *labels; /* JSON object */
	char *persona_id;
	char *workspace_id;
	char *workspace_group_id;
	char *scope_snapshot_id;
	char *usage;   /* resource_usage as JSON */
	char *request; /* JSON */
	char *source;  /* the door it came in by: "rest" */
	char *trace_id;
	char *approval; /* NULL, "required", "approved", "denied" */
	char *frames;   /* of one that is over and printed little: all of its stream */
	int64_t exit_code;
	int64_t signal;
	int64_t created_ns;
	int64_t log_bytes;
	int64_t artifact_bytes;
	int64_t cpu_us;
	int64_t expires_sec;    /* when what it left may be removed */
	int64_t workspace_exec; /* 1: its files could be executed; 0; STORE_NULL: not known */
};
extern const struct table run_table; /* sandbox_runs */

struct session_row {
	char *id;
	char *user_id;
	char *spec_version;
	char *runtime;
	char *base_image;
	char *network_policy;
	char *trust_level;
	char *env;    /* JSON object */
	char *labels; /* JSON object */
	char *policy_hash;
	char *persona_id;
	char *workspace_id;
	char *workspace_group_id;
	char *scope_snapshot_id;
	char *created_at;
	char *expires_at;
	char *state; /* "active", "lost": its workspace died with the keeper */
	char *source;
	char *name; /* that its user gave it, and calls it by; or NULL */
	double cpu_limit;
	int64_t memory_mb;
	int64_t timeout_sec;
	int64_t expires_sec;    /* STORE_NULL: never */
	int64_t uid;            /* whose files its workspace holds on the host, if privileged */
	int64_t workspace_exec; /* 1 or 0 for runs that say nothing; STORE_NULL: as the policy says
				 */
};
extern const struct table session_table; /* sandbox_sessions */

struct idempotency_row {
	char *endpoint; /* "runs", "sessions" */
	char *user_key;
	char *key;
	char *fingerprint; /* sha256 of the canonical body */
	char *object_id;
	char *response_body;
	int64_t created_at; /* seconds; rows are removed by it */
};
extern const struct table idempotency_table; /* sandbox_idempotency */

struct usage_row {
	char *user_id;
	int64_t runs_count;
	int64_t log_bytes;
	int64_t artifact_bytes; /* that are kept now */
};
extern const struct table usage_table; /* sandbox_usage */

/* What a user used on one day (UTC, "2026-01-31"). */
struct daily_row {
	char *user_id;
	char *day;
	int64_t cpu_us;
	int64_t artifact_bytes;
	int64_t runs_count;
};
extern const struct table daily_table; /* sandbox_usage_daily */

struct snapshot_row {
	char *session_id;
	char *id;
	char *user_id;
	char *created_at;
	int64_t size_bytes;
	int64_t created_ns;
};
extern const struct table snapshot_table; /* sandbox_snapshots */

/* Every table; ends with NULL. */
extern const struct table *const tables[];
