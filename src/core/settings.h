/* Settings of the server. Each is a row of one table in settings.c, which says its name,
 * type, range, default and what it is for; docs/config.md is made from the same rows. A
 * value comes from the command line, else from the environment (SANDBOX_*), else from the
 * config file ("SANDBOX_X = value" lines, # comments), else it is the default. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "ipc/warm.h"

struct err;

enum auth_mode {
	AUTH_MODE_KEY,   /* whoever starts the server has a key; others are in <root>/users */
	AUTH_MODE_USERS, /* a users file and/or JWT */
};

enum store_kind {
	STORE_KIND_MEMORY,
	STORE_KIND_SQLITE,
};

/* Texts that are not set are NULL; lists never are, and end with NULL. */
struct settings {
	/* where it listens and lives */
	char *host;             /* SANDBOX_HOST, --host, 127.0.0.1 */
	uint64_t port;          /* SANDBOX_PORT, --port, 8080; 0: any */
	char *socket;           /* SANDBOX_SOCKET, --socket: a UNIX socket instead */
	char *tls_cert;         /* SANDBOX_TLS_CERT, --tls-cert */
	char *tls_key;          /* SANDBOX_TLS_KEY, --tls-key */
	char *root;             /* SANDBOX_ROOT_DIR, --root */
	char *public_url;       /* SANDBOX_PUBLIC_URL: put before URLs in answers; default none */
	char **allowed_hosts;   /* SANDBOX_ALLOWED_HOSTS: further Host names, list */
	char **allowed_origins; /* SANDBOX_ALLOWED_ORIGINS: list */
	char *run_as;           /* SANDBOX_RUN_AS: the user a server started by root becomes */
	uint64_t log_level;     /* SANDBOX_LOG_LEVEL */

	/* who may use it */
	char *keys_dir;            /* where keys of our own making are kept; NULL: root */
	enum auth_mode auth_mode;  /* follows from those below */
	char *api_key;             /* SANDBOX_API_KEY, secret */
	char *users_file;          /* SANDBOX_USERS_FILE */
	char *jwt_alg;             /* SANDBOX_JWT_ALG: HS256, RS256, ES256 */
	char *jwt_secret;          /* SANDBOX_JWT_SECRET, secret: for HS256 */
	char *jwt_public_key_file; /* SANDBOX_JWT_PUBLIC_KEY_FILE */
	char *jwt_issuer;          /* SANDBOX_JWT_ISSUER, optional */
	char *jwt_audience;        /* SANDBOX_JWT_AUDIENCE, optional */
	uint64_t rate_per_user;    /* SANDBOX_RATE_LIMIT_PER_USER: requests a minute, 0: none */
	uint64_t rate_per_ip;      /* SANDBOX_RATE_LIMIT_PER_IP */

	/* policy: those marked in the table go into policy_hash */
	char *default_runtime;     /* SANDBOX_DEFAULT_RUNTIME: native */
	char *network_default;     /* SANDBOX_NETWORK_DEFAULT: deny_all */
	char **spec_versions;      /* SANDBOX_SUPPORTED_SPEC_VERSIONS: 1.0,1.1 (or a JSON list) */
	uint64_t max_upload_mb;    /* 64 */
	uint64_t max_upload_files; /* SANDBOX_MAX_UPLOAD_FILES 1000 */
	uint64_t max_upload_depth; /* SANDBOX_MAX_UPLOAD_DEPTH 10 */
	uint64_t max_upload_ratio; /* SANDBOX_MAX_UPLOAD_RATIO 100: unpacked to packed */
	bool block_binaries;       /* SANDBOX_UPLOAD_BINARIES=allow|block */
	char **upload_binaries_allow; /* SANDBOX_UPLOAD_BINARIES_ALLOW: patterns of binaries, list
				       */
	char **upload_ignore;        /* SANDBOX_UPLOAD_IGNORE: .dockerignore-style patterns, list */
	bool unknown_warns;          /* SANDBOX_UNKNOWN_FIELDS=refuse|warn */
	uint64_t max_inline_bytes;   /* SANDBOX_MAX_INLINE_BYTES 1 MiB */
	uint64_t max_log_bytes;      /* 10485760 */
	uint64_t workspace_cap_mb;   /* 256 */
	uint64_t artifact_ttl_hours; /* 24 */
	uint64_t max_artifact_run_mb;     /* SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB 32 */
	uint64_t max_artifact_user_mb;    /* SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB 128 */
	uint64_t max_artifact_file_bytes; /* SANDBOX_MAX_ARTIFACT_FILE_BYTES 67108864 */
	uint64_t max_cpu_milli;           /* SANDBOX_MAX_CPU 4.0, kept in thousandths */
	uint64_t max_mem_mb;              /* 8192 */
	uint64_t default_cpu_milli;       /* SANDBOX_DEFAULT_CPU 1.0, kept in thousandths */
	uint64_t default_mem_mb;          /* SANDBOX_DEFAULT_MEM_MB; 0 becomes the machine's */
	uint64_t pids_limit;              /* 256 */
	uint64_t nofile;                  /* SANDBOX_ULIMIT_NOFILE 1024 */
	uint64_t nproc;                   /* SANDBOX_ULIMIT_NPROC 512 */
	uint64_t startup_timeout_sec;     /* SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC 20 */
	uint64_t exec_timeout_sec;        /* SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC 60 */
	uint64_t cancel_grace_sec;        /* SANDBOX_CANCEL_GRACE_SECONDS 5 */
	bool enable_execution;            /* SANDBOX_ENABLE_EXECUTION; here true by default */
	bool background_execution;        /* SANDBOX_BACKGROUND_EXECUTION; here true by default */
	char *seccomp;                    /* SANDBOX_DOCKER_SECCOMP: a profile; NULL: ours */
	char seccomp_digest[65];          /* of its contents in canonical form, for policy_hash */
	char *apparmor;                   /* SANDBOX_DOCKER_APPARMOR_PROFILE; for docker, later */
	char **require;                   /* SANDBOX_REQUIRE: facets without which no run is made */
	char **workspace_exec;            /* SANDBOX_WORKSPACE_EXEC: see policy_check_exec() */
	/* SANDBOX_APPROVAL_REQUIRED: rules such as "all", "trusted", "memory_mb>4096", "cpu>2",
	 * "timeout_sec>300"; runs that fit one wait for an admin */
	char **approval_for;

