/* Names in requests that nobody here knows: refused, or told of in `warnings` of the answer, as
 * SANDBOX_UNKNOWN_FIELDS has it. */
#pragma once
#include <jansson.h>

#include "core/request.h"

struct exchange;
struct route;

/* The parameters of the query, against those of the route. 0, or -EINVAL when it was answered. */
int fields_check_query(struct exchange *x, const struct route *route);
/* The same, against `names`, which end with NULL. */
int fields_check_parameters(struct exchange *x, const char *const *names);

/* The members of a small body (NULL: there is none), against `names`, which end with NULL. Those of
 * an object in it stand after it, such as "context", "context.model". 0, or -EINVAL when it was
 * answered. */
int fields_check_body(struct exchange *x, const json_t *body, const char *const *names);

/* The body of a request for a session or a run, with all its names known. 0 with a request that
 * the caller must request_fini(), or -EINVAL when it was answered. */
int fields_read_request(
	struct exchange *x, const json_t *body, enum request_kind kind, struct request *ret);
