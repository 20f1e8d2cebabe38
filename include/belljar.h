/* libbelljar: run untrusted code where it can do no harm.
 *
 *	struct belljar_sandbox *sandbox;
 *	struct belljar_task *task;
 *	struct belljar_result result;
 *	struct belljar_error error;
 *	const char *argv[] = { "python3", "-c", "print(6 * 7)", NULL };
 *	struct belljar_task_options options = { .argv = argv };
 *
 *	belljar_open(NULL, &sandbox, &error);
 *	belljar_task_new(sandbox, &options, &task, &error);
 *	belljar_task_execute(task, &listener, &result, &error);
 *	printf("%s\n", belljar_outcome_name(result.outcome));
 *
 * Every function that can fail returns 0 or a negative errno, and fills `error`
 * (which may be NULL) only when it fails. What becomes of the guest is never a
 * failure: a crash, a timeout or a refused policy is a result. Only when the
 * sandbox itself could not do its work is there an error.
 *
 * A sandbox may be used by many threads at once, each with tasks of its own; a
 * task is executed by one thread, while others may stop, signal or resize it.
 * Structures given to a function are read during the call and belong to the
 * caller; zero in a field means the default. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BELLJAR_API __attribute__((visibility("default")))
#else
#define BELLJAR_API
#endif

struct belljar_sandbox;
struct belljar_task;

struct belljar_error {
	int code;       /* negative errno */
	char text[256]; /* one clause that says what could not be done */
};

/* The one way in which a task ended. */
enum belljar_outcome {
	BELLJAR_SUCCESS,          /* exited with status 0 */
	BELLJAR_NONZERO_EXIT,     /* exited with another status */
	BELLJAR_SIGNALED,         /* ended by a signal */
	BELLJAR_OUT_OF_MEMORY,    /* passed its memory limit; everything was killed */
	BELLJAR_PIDS_LIMIT,       /* failed after it was denied a process */
	BELLJAR_TIMEOUT,          /* ran too long and was killed */
	BELLJAR_STARTUP_TIMEOUT,  /* could not be started in time */
	BELLJAR_CANCELED,         /* belljar_task_stop() ended it */
	BELLJAR_IMAGE_MISSING,    /* there is no such image */
	BELLJAR_PROVISION_FAILED, /* the box or its files could not be made */
	BELLJAR_EXEC_FAILED,      /* the program could not be executed */
	BELLJAR_POLICY_DENIED,    /* something required can not be enforced here */
};

/* "success", "nonzero_exit", ... */
BELLJAR_API const char *belljar_outcome_name(enum belljar_outcome outcome);

/* Where to find a keeper, the process that makes boxes. */
enum belljar_keeper {
	BELLJAR_KEEPER_ANY,     /* a running one, else one of our own */
	BELLJAR_KEEPER_RUNNING, /* a running one or none */
	BELLJAR_KEEPER_OWN,     /* always one of our own; it ends with the sandbox */
};

struct belljar_options {
	const char *root;    /* state directory; default $BELLJAR_ROOT or the usual place */
	const char *program; /* the belljar program; default $BELLJAR_PROGRAM or as installed */
	enum belljar_keeper keeper;
};

/* Connect to a keeper or start one. `options` may be NULL. */
BELLJAR_API int belljar_open(const struct belljar_options *options, struct belljar_sandbox **ret,
	struct belljar_error *error);

/* Every task must have been freed. NULL is allowed. */
BELLJAR_API void belljar_close(struct belljar_sandbox *sandbox);

/* What may or may not be enforced on a host, as bits in the masks below. */
enum belljar_facet {
	BELLJAR_FACET_USER,
	BELLJAR_FACET_MOUNT,
	BELLJAR_FACET_PID,
	BELLJAR_FACET_NET,
	BELLJAR_FACET_IPC,
	BELLJAR_FACET_UTS,
	BELLJAR_FACET_CGROUP,
	BELLJAR_FACET_TIMEOUT,
	BELLJAR_FACET_MEMORY,
	BELLJAR_FACET_CPU,
	BELLJAR_FACET_PIDS,
	BELLJAR_FACET_WORKSPACE,
	BELLJAR_FACET_RLIMITS,
	BELLJAR_FACET_CAPABILITIES,
	BELLJAR_FACET_SECCOMP,
	BELLJAR_FACET_LANDLOCK,
	BELLJAR_FACET_UID,
	BELLJAR_FACET_COUNT,
};

/* "memory", "landlock", ... */
BELLJAR_API const char *belljar_facet_name(enum belljar_facet facet);

/* Mask of (1 << facet) for all that this sandbox enforces. */
BELLJAR_API uint64_t belljar_enforced(const struct belljar_sandbox *sandbox);

struct belljar_limits {
	uint64_t timeout_ms;      /* default 60 s, from the guest's first instruction */
	uint64_t startup_ms;      /* default 20 s, until then */
	uint64_t grace_ms;        /* default 5 s between TERM and KILL when stopped */
	bool no_grace;            /* KILL at once */
	uint64_t memory_bytes;    /* default 1 GiB, swap included */
	uint64_t cpu_milli;       /* default 1000: thousandths of a core */
	uint64_t pids;            /* default 256 processes and threads */
	uint64_t workspace_bytes; /* default 256 MiB in /workspace */
	uint64_t tmp_bytes;       /* default 64 MiB in /tmp */
	uint64_t open_files;      /* default 1024 descriptors of a process */
	uint64_t capture_bytes;   /* default 32 MiB of captured files */
};

