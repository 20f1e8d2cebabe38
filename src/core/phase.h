/* The phases of a run, and which may follow which. */
#pragma once
#include <stdbool.h>

#include "ipc/result.h"

enum phase {
	PHASE_QUEUED,
	PHASE_STARTING,
	PHASE_RUNNING,
	PHASE_COMPLETED,
	PHASE_FAILED,
	PHASE_TIMED_OUT,
	PHASE_KILLED,
	PHASE_COUNT,
};

/* "queued", ... */
const char *phase_name(enum phase p);

/* By name; -EINVAL when there is none. */
int phase_find(const char *name, enum phase *ret);

bool phase_is_over(enum phase p);
bool phase_may_follow(enum phase from, enum phase to);

/* The phase that an end like this leads to. */
enum phase phase_of(enum reason reason);

/* What people are told about a run that is in this phase for this reason (NULL for none). */
struct phase_status {
	const char *code;
	const char *category;
	const char *severity;
	bool terminal;
	bool retryable;
	const char *operator_action;
};

/* `limited`: something was cut off by a limit while it ran. */
const struct phase_status *phase_describe(enum phase p, const char *reason, bool limited);
