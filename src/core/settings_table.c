#include "core/settings_table.h"

#include "base/cleanup.h"
#include "core/policy.h"
#include "core/settings.h"

#define MB_MAX (UINT64_C(1) << 26) /* 64 TiB, the most that ipc/spec.h takes */
#define DAY    86400

static const char *const log_levels[] = { "debug", "info", "warn", "error", NULL };
static const char *const jwt_algs[] = { "HS256", "RS256", "ES256", NULL };
static const char *const runtimes[] = { "native", "docker", "firecracker", NULL };
static const char *const networks[] = { "deny_all", "allowlist", NULL };
static const char *const allow_block[] = { "allow", "block", NULL };
static const char *const refuse_warn[] = { "refuse", "warn", NULL };
static const char *const stores[] = { "memory", "sqlite", NULL };
static const char *const syncs[] = { "normal", "full", NULL };
static const char *const idles[] = { "freeze", "run", NULL }; /* bool kernel_idle_runs */
static const char *const warmths[] = { "off", "boxes", "languages", NULL }; /* enum warmth */

const char *const setting_group_titles[GROUP_COUNT] = {
	[GROUP_LISTEN] = "Where it listens and lives",
	[GROUP_AUTH] = "Who may use it",
	[GROUP_POLICY] = "Policy",
	[GROUP_QUEUE] = "Queue, sessions and quotas",
	[GROUP_STREAM] = "Streams",
	[GROUP_FATHOM] = "The Fathom door",
	[GROUP_MCP] = "The MCP door",
	[GROUP_WARM] = "Warm boxes",
	[GROUP_STORE] = "Store, audit, sweeps and git",
};