/* A file for the workspace: bytes, or a file or directory of the host to copy. */
struct belljar_file {
	const char *name;  /* in the workspace: "data/in.csv" */
	const char *bytes; /* with `size`; or NULL */
	size_t size;
	const char *host_path; /* copied when `bytes` is NULL */
	unsigned mode;         /* for bytes; default 0644 */
};

struct belljar_task_options {
	const char *image;       /* default "host": the machine's own /usr */
	const char *const *argv; /* ends with NULL */
	const char *const *env;  /* "NAME=value", ends with NULL; may be NULL */
	const char *cwd;         /* default /workspace */
	const struct belljar_file *files;
	size_t n_files;
	struct belljar_limits limits;
	uint64_t require;            /* mask of facets without which not to run */
	const char *const *captures; /* globs of files to take out, ends with NULL */
	const char *capture_dir;     /* where captured files go */
	const char *input;           /* bytes for stdin, `input_size` of them; or NULL */
	size_t input_size;
	int input_fd; /* else a descriptor to read stdin from */
	bool has_input_fd;
	bool tty;      /* the guest gets a terminal */
	unsigned rows; /* of that terminal; default 24 by 80 */
	unsigned columns;
	bool workspace_exec; /* files in /workspace and /tmp can be executed */
};

/* Check and copy what is to be run. -EINVAL names what is wrong. */
BELLJAR_API int belljar_task_new(struct belljar_sandbox *sandbox,
	const struct belljar_task_options *options, struct belljar_task **ret,
	struct belljar_error *error);

/* NULL is allowed. */
BELLJAR_API void belljar_task_free(struct belljar_task *task);

/* The id under which the keeper knows it: 32 hexadecimal digits. */
BELLJAR_API const char *belljar_task_id(const struct belljar_task *task);

enum belljar_event_kind {
	BELLJAR_EVENT_STARTED, /* the box is being made */
	BELLJAR_EVENT_RUNNING, /* the guest executes */
	BELLJAR_EVENT_STDOUT,  /* data: what it printed; also a terminal's output */
	BELLJAR_EVENT_STDERR,
};

struct belljar_event {
	enum belljar_event_kind kind;
	const char *data; /* valid during the call */
	size_t size;
};

/* Embed this in a structure of your own to have your state at hand. */
struct belljar_listener {
	void (*on_event)(struct belljar_listener *self, const struct belljar_event *event);
};

/* A number that was not measured. */
#define BELLJAR_UNKNOWN UINT64_MAX

struct belljar_result {
	enum belljar_outcome outcome;
	int exit_code;       /* -1 unless it exited */
	int signal;          /* 0 unless a signal ended it */
	int error;           /* errno of what kept it from starting, else 0 */
	uint64_t created_ns; /* since 1970; 0: it never came to that */
	uint64_t started_ns;
	uint64_t ended_ns;
	uint64_t enforced; /* mask of facets that held */
	uint64_t cpu_us;
	uint64_t wall_us;
	uint64_t peak_bytes;
	uint64_t pids;       /* most at once */
	uint64_t open_files; /* most of one process, sampled */
	uint64_t log_bytes;  /* what it printed */
	uint64_t captured_bytes;
	uint64_t captured_files;
	uint64_t skipped_files;       /* matched, but passed the capture limit: see skipped_file */
	uint64_t unreadable_files;    /* matched, but the guest took the right to read them away */
	bool capture_incomplete;      /* the box ended before all files were out */
	bool is_warm;                 /* what could be made ahead for it had been */
	bool workspace_exec;          /* files in /workspace and /tmp could be executed */
	struct belljar_limits limits; /* as they were applied */
	char image[65];               /* "host" or the digest */
	char skipped_file[256];       /* the first of the skipped, cut to this size; else empty */
	char unreadable_file[256];    /* the first of the unreadable, likewise */
	char unmatched_capture[256];  /* the first glob that matched nothing; else empty */
	char message[256];            /* one clause that says what happened */
};

/* Run the task to its end. The listener (may be NULL) is called in this thread,
 * as things happen. A task is executed once. */
BELLJAR_API int belljar_task_execute(struct belljar_task *task, struct belljar_listener *listener,
	struct belljar_result *result, struct belljar_error *error);

/* From any thread: TERM, then after the grace period KILL. Also before or after
 * the execution; nothing happens when it is over. */
BELLJAR_API void belljar_task_stop(struct belljar_task *task);

/* From any thread: send a signal to the guest's process group. -ESRCH when it is
 * not running. */
BELLJAR_API int belljar_task_signal(struct belljar_task *task, int signal);

/* From any thread: resize the guest's terminal. -ENOTTY without one. */
BELLJAR_API int belljar_task_resize(struct belljar_task *task, unsigned rows, unsigned columns);

/* The version of this library. */
BELLJAR_API const char *belljar_version(void);

#ifdef __cplusplus
}
#endif
