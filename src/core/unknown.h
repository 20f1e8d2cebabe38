/* Names that nobody here knows: members of a request's body, and parameters. They are refused by
 * name, with the known name that was probably meant; or, where the server is set so, they become
 * warnings of the answer. Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct problem;

#define UNKNOWN_WARNINGS_MAX 32u /* of one request; more are not told of */

/* Another word for a known name, which no likeness would find. */
struct unknown_hint {
	const char *given;
	const char *meant; /* also a sentence: "the header Idempotency-Key" */
};

struct unknown_check {
	const char *const *names;         /* whole, such as "resources.memory_mb"; ended by NULL */
	const char *const *ignored;       /* likewise: taken with a warning; or NULL */
	const struct unknown_hint *hints; /* ended by a row without a name; or NULL */
	bool warns;                       /* whatever is unknown is a warning */
	json_t *warnings;                 /* an array, to which sentences are appended */
};

/* The known name that was probably meant by `given`, or NULL: first of those that are members of
 * the same object, then of all. */
const char *unknown_nearest(const struct unknown_check *c, const char *given);

/* The members of `object`, which is the member `path` of the body ("" for the body itself), and
 * stands in messages as `shown`. What is no object has none. Returns 0, or -1 with 422
 * invalid_request that names the first unknown one. */
int unknown_members(const struct unknown_check *c, const json_t *object, const char *path,
	const char *shown, struct problem *problem);

/* The same for one name: what it is ("field", "parameter") stands before it. */
int unknown_name(const struct unknown_check *c, const char *what, const char *name,
	const char *shown, struct problem *problem);