const struct setting_row setting_rows[] = {
#define AT(field) offsetof(struct settings, field), sizeof(((struct settings *)0)->field)
	{ GROUP_LISTEN, "SANDBOX_HOST", SETTING_TEXT, AT(host), "127.0.0.1",
		.check = setting_check_name,
		.help = "Address to listen on; a TLS certificate is wise "
			"for one beyond this machine." },
	{ GROUP_LISTEN, "SANDBOX_PORT", SETTING_NUMBER, AT(port), "8080", 0, 65535,
		.help = "TCP port; 0 takes any free one." },
	{ GROUP_LISTEN, "SANDBOX_SOCKET", SETTING_PATH, AT(socket),
		.help = "Listen on this UNIX socket instead of TCP." },
	{ GROUP_LISTEN, "SANDBOX_TLS_CERT", SETTING_PATH, AT(tls_cert),
		.help = "Certificate chain, PEM; needs `SANDBOX_TLS_KEY`." },
	{ GROUP_LISTEN, "SANDBOX_TLS_KEY", SETTING_PATH, AT(tls_key),
		.help = "Private key of the certificate, PEM." },
	{ GROUP_LISTEN, "SANDBOX_ROOT_DIR", SETTING_PATH, AT(root),
		.note = "`$BELLJAR_ROOT` or the usual place",
		.help = "State directory: keys, store, images, workspaces, artifacts." },
	{ GROUP_LISTEN, "SANDBOX_PUBLIC_URL", SETTING_TEXT, AT(public_url),
		.check = setting_check_url,
		.help = "Put before the paths of URLs in answers, such as "
			"`https://box.example.org`." },
	{ GROUP_LISTEN, "SANDBOX_ALLOWED_HOSTS", SETTING_LIST, AT(allowed_hosts),
		.check = setting_check_name,
		.help = "Further names that a Host header may carry; loopback names "
			"and the own address are always allowed." },
	{ GROUP_LISTEN, "SANDBOX_ALLOWED_ORIGINS", SETTING_LIST, AT(allowed_origins),
		.check = setting_check_url,
		.help = "Origins of web pages that may call us, besides our own." },
	{ GROUP_LISTEN, "SANDBOX_RUN_AS", SETTING_TEXT, AT(run_as), .check = setting_check_name,
		.help = "User that a server started by root becomes." },
	{ GROUP_LISTEN, "SANDBOX_LOG_LEVEL", SETTING_CHOICE, AT(log_level), "info",
		.words = log_levels, .help = "What is worth a line on stderr." },
	{ GROUP_LISTEN, "SANDBOX_DRAIN_TIMEOUT_SEC", SETTING_NUMBER, AT(drain_sec), "10", 0, 3600,
		.help = "Seconds that SIGTERM waits for runs; what still "
			"runs then goes on in its keeper." },
	{ GROUP_AUTH, "SANDBOX_API_KEY", SETTING_SECRET, AT(api_key), .check = setting_check_key,
		.note = "made at the first start, in `<root>/data/api_key`",
		.help = "The key of whoever starts the server, who is an admin." },
	{ GROUP_AUTH, "SANDBOX_USERS_FILE", SETTING_PATH, AT(users_file),
		.note = "`<root>/users`, when it is there, beside the key above",
		.help = "Several users with a key each; see `belljar user`. With it there is no other "
			"key." },
	{ GROUP_AUTH, "SANDBOX_JWT_ALG", SETTING_WORD, AT(jwt_alg), .words = jwt_algs,
		.help = "Accept JSON Web Tokens, signed with this algorithm and no other. `sub` is the "
			"user; `is_admin: true`, or `admin` or `sandbox_admin` as `role` or among "
			"`roles`, makes it an admin." },
	{ GROUP_AUTH, "SANDBOX_JWT_SECRET", SETTING_SECRET, AT(jwt_secret),
		.check = setting_check_jwt_secret, .help = "Key for HS256, at least 32 bytes." },
	{ GROUP_AUTH, "SANDBOX_JWT_PUBLIC_KEY_FILE", SETTING_PATH, AT(jwt_public_key_file),
		.help = "Public key for RS256 and ES256, PEM." },
	{ GROUP_AUTH, "SANDBOX_JWT_ISSUER", SETTING_TEXT, AT(jwt_issuer),
		.help = "A token's `iss` must be this." },
	{ GROUP_AUTH, "SANDBOX_JWT_AUDIENCE", SETTING_TEXT, AT(jwt_audience),
		.help = "A token's `aud` must be or hold this." },
	{ GROUP_AUTH, "SANDBOX_RATE_LIMIT_PER_USER", SETTING_NUMBER, AT(rate_per_user), "0", 0,
		10000000, .help = "Requests a minute of one user; 0: no limit." },
	{ GROUP_AUTH, "SANDBOX_RATE_LIMIT_PER_IP", SETTING_NUMBER, AT(rate_per_ip), "0", 0,
		10000000,
		.help = "Requests a minute from one address, also without credentials; 0: no limit." },
	{ GROUP_POLICY, "SANDBOX_DEFAULT_RUNTIME", SETTING_WORD, AT(default_runtime), "native",
		.words = runtimes, .policy = true,
		.help = "Runtime of requests that name none; only native is available yet." },
	{ GROUP_POLICY, "SANDBOX_NETWORK_DEFAULT", SETTING_WORD, AT(network_default), "deny_all",
		.words = networks, .policy = true,
		.help = "Network policy of requests that name none; only "
			"deny_all can be enforced yet." },
	{ GROUP_POLICY, "SANDBOX_SUPPORTED_SPEC_VERSIONS", SETTING_LIST, AT(spec_versions),
		"1.0,1.1", .policy = true, .check = setting_check_version,
		.help = "Values of spec_version that requests may have." },
	{ GROUP_POLICY, "SANDBOX_MAX_UPLOAD_MB", SETTING_MB, AT(max_upload_mb), "64", 1, MB_MAX,
		.policy = true, .help = "Size of one upload." },
	{ GROUP_POLICY, "SANDBOX_MAX_UPLOAD_FILES", SETTING_NUMBER, AT(max_upload_files), "1000", 1,
		1000000, .help = "Files in one upload, those of its archives included." },
	{ GROUP_POLICY, "SANDBOX_MAX_UPLOAD_DEPTH", SETTING_NUMBER, AT(max_upload_depth), "10", 1,
		64, .help = "Directories above a file of an upload." },
	{ GROUP_POLICY, "SANDBOX_MAX_UPLOAD_RATIO", SETTING_NUMBER, AT(max_upload_ratio), "100", 1,
		100000, .help = "How many times larger than the archive its contents may be." },
	{ GROUP_POLICY, "SANDBOX_UPLOAD_BINARIES", SETTING_CHOICE, AT(block_binaries), "allow",
		.words = allow_block,
		.help = "Whether files may be binary: programs, libraries, and any data with a NUL "
			"in its first 8192 bytes. If not, an upload leaves them out and counts "
			"them, and a run with one among its inline files is refused; repositories "
			"are cloned as they are." },
	{ GROUP_POLICY, "SANDBOX_UPLOAD_BINARIES_ALLOW", SETTING_LIST, AT(upload_binaries_allow),
		.help = "Patterns of files that may be binary where binaries are blocked, as in "
			".dockerignore, such as `**/*.png`." },
	{ GROUP_POLICY, "SANDBOX_UPLOAD_IGNORE", SETTING_LIST, AT(upload_ignore),
		.help = "Patterns of files that an upload leaves out, as in .dockerignore." },
	{ GROUP_POLICY, "SANDBOX_UNKNOWN_FIELDS", SETTING_CHOICE, AT(unknown_warns), "refuse",
		.words = refuse_warn,
		.help = "What becomes of a request with a field, an argument or a parameter that "
			"is not known: refused by name, or taken without it, which `warnings` of "
			"the answer then says." },
	{ GROUP_POLICY, "SANDBOX_MAX_INLINE_BYTES", SETTING_BYTES, AT(max_inline_bytes), "1048576",
		0, 16 << 20, .help = "All files within one request for a run together." },
	{ GROUP_POLICY, "SANDBOX_MAX_LOG_BYTES", SETTING_BYTES, AT(max_log_bytes), "10485760", 0,
		UINT64_C(1) << 40, .policy = true,
		.help = "Output of one run that is kept and streamed; the "
			"rest is cut off and said to be." },
	{ GROUP_POLICY, "SANDBOX_WORKSPACE_CAP_MB", SETTING_MB, AT(workspace_cap_mb), "256", 1,
		MB_MAX, .policy = true,
		.help = "Size of a workspace; a trust level may have less." },
	{ GROUP_POLICY, "SANDBOX_ARTIFACT_TTL_HOURS", SETTING_NUMBER, AT(artifact_ttl_hours), "24",
		1, 87600, .policy = true, .help = "Hours after which artifacts are removed." },
	{ GROUP_POLICY, "SANDBOX_MAX_ARTIFACT_BYTES_PER_RUN_MB", SETTING_MB,
		AT(max_artifact_run_mb), "32", 0, MB_MAX, .policy = true,
		.help = "Artifacts of one run." },
	{ GROUP_POLICY, "SANDBOX_MAX_ARTIFACT_BYTES_PER_USER_MB", SETTING_MB,
		AT(max_artifact_user_mb), "128", 0, MB_MAX, .policy = true,
		.help = "Artifacts of one user." },
	{ GROUP_POLICY, "SANDBOX_MAX_ARTIFACT_FILE_BYTES", SETTING_BYTES,
		AT(max_artifact_file_bytes), "67108864", 1, UINT64_C(1) << 46,
		.help = "One artifact." },
	{ GROUP_POLICY, "SANDBOX_MAX_CPU", SETTING_MILLI, AT(max_cpu_milli), "4.0", 10, 1024 * 1000,
		.policy = true, .help = "Processor cores of one run." },
	{ GROUP_POLICY, "SANDBOX_MAX_MEM_MB", SETTING_MB, AT(max_mem_mb), "8192", 64, MB_MAX,
		.policy = true, .help = "Memory of one run." },
	{ GROUP_POLICY, "SANDBOX_DEFAULT_CPU", SETTING_MILLI, AT(default_cpu_milli), "1.0", 10,
		1024 * 1000,
		.help = "Processor cores of a run that does not ask for any; never more than "
			"`SANDBOX_MAX_CPU`." },
	{ GROUP_POLICY, "SANDBOX_DEFAULT_MEM_MB", SETTING_MB, AT(default_mem_mb), "0", 0, MB_MAX,
		.help = "Memory of a run that does not ask for any; never more than "
			"`SANDBOX_MAX_MEM_MB`. 0: 1024, or a quarter of the machine's memory where "
			"that is less." },
	{ GROUP_POLICY, "SANDBOX_PIDS_LIMIT", SETTING_NUMBER, AT(pids_limit), "256", 2, 65536,
		.policy = true,
		.help = "Processes and threads of one run. A trust level may have fewer: trusted "
			"512, standard 256, untrusted 64." },
	{ GROUP_POLICY, "SANDBOX_ULIMIT_NOFILE", SETTING_NUMBER, AT(nofile), "1024", 16, 1 << 20,
		.policy = true, .help = "Descriptors that one process may open." },
	{ GROUP_POLICY, "SANDBOX_ULIMIT_NPROC", SETTING_NUMBER, AT(nproc), "512", 2, 65536,
		.policy = true,
		.help = "RLIMIT_NPROC of a run: where the kernel counts processes of its user. The "
			"lower of this and `SANDBOX_PIDS_LIMIT` holds." },
	{ GROUP_POLICY, "SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC", SETTING_NUMBER,
		AT(startup_timeout_sec), "20", 1, 600, .policy = true,
		.help = "Seconds until a command has started." },
	{ GROUP_POLICY, "SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC", SETTING_NUMBER, AT(exec_timeout_sec),
		"60", 1, 3600, .policy = true,
		.help = "Seconds a command may take, when the request does not say." },
	{ GROUP_POLICY, "SANDBOX_CANCEL_GRACE_SECONDS", SETTING_NUMBER, AT(cancel_grace_sec), "5",
		0, 600, .policy = true,
		.help = "Seconds between SIGTERM and SIGKILL of a canceled run." },
	{ GROUP_POLICY, "SANDBOX_ENABLE_EXECUTION", SETTING_BOOL, AT(enable_execution), "true",
		.policy = true,
		.help = "Execute runs; else they are accepted and wait in the queue." },
	{ GROUP_POLICY, "SANDBOX_BACKGROUND_EXECUTION", SETTING_BOOL, AT(background_execution),
		"true", .policy = true,
		.help = "Answer a request for a run at once; else when it has ended." },
	{ GROUP_POLICY, "SANDBOX_DOCKER_SECCOMP", SETTING_PATH, AT(seccomp), .policy = true,
		.note = "the profile that is built in",
		.help = "Another seccomp profile, in Docker's format; the policy "
			"hash has the digest of its contents." },
	{ GROUP_POLICY, "SANDBOX_DOCKER_APPARMOR_PROFILE", SETTING_TEXT, AT(apparmor),
		.policy = true, .check = setting_check_name,
		.help = "AppArmor profile for runtimes that use one." },
	{ GROUP_POLICY, "SANDBOX_REQUIRE", SETTING_LIST, AT(require), .check = setting_check_facet,
		.help = "Protections without which a run is refused, such "
			"as `memory,seccomp`, or `all`." },
	{ GROUP_POLICY, "SANDBOX_WORKSPACE_EXEC", SETTING_LIST, AT(workspace_exec), "off",
		.policy_unless_standard = true, .check = policy_check_exec,
		.help = "Whether runs can execute files of /workspace and /tmp: `off`, `ask` (those "
			"that ask for it by `workspace_exec`), or `on` (all that do not refuse it). "
			"That is for the trust levels trusted and standard; one by itself, untrusted "
			"too, is given as `untrusted=ask`. A part of the hash unless it is off." },
	{ GROUP_POLICY, "SANDBOX_APPROVAL_REQUIRED", SETTING_LIST, AT(approval_for),
		.check = policy_check_rule,
		.help = "Runs that wait for an admin: `all`, a trust level, or "
			"`cpu>2`, `memory_mb>4096`, `timeout_sec>300`." },
	{ GROUP_QUEUE, "SANDBOX_MAX_CONCURRENT_RUNS", SETTING_NUMBER, AT(max_concurrent_runs), "0",
		0, 4096,
		.help = "Runs at the same time. 0: four for each processor, but no more than have "
			"`SANDBOX_DEFAULT_MEM_MB` each." },
	{ GROUP_QUEUE, "SANDBOX_ACTIVE_MAX_PER_USER", SETTING_NUMBER, AT(active_max_per_user), "0",
		0, 4096,
		.help = "Of these, how many of one user; 0: all of them, or all but "
			"one where there are several users." },
	{ GROUP_QUEUE, "SANDBOX_QUEUE_MAX_LENGTH", SETTING_NUMBER, AT(queue_max_length), "100", 0,
		100000,
		.help = "Runs that may wait, for their turn or for an admin; 0: none, "
			"every request is told to come back." },
	{ GROUP_QUEUE, "SANDBOX_QUEUE_MAX_PER_USER", SETTING_NUMBER, AT(queue_max_per_user), "0", 0,
		100000, .help = "Of these, how many of one user; 0: no limit." },
	{ GROUP_QUEUE, "SANDBOX_QUEUE_TTL_SEC", SETTING_NUMBER, AT(queue_ttl_sec), "120", 1, DAY,
		.help = "Seconds a run may wait for its turn, where runs are executed." },
	{ GROUP_QUEUE, "SANDBOX_QUEUE_ESTIMATED_WAIT_PER_RUN_SEC", SETTING_NUMBER,
		AT(queue_wait_per_run_sec), "5", 0, 3600,
		.help = "Seconds a waiting run is assumed to take, for estimated_start_time." },
	{ GROUP_QUEUE, "SANDBOX_MAX_CPU_SECONDS_PER_USER_PER_DAY", SETTING_NUMBER,
		AT(cpu_sec_per_day), "0", 0, 1000 * DAY,
		.help = "Processor seconds of one user on one day (UTC); 0: no limit. What waits or "
			"runs has reserved as much as its time limit lets it use." },
	{ GROUP_QUEUE, "SANDBOX_KERNEL_IDLE", SETTING_CHOICE, AT(kernel_idle_runs), "freeze",
		.words = idles,
		.help = "What becomes of threads and children that an execution of a kernel leaves "
			"behind: frozen until the next one, or running, and their processor time "
			"counts for the user's day." },
	{ GROUP_QUEUE, "SANDBOX_MAX_ARTIFACT_MB_PER_USER_PER_DAY", SETTING_MB,
		AT(artifact_mb_per_day), "0", 0, MB_MAX,
		.help = "Artifacts one user may make on one day (UTC); 0: no limit." },
	{ GROUP_QUEUE, "SANDBOX_IDEMPOTENCY_TTL_SEC", SETTING_NUMBER, AT(idempotency_ttl_sec),
		"600", 0, 30 * DAY, .help = "Seconds an Idempotency-Key is remembered." },
	{ GROUP_QUEUE, "SANDBOX_SESSION_TTL_SEC", SETTING_NUMBER, AT(session_ttl_sec), "3600", 0,
		365 * DAY,
		.help = "Seconds after its last use that a session is kept; 0: always. Artifacts of its runs "
			"have a time of their own." },
	{ GROUP_QUEUE, "SANDBOX_SESSION_DELETE_DRAIN_TIMEOUT_SEC", SETTING_NUMBER,
		AT(session_drain_sec), "10", 0, 600,
		.help = "Seconds that removing a session waits for its runs to end." },
	{ GROUP_QUEUE, "SANDBOX_MAX_SESSIONS_PER_USER", SETTING_NUMBER, AT(max_sessions_per_user),
		"32", 1, 10000, .help = "Sessions of one user." },
	{ GROUP_QUEUE, "SANDBOX_SNAPSHOT_MAX_COUNT", SETTING_NUMBER, AT(snapshot_max_count), "10",
		0, 10000, .help = "Snapshots of one session; the oldest make room." },
	{ GROUP_QUEUE, "SANDBOX_SNAPSHOT_MAX_SIZE_MB", SETTING_MB, AT(snapshot_max_size_mb), "256",
		0, MB_MAX,
		.help = "Snapshots of one session together; the oldest make room, and one "
			"that is larger by itself is refused." },
	{ GROUP_STREAM, "SANDBOX_WS_SIGNED_URLS", SETTING_BOOL, AT(ws_signed_urls), "false",
		.help = "Give out log_stream_url with a signature and an expiry." },
	{ GROUP_STREAM, "SANDBOX_WS_SIGNING_SECRET", SETTING_SECRET, AT(ws_signing_secret),
		.check = setting_check_key,
		.note = "made at the first start, in `<root>/data/signing_secret`",
		.help = "Key of these signatures, and of those of files." },
	{ GROUP_STREAM, "SANDBOX_WS_SIGNED_URL_TTL_SEC", SETTING_NUMBER, AT(ws_signed_url_ttl_sec),
		"60", 1, DAY, .help = "Seconds such a URL is good for." },
	{ GROUP_STREAM, "SANDBOX_FILES_SIGNED_URLS", SETTING_BOOL, AT(files_signed_urls), "false",
		.help = "Give out the URLs of a session's files with a signature and an expiry, "
			"and let whoever has one read that file." },
	{ GROUP_STREAM, "SANDBOX_FILES_SIGNED_URL_TTL_SEC", SETTING_NUMBER,
		AT(files_signed_url_ttl_sec), "3600", 1, 30 * DAY,
		.help = "Seconds such a URL is good for." },
	{ GROUP_STREAM, "SANDBOX_WS_HEARTBEAT_SEC", SETTING_MILLI, AT(ws_heartbeat_ms), "10", 100,
		3600 * 1000, .help = "Seconds between heartbeats on a stream." },
	{ GROUP_STREAM, "SANDBOX_WS_POLL_TIMEOUT_SEC", SETTING_NUMBER, AT(ws_poll_timeout_sec),
		"30", 1, 3600,
		.help = "Seconds a client may leave a stream's bytes lying before it is dropped." },
	{ GROUP_STREAM, "SANDBOX_WS_SYNTHETIC_FRAMES_FOR_TESTS", SETTING_BOOL,
		AT(ws_synthetic_frames), "false",
		.help = "Not supported: the server refuses to start if this is set." },
	{ GROUP_STREAM, "SANDBOX_WS_MAX_CONNECTIONS", SETTING_NUMBER, AT(ws_max_total), "2048", 1,
		100000, .help = "Streams at the same time." },
	{ GROUP_STREAM, "SANDBOX_WS_MAX_PER_USER", SETTING_NUMBER, AT(ws_max_per_user), "2048", 1,
		100000, .help = "Of these, how many of one user." },
	{ GROUP_STREAM, "SANDBOX_INTERACTIVE_MAX_BYTES", SETTING_BYTES, AT(stdin_max_bytes),
		"1048576", 0, UINT64_C(1) << 40, .help = "Input of one interactive run." },
	{ GROUP_STREAM, "SANDBOX_INTERACTIVE_MAX_FRAME_BYTES", SETTING_BYTES,
		AT(stdin_max_frame_bytes), "65536", 1, 1 << 20, .help = "Input in one frame." },
	{ GROUP_STREAM, "SANDBOX_INTERACTIVE_INPUT_BPS", SETTING_BYTES, AT(stdin_bps), "65536", 1,
		1 << 30, .help = "Input bytes a second." },
	{ GROUP_STREAM, "SANDBOX_INTERACTIVE_IDLE_TIMEOUT_SEC", SETTING_NUMBER, AT(stdin_idle_sec),
		"30", 0, DAY, .help = "Seconds without input after which it is closed; 0: never." },
	{ GROUP_FATHOM, "SANDBOX_FATHOM_GRACE_SEC", SETTING_NUMBER, AT(fathom_grace_sec), "2", 0,
		3600,
		.help = "Seconds after which executions are ended whose connection is gone." },
	{ GROUP_FATHOM, "SANDBOX_FATHOM_MAX_ACTIVE", SETTING_NUMBER, AT(fathom_max_active), "128",
		1, 10000, .help = "Executions at the same time on one connection." },
	{ GROUP_FATHOM, "SANDBOX_FATHOM_IMAGE", SETTING_TEXT, AT(fathom_image), "host",
		.help = "Image that executions run in." },
	{ GROUP_MCP, "SANDBOX_MCP_IMAGE", SETTING_TEXT, AT(mcp_image), "host",
		.help = "Image of sessions that tools create." },
	{ GROUP_MCP, "SANDBOX_MCP_ENV_ALLOW", SETTING_LIST, AT(mcp_env_allow),
		"LANG,LC_*,TZ,PYTHON*,MPL*,OMP_*,APP_*",
		.help = "Names, or patterns of names, of variables that a tool's `env` may set." },
	{ GROUP_MCP, "SANDBOX_MCP_MAX_CODE_BYTES", SETTING_BYTES, AT(mcp_max_code_bytes), "262144",
		1, 4 << 20,
		.help = "Code of one call. Never more than 1 MiB of Python, together with its "
			"stdin, and `SANDBOX_MAX_INLINE_BYTES` of other languages." },
	{ GROUP_MCP, "SANDBOX_MCP_MAX_OUTPUT_BYTES", SETTING_BYTES, AT(mcp_max_output_bytes),
		"65536", 256, 4 << 20,
		.help = "Of stdout, and of stderr, that the answer of a tool carries: of more, the "
			"beginning and the end." },
	{ GROUP_MCP, "SANDBOX_MCP_MAX_ARTIFACTS", SETTING_NUMBER, AT(mcp_max_artifacts), "100", 1,
		10000, .help = "Files that the answer of a tool lists." },
	{ GROUP_MCP, "SANDBOX_MCP_MAX_READ_BYTES", SETTING_BYTES, AT(mcp_max_read_bytes), "5M", 1,
		16 << 20,
		.help = "A file that a tool reads; of a larger one the answer says where it can be "
			"fetched." },
	{ GROUP_MCP, "SANDBOX_MCP_MAX_SESSIONS_PER_USER", SETTING_NUMBER, AT(mcp_max_sessions),
		"64", 1, 10000,
		.help = "Clients of one user at the same time; the one that was idle for longest "
			"makes room." },
	{ GROUP_MCP, "SANDBOX_MCP_SESSION_TTL_SEC", SETTING_NUMBER, AT(mcp_session_ttl_sec), "3600",
		1, 30 * DAY,
		.help = "Seconds after which a client that says nothing is forgotten." },
	{ GROUP_WARM, "SANDBOX_WARM", SETTING_CHOICE, AT(warm), "languages", .words = warmths,
		.help = "What is made ahead of the runs: nothing, boxes, or boxes with a Python "
			"that is loaded already, too." },
	{ GROUP_WARM, "SANDBOX_WARM_IMPORTS", SETTING_TEXT, AT(warm_imports),
		.check = setting_check_imports,
		.help = "Modules that a warm Python has imported, such as `numpy,pandas`; those "
			"which can not be imported are left out. They are as they were found when "
			"the template was loaded: what a run puts in their place by sys.path, or "
			"into files that they read when imported, comes too late." },
	{ GROUP_WARM, "SANDBOX_WARM_MEMORY_MB", SETTING_MB, AT(warm_memory_mb), "256", 0, MB_MAX,
		.help = "Memory that all which wait may take, half of it boxes at 1 MB and half "
			"clones of Python at 6 MB each; the template, which clones share most of, "
			"is not counted, and not there without room for a clone." },
	{ GROUP_STORE, "SANDBOX_STORE_BACKEND", SETTING_CHOICE, AT(store), "sqlite",
		.words = stores,
		.help = "Where runs, sessions and quotas are kept; memory forgets them." },
	{ GROUP_STORE, "SANDBOX_STORE_DB_PATH", SETTING_PATH, AT(store_path),
		.note = "`<root>/data/meta/sandbox_store.db`", .help = "The SQLite database." },
	{ GROUP_STORE, "SANDBOX_STORE_SYNC", SETTING_CHOICE, AT(store_sync_full), "normal",
		.words = syncs,
		.help = "What an accepted run survives: normal, the death of any "
			"process; full, the loss of power too." },
	{ GROUP_STORE, "SANDBOX_AUDIT_FILE", SETTING_PATH, AT(audit_file),
		.note = "`<root>/data/audit/audit.jsonl`",
		.help = "Who did what, a JSON object a line." },
	{ GROUP_STORE, "SANDBOX_AUDIT_MAX_MB", SETTING_MB, AT(audit_max_mb), "64", 1, MB_MAX,
		.help = "Size from which a new audit file is begun." },
	{ GROUP_STORE, "SANDBOX_AUDIT_RETENTION_DAYS", SETTING_NUMBER, AT(audit_days), "30", 1,
		36500, .help = "Days after which an audit file is removed." },
	{ GROUP_STORE, "SANDBOX_GC_INTERVAL_SEC", SETTING_NUMBER, AT(gc_interval_sec), "900", 1,
		DAY, .help = "Seconds between sweeps of what has expired." },
	{ GROUP_STORE, "SANDBOX_MIN_FREE_MB", SETTING_MB, AT(min_free_mb), "256", 0, MB_MAX,
		.help = "Room on the disk of the state directory below which no runs, sessions, "
			"uploads and snapshots are taken; 0: no limit." },
	{ GROUP_STORE, "SANDBOX_RUN_RETENTION_HOURS", SETTING_NUMBER, AT(run_retention_hours),
		"720", 1, 876000, .help = "Hours that ended runs are remembered." },
	{ GROUP_STORE, "SANDBOX_GIT_ALLOW", SETTING_LIST, AT(git_allow), "https",
		.check = setting_check_scheme,
		.help = "Schemes a repository may be cloned by: https, http, git, file; with private among "
			"them also from hosts of private networks and this one." },
	{ GROUP_STORE, "SANDBOX_GIT_MAX_MB", SETTING_MB, AT(git_max_mb), "256", 1, MB_MAX,
		.help = "Size of a clone." },
	{ GROUP_STORE, "SANDBOX_GIT_TIMEOUT_SEC", SETTING_NUMBER, AT(git_timeout_sec), "60", 1,
		3600, .help = "Seconds a clone may take." },
#undef AT
};

const size_t n_setting_rows = ARRAY_SIZE(setting_rows);
