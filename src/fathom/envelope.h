/* What a sandbox says in the Fathom protocol, as finished messages: each has the version, its
 * type, the execution it is about, and the moment it was made, in milliseconds. The caller has
 * a reference to what is returned. */
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/fault.h"

struct shared;

/* "2025-12-27T11:30:00.000Z" */
#define ENVELOPE_TIME_SIZE 24
void envelope_format_time(uint64_t ns, char ret[ENVELOPE_TIME_SIZE + 1]);

/* What an execution may use, as the policy left it. */
struct envelope_limits {
	uint64_t timeout_ms;
	uint64_t memory_mb;
	uint64_t cpu_shares;
	uint64_t max_output_bytes;
};

/* `warnings` is an array of texts, or NULL. */
struct shared *envelope_ack(const char *id, const char *run_id,
	const struct envelope_limits *limits, const json_t *warnings);

struct shared *envelope_status(const char *id, const char *status);

/* `type` is "stdout" or "stderr", `data` is UTF-8. */
struct shared *envelope_output(const char *id, const char *type, const char *data, size_t size);

#define ENVELOPE_UNKNOWN UINT64_MAX /* it was not measured */

struct envelope_result {
	bool has_exited; /* else there is no exit code */
	int exit_code;
	uint64_t duration_ms;
	uint64_t peak_memory_mb; /* ENVELOPE_UNKNOWN is left out, here and below */
	uint64_t cpu_time_ms;
	enum fault fault; /* why it was ended; FAULT_COUNT: it was not */
};

struct shared *envelope_result(const char *id, const struct envelope_result *result);

/* Without an id (NULL) when it is not about an execution. `message` may be any bytes. */
struct shared *envelope_error(const char *id, enum fault fault, const char *message);

struct shared *envelope_pong(size_t n_active, size_t n_waiting);
