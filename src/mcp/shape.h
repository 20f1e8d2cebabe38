/* The part of JSON Schema that the tools use: type, required, properties, additionalProperties
 * (false), items, enum, minimum, maximum, minLength, maxLength, minItems, maxItems, maxProperties,
 * oneOf of required. What else a schema says is left to whoever uses the value. So what is told
 * to clients and what is checked are one text. */
#pragma once
#include <jansson.h>

struct err;

/* A new one that says the same, without members that are null: for those that the schema names,
 * null is as good as nothing. */
json_t *shape_without_nulls(const json_t *schema, json_t *value);

/* 0, or -EINVAL with a sentence that names the member and says what it should be. */
int shape_check(const json_t *schema, const json_t *value, struct err *err);
