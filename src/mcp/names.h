/* Names of arguments that a tool's schema does not have: refused with what was probably meant, or
 * warned of, as SANDBOX_UNKNOWN_FIELDS has it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct problem;

/* 0, or -1 with a problem. Where it only `warns`, and for names that mean nothing here, sentences
 * are appended to `warnings`. An object whose schema has no properties may have any. */
int names_check(const json_t *schema, const json_t *arguments, bool warns, json_t *warnings,
	struct problem *problem);

/* A new value without what the schema does not have. */
json_t *names_known(const json_t *schema, json_t *value);