	/* queue and quotas */
	uint64_t max_concurrent_runs;    /* SANDBOX_MAX_CONCURRENT_RUNS; 0 becomes the
					    machine's */
	uint64_t active_max_per_user;    /* SANDBOX_ACTIVE_MAX_PER_USER 0: all, or all but one */
	uint64_t queue_max_length;       /* SANDBOX_QUEUE_MAX_LENGTH 100; 0: always full */
	uint64_t queue_max_per_user;     /* SANDBOX_QUEUE_MAX_PER_USER 0: no limit */
	uint64_t queue_ttl_sec;          /* 120 */
	uint64_t queue_wait_per_run_sec; /* SANDBOX_QUEUE_ESTIMATED_WAIT_PER_RUN_SEC 5 */
	uint64_t cpu_sec_per_day;        /* SANDBOX_MAX_CPU_SECONDS_PER_USER_PER_DAY 0: none */
	bool kernel_idle_runs;           /* SANDBOX_KERNEL_IDLE=freeze|run */
	uint64_t artifact_mb_per_day;    /* SANDBOX_MAX_ARTIFACT_MB_PER_USER_PER_DAY 0: none */
	uint64_t idempotency_ttl_sec;    /* 600 */
	uint64_t session_ttl_sec;        /* SANDBOX_SESSION_TTL_SEC 3600; 0: never */
	uint64_t session_drain_sec;      /* SANDBOX_SESSION_DELETE_DRAIN_TIMEOUT_SEC 10 */
	uint64_t max_sessions_per_user;  /* SANDBOX_MAX_SESSIONS_PER_USER 32 */
	uint64_t snapshot_max_count;     /* 10 */
	uint64_t snapshot_max_size_mb;   /* 256 */

	/* streams */
	bool files_signed_urls;            /* SANDBOX_FILES_SIGNED_URLS */
	uint64_t files_signed_url_ttl_sec; /* SANDBOX_FILES_SIGNED_URL_TTL_SEC 3600 */
	bool ws_signed_urls;               /* SANDBOX_WS_SIGNED_URLS */
	char *ws_signing_secret;           /* SANDBOX_WS_SIGNING_SECRET, secret; made if not set */
	uint64_t ws_signed_url_ttl_sec;    /* 60 */
	uint64_t ws_heartbeat_ms;          /* SANDBOX_WS_HEARTBEAT_SEC 10, kept in milliseconds */
	uint64_t ws_poll_timeout_sec;      /* SANDBOX_WS_POLL_TIMEOUT_SEC 30 */
	bool ws_synthetic_frames; /* SANDBOX_WS_SYNTHETIC_FRAMES_FOR_TESTS; refused if true: there
				     are real ones */
	uint64_t ws_max_total;    /* SANDBOX_WS_MAX_CONNECTIONS 2048 */
	uint64_t ws_max_per_user; /* SANDBOX_WS_MAX_PER_USER 2048 */
	uint64_t stdin_max_bytes; /* SANDBOX_INTERACTIVE_MAX_BYTES 1 MiB */
	uint64_t stdin_max_frame_bytes; /* SANDBOX_INTERACTIVE_MAX_FRAME_BYTES 65536 */
	uint64_t stdin_bps;             /* SANDBOX_INTERACTIVE_INPUT_BPS 65536 */
	uint64_t stdin_idle_sec;        /* SANDBOX_INTERACTIVE_IDLE_TIMEOUT_SEC 30 */

