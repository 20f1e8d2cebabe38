/* The nine errors of the Fathom protocol, and what of ours they stand for. */
#pragma once
#include <stdbool.h>

struct problem;

enum fault {
	FAULT_TIMEOUT,
	FAULT_OOM,
	FAULT_OUTPUT_LIMIT,
	FAULT_LANGUAGE_NOT_SUPPORTED,
	FAULT_INVALID_REQUEST,
	FAULT_UNKNOWN_EXECUTION,
	FAULT_SANDBOX_OVERLOADED,
	FAULT_INTERNAL_ERROR,
	FAULT_NETWORK_ERROR,
	FAULT_COUNT, /* also: none */
};

/* "OUTPUT_LIMIT" */
const char *fault_name(enum fault f);

/* Whether the same request may do better later. */
bool fault_is_retryable(enum fault f);

/* What a request was refused with. */
enum fault fault_of_problem(const struct problem *p);

/* How a run ended, in the words of the protocol. */
struct fault_end {
	const char
		*status;  /* a terminal one; NULL: it never came to that, there is only the error */
	enum fault fault; /* FAULT_COUNT: none */
};

/* By reason_code; `error` is the errno of what kept it from starting, or 0. */
struct fault_end fault_of_reason(const char *reason_code, int error);
