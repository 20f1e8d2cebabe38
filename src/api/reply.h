/* What every handler answers with, and how it reads a JSON body. Errors look the same
 * everywhere:
 *
 *	{"error": {"code", "message", "details": {}}, "detail": ...}
 *
 * with `detail` as clients of the earlier interface expect it, or, for those who accept
 * application/problem+json, as RFC 7807 has it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "core/problem.h"

struct exchange;

/* Answer with JSON; takes it. */
void reply_json(struct exchange *x, int status, json_t *json);

/* Answer with a problem, which stays the caller's. */
void reply_problem(struct exchange *x, const struct problem *p);

/* The same with a code of the table and a sentence. */
void reply_refusal(struct exchange *x, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* 422 invalid_request that names a header, a parameter or a field. */
void reply_field(struct exchange *x, enum problem_place place, const char *field, const char *fmt,
	...) __attribute__((format(printf, 4, 5)));

/* 401 for a request without credentials, with what it needs. */
void reply_unauthorized(struct exchange *x);

/* 401 for credentials that nobody has, or that are no longer valid. */
void reply_wrong_credentials(struct exchange *x);

/* What the server itself found: an http_error_fn. */
void reply_error(struct exchange *x, int status, const char *code, const char *message);

/* The body as JSON, which the caller must json_decref(). On failure it has answered: 415 for
 * a Content-Type that is given and is not JSON, 400 invalid_json, which names the field, for what
 * can not be parsed. */
int reply_read_json(struct exchange *x, json_t **ret);

/* Likewise; no body at all gives NULL. */
int reply_read_optional_json(struct exchange *x, json_t **ret);

/* The value of `detail` for a problem. */
json_t *reply_detail(const struct problem *p);

/* Whether this Accept header (NULL: none) asks for application/problem+json: it names the type,
 * and does not like application/json better. */
bool reply_wants_problem(const char *accept);

/* Whether this Content-Type may be JSON: application/json or any +json, with parameters or not,
 * and also what curl says when it is told nothing. No web page gains by that: credentials are
 * in headers, and its Origin was looked at. */
bool reply_is_json(const char *type);
