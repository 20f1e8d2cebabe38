/* What a request is refused with: a stable code, a sentence, and details. Every door turns
 * it into its own words; codes and their HTTP status are one table. */
#pragma once
#include <jansson.h>
#include <stdint.h>

struct policy_refusal;

/* Where in a request of HTTP the fault is. */
enum problem_place {
	PROBLEM_IN_BODY,
	PROBLEM_IN_QUERY,
	PROBLEM_IN_HEADER,
};

struct problem {
	int status;       /* of HTTP; 0: no problem */
	const char *code; /* "run_not_found" */
	char message[256];
	json_t *details;      /* an object or NULL; owned */
	uint64_t retry_after; /* seconds; 0: does not apply */
	enum problem_place place;
};

/* The status of a code, or 500 for one that is not in the table. */
int problem_status(const char *code);

/* Fill `p` and return -1, so that callers write `return problem_set(...)`. Codes are
 * constants. What was in it is released. */
int problem_set(struct problem *p, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Add a detail; takes the value. */
void problem_add(struct problem *p, const char *key, json_t *value);

/* 422 invalid_request that names the field, of the body unless `place` is set afterwards. */
int problem_field(struct problem *p, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same words; takes the details. */
int problem_from_policy(struct problem *p, struct policy_refusal *refusal);

void problem_fini(struct problem *p);
