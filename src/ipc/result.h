/* How a run ended: one truthful reason, what it used, and which limits held. */
#pragma once
#include <stdint.h>

#include "ipc/spec.h"

/* Every way a run can end. The names are the reason codes that users see. */
enum reason {
	REASON_EXIT_CODE_0,
	REASON_NONZERO_EXIT,
	REASON_SIGNALED,
	REASON_OOM_KILLED,
	REASON_PIDS_LIMIT_EXCEEDED,
	REASON_EXECUTION_TIMEOUT,
	REASON_STARTUP_TIMEOUT,
	REASON_CANCELED_BY_USER,
	REASON_IMAGE_PULL_FAILED,
	REASON_PROVISION_FAILED,
	REASON_EXEC_FAILED,
	REASON_POLICY_DENIED,
	REASON_INFRASTRUCTURE_ERROR,
	REASON_COUNT,
};

/* "nonzero_exit", and the phase it belongs to: "completed", "failed",
 * "timed_out" or "killed". */
const char *reason_name(enum reason r);
const char *reason_phase(enum reason r);

/* A number that was not measured. */
#define USAGE_UNKNOWN UINT64_MAX

struct usage {
	uint64_t cpu_us;
	uint64_t wall_us;
	uint64_t peak_bytes;
	uint64_t pids;       /* most processes and threads at once */
	uint64_t open_files; /* most descriptors of one process, sampled */
	uint64_t captured_bytes;
};

struct result {
	char id[RUN_ID_SIZE + 1];
	enum reason reason;
	int32_t exit_code;   /* -1 unless the guest exited */
	int32_t signal;      /* 0 unless a signal ended it */
	int32_t error;       /* errno of what kept it from starting; where nothing is executed,
				also of what kept its files from being sent; else 0 */
	uint64_t created_ns; /* CLOCK_REALTIME; 0 means it never came to that */
	uint64_t started_ns;
	uint64_t ended_ns;
	uint64_t enforced; /* mask of facets */
	struct usage usage;
	bool is_warm;      /* what could be made ahead for it had been */
	char message[256]; /* one clause that says what happened */
};

void result_put(const struct result *r, struct put *p);
void result_get(struct result *r, struct cur *c);
