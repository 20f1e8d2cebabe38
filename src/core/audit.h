/* The audit log: what happened to sessions and runs, one JSON object per line, appended to a
 * file that is rotated by size and after a day, and removed by age. Neither code nor environment
 * nor output is ever in it. On the loop; a line is one write, and one that can not be written
 * is counted and logged, never waited for: once lines can be written again, the first says
 * how many are missing ("sandbox.audit.lost"). */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/cleanup.h"

struct audit;
struct err;
struct run_row;
struct session_row;

/* Bytes of a line. Of an event that is longer only its name, time and ids are kept. */
#define AUDIT_LINE_MAX (32u << 10)

/* Entries of its directory that one sweep looks at; the next one goes on from there. */
#define AUDIT_SCAN_MAX 1024u

struct audit_options {
	const char *path;   /* its directory is made, 0700; files are 0600 */
	uint64_t max_bytes; /* then it becomes <path>.<time> and a new one is begun */
	uint64_t keep_days; /* older ones are removed by audit_sweep() */
};

/* Returns 0 with a log the caller must audit_free(), or a negative errno. */
int audit_open(const struct audit_options *options, struct audit **ret, struct err *err);
void audit_free(struct audit *a);

/* "sandbox.run.completed": with where it was asked for ("source": API or MCP, or what the caller
 * says in its `context`: IDE, Web, CLI), what identifies the run, how it ended, and of what it used
 * (the object that run_usage() makes, or NULL) a part; what the row does not have is left out.
 * `extra` (an object or NULL; taken) is merged in. */
void audit_run(struct audit *a, const char *event, const struct run_row *row, const json_t *usage,
	json_t *extra);
void audit_session(
	struct audit *a, const char *event, const struct session_row *row, json_t *extra);

/* Any other: "sandbox.auth.denied", "sandbox.admin.gc"; takes `fields`. */
void audit_event(struct audit *a, const char *event, json_t *fields);

/* Remove what is too old, by the time in its name; how many files were removed. Also begins a new
 * file when the present one is older than a day, so that a quiet server forgets as well. */
unsigned audit_sweep(struct audit *a);

DEFINE_CLEANUP(struct audit, audit_free)