	/* the Fathom door */
	uint64_t fathom_grace_sec;  /* SANDBOX_FATHOM_GRACE_SEC 2 */
	uint64_t fathom_max_active; /* SANDBOX_FATHOM_MAX_ACTIVE 128: of one connection */
	char *fathom_image;         /* SANDBOX_FATHOM_IMAGE: host */

	/* the MCP door */
	char *mcp_image;               /* SANDBOX_MCP_IMAGE: host */
	char **mcp_env_allow;          /* SANDBOX_MCP_ENV_ALLOW */
	uint64_t mcp_max_code_bytes;   /* SANDBOX_MCP_MAX_CODE_BYTES 256 KiB */
	uint64_t mcp_max_output_bytes; /* SANDBOX_MCP_MAX_OUTPUT_BYTES 64 KiB */
	uint64_t mcp_max_artifacts;    /* SANDBOX_MCP_MAX_ARTIFACTS 100 */
	uint64_t mcp_max_read_bytes;   /* SANDBOX_MCP_MAX_READ_BYTES 5 MiB */
	uint64_t mcp_max_sessions;     /* SANDBOX_MCP_MAX_SESSIONS_PER_USER 64 */
	uint64_t mcp_session_ttl_sec;  /* SANDBOX_MCP_SESSION_TTL_SEC 3600 */

	/* warm boxes */
	enum warmth warm;        /* SANDBOX_WARM=off|boxes|languages */
	char *warm_imports;      /* SANDBOX_WARM_IMPORTS; NULL for none */
	uint64_t warm_memory_mb; /* SANDBOX_WARM_MEMORY_MB 256 */

	/* store, audit, sweeps, git */
	enum store_kind store;    /* SANDBOX_STORE_BACKEND memory|sqlite; here sqlite by default */
	char *store_path;         /* SANDBOX_STORE_DB_PATH; default <root>/meta/sandbox_store.db */
	bool store_sync_full;     /* SANDBOX_STORE_SYNC=normal|full */
	char *audit_file;         /* SANDBOX_AUDIT_FILE; default <root>/audit/audit.jsonl */
	uint64_t audit_max_mb;    /* SANDBOX_AUDIT_MAX_MB 64: rotated above */
	uint64_t audit_days;      /* SANDBOX_AUDIT_RETENTION_DAYS 30 */
	uint64_t gc_interval_sec; /* SANDBOX_GC_INTERVAL_SEC 900 */
	uint64_t min_free_mb;     /* SANDBOX_MIN_FREE_MB 256 */
	uint64_t run_retention_hours; /* SANDBOX_RUN_RETENTION_HOURS 720: rows of ended runs */
	char **git_allow;             /* SANDBOX_GIT_ALLOW: see docs/config.md; https by default */
	uint64_t git_max_mb;          /* SANDBOX_GIT_MAX_MB 256 */
	uint64_t git_timeout_sec;     /* SANDBOX_GIT_TIMEOUT_SEC 60 */
	uint64_t drain_sec; /* SANDBOX_DRAIN_TIMEOUT_SEC 10: how long SIGTERM waits for runs */
};

/* A setting given on the command line: "SANDBOX_PORT" and its text. */
struct setting_option {
	const char *name;
	const char *value;
};

/* Fill `c` from all sources; `file` may be NULL (then $SANDBOX_CONFIG, if set). -EINVAL has
 * a sentence that names the setting, where it came from, what was wrong and what is right; a
 * name that begins with SANDBOX_ and that we do not know is refused with the nearest one. A
 * variable that is empty counts as not set. Secrets are refused as options, where everyone
 * on the machine could read them, and in a file that everyone may read.
 * Give `c` to settings_fini() in any case. */
int settings_load(struct settings *c, const char *file, const struct setting_option *options,
	size_t n_options, struct err *err);
void settings_fini(struct settings *c); /* wipes secrets; c may be all zero */

/* docs/config.md. */
void settings_write_manual(FILE *out);

/* True when only this machine can reach us: a UNIX socket or a loopback address. */
bool settings_is_local(const struct settings *c);

/* policy_hash as the seed defines it: 64 hex digits of SHA-256 over
 * "tldw.sandbox.policy:v1\n" and the canonical JSON of the marked settings. */
void settings_policy_hash(const struct settings *c, char ret[65]);
