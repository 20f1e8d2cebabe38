#include "store/record.h"

#include "base/cleanup.h"

#define TEXT(row, field)                                                                           \
	{                                                                                          \
#field, COLUMN_TEXT, offsetof(struct row, field)                                   \
	}
#define INT(row, field)                                                                            \
	{                                                                                          \
#field, COLUMN_INT, offsetof(struct row, field)                                    \
	}
#define REAL(row, field)                                                                           \
	{                                                                                          \
#field, COLUMN_REAL, offsetof(struct row, field)                                   \
	}

#define TABLE(name_, row, columns_, n_keys_)                                                       \
	.name = (name_), .columns = (columns_), .n_columns = ARRAY_SIZE(columns_),                 \
	.n_keys = (n_keys_), .row_size = sizeof(struct row)
#define INDEXES(indexes_) .indexes = (indexes_), .n_indexes = ARRAY_SIZE(indexes_)

static const struct column run_columns[] = {
	TEXT(run_row, id),
	TEXT(run_row, user_id),
	TEXT(run_row, session_id),
	TEXT(run_row, spec_version),
	TEXT(run_row, runtime),
	TEXT(run_row, runtime_version),
	TEXT(run_row, base_image),
	TEXT(run_row, resolved_image),
	TEXT(run_row, image_digest),
	TEXT(run_row, policy_hash),
	TEXT(run_row, phase),
	TEXT(run_row, reason_code),
	TEXT(run_row, message),
	TEXT(run_row, created_at),
	TEXT(run_row, started_at),
	TEXT(run_row, finished_at),
	TEXT(run_row, trust_level),
	TEXT(run_row, network_policy),
	TEXT(run_row, labels),
	TEXT(run_row, persona_id),
	TEXT(run_row, workspace_id),
	TEXT(run_row, workspace_group_id),
	TEXT(run_row, scope_snapshot_id),
	TEXT(run_row, usage),
	TEXT(run_row, request),
	TEXT(run_row, source),
	TEXT(run_row, trace_id),
	TEXT(run_row, approval),
	TEXT(run_row, frames),
	INT(run_row, exit_code),
	INT(run_row, signal),
	INT(run_row, created_ns),
	INT(run_row, log_bytes),
	INT(run_row, artifact_bytes),
	INT(run_row, cpu_us),
	INT(run_row, expires_sec),
	INT(run_row, workspace_exec),
};

/* Those that name one value also hold started_at, by which such a listing is sorted. */
static const struct table_index run_indexes[] = {
	{ "idx_runs_started_at", "started_at, id", false },
	{ "idx_runs_finished_at", "finished_at, id", false },
	{ "idx_runs_phase", "phase, started_at, id", false },
	{ "idx_runs_runtime", "runtime, started_at, id", true },
	{ "idx_runs_image_digest", "image_digest, started_at, id", true },
	{ "idx_runs_base_image", "base_image, started_at, id", true },
	{ "idx_runs_user_started_at", "user_id, started_at, id", false },
	{ "idx_runs_user_finished_at", "user_id, finished_at, id", false },
	{ "idx_runs_user_phase", "user_id, phase, started_at, id", false },
	{ "idx_runs_session_started_at", "session_id, started_at, id", true },
	{ "idx_runs_expires_sec", "expires_sec, id", true },
};

const struct table run_table = {
	TABLE("sandbox_runs", run_row, run_columns, 1),
	INDEXES(run_indexes),
};

static const struct column session_columns[] = {
	TEXT(session_row, id),
	TEXT(session_row, user_id),
	TEXT(session_row, spec_version),
	TEXT(session_row, runtime),
	TEXT(session_row, base_image),
	TEXT(session_row, network_policy),
	TEXT(session_row, trust_level),
	TEXT(session_row, env),
	TEXT(session_row, labels),
	TEXT(session_row, policy_hash),
	TEXT(session_row, persona_id),
	TEXT(session_row, workspace_id),
	TEXT(session_row, workspace_group_id),
	TEXT(session_row, scope_snapshot_id),
	TEXT(session_row, created_at),
	TEXT(session_row, expires_at),
	TEXT(session_row, state),
	TEXT(session_row, source),
	TEXT(session_row, name),
	REAL(session_row, cpu_limit),
	INT(session_row, memory_mb),
	INT(session_row, timeout_sec),
	INT(session_row, expires_sec),
	INT(session_row, uid),
	INT(session_row, workspace_exec),
};

static const struct table_index session_indexes[] = {
	{ "idx_sessions_user_created_at", "user_id, created_at, id", false },
	{ "idx_sessions_expires_sec", "expires_sec, id", true },
};

const struct table session_table = {
	TABLE("sandbox_sessions", session_row, session_columns, 1),
	INDEXES(session_indexes),
};

static const struct column idempotency_columns[] = {
	TEXT(idempotency_row, endpoint),
	TEXT(idempotency_row, user_key),
	TEXT(idempotency_row, key),
	TEXT(idempotency_row, fingerprint),
	TEXT(idempotency_row, object_id),
	TEXT(idempotency_row, response_body),
	INT(idempotency_row, created_at),
};

static const struct table_index idempotency_indexes[] = {
	{ "idx_idem_created_at", "created_at, endpoint, user_key, key", false },
	{ "idx_idem_user_key", "user_key, created_at, endpoint, key", false },
};

const struct table idempotency_table = {
	TABLE("sandbox_idempotency", idempotency_row, idempotency_columns, 3),
	INDEXES(idempotency_indexes),
};

static const struct column usage_columns[] = {
	TEXT(usage_row, user_id),
	INT(usage_row, runs_count),
	INT(usage_row, log_bytes),
	INT(usage_row, artifact_bytes),
};

static const struct table_index usage_indexes[] = {
	{ "idx_usage_artifact_bytes", "artifact_bytes, user_id", false },
};

const struct table usage_table = {
	TABLE("sandbox_usage", usage_row, usage_columns, 1),
	INDEXES(usage_indexes),
};

static const struct column daily_columns[] = {
	TEXT(daily_row, user_id),
	TEXT(daily_row, day),
	INT(daily_row, cpu_us),
	INT(daily_row, artifact_bytes),
	INT(daily_row, runs_count),
};

const struct table daily_table = {
	TABLE("sandbox_usage_daily", daily_row, daily_columns, 2),
};

static const struct column snapshot_columns[] = {
	TEXT(snapshot_row, session_id),
	TEXT(snapshot_row, id),
	TEXT(snapshot_row, user_id),
	TEXT(snapshot_row, created_at),
	INT(snapshot_row, size_bytes),
	INT(snapshot_row, created_ns),
};

const struct table snapshot_table = {
	TABLE("sandbox_snapshots", snapshot_row, snapshot_columns, 2),
};

const struct table *const tables[] = {
	&run_table,
	&session_table,
	&idempotency_table,
	&usage_table,
	&daily_table,
	&snapshot_table,
	NULL,
};
