/* JSON from strangers: strict, and within limits. Answers are made with jansson itself; this
 * is for what comes in, and for the one form in which equal values are equal texts. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "base/json_field.h"

struct err;

#define JSON_DEPTH_MAX  64u
#define JSON_VALUES_MAX 200000u /* each costs far more memory than the text it needs */

/* Parse `size` bytes of one JSON text. The caller must json_decref() `*ret`. -EBADMSG with a
 * sentence for what is no JSON, says one key twice, holds a number that does not fit, a NUL
 * character or invalid UTF-8, is nested deeper than JSON_DEPTH_MAX, or has more values. */
int json_read(const char *text, size_t size, json_t **ret, struct err *err);

/* Likewise, but taking what these say. */
enum json_takes {
	JSON_TAKES_NUL = 1 << 0,   /* in a text, not in a key: for who asks for its length */
	JSON_TAKES_TWICE = 1 << 1, /* of a key that stands twice the last one counts */
};
int json_read_loosely(const char *text, size_t size, unsigned takes, json_t **ret, struct err *err);

/* Likewise; a failure also tells where the reader stopped, as json_field_at() has it. */
int json_read_field(const char *text, size_t size, json_t **ret, char ret_field[JSON_FIELD_SIZE],
	struct err *err);

/* The canonical form: keys sorted, no blanks. The caller frees it; aborts without memory. */
char *json_canonical(const json_t *json);

/* Set `name`, unless the object has it or `value` is NULL or null. Takes over `value`. */
void json_set_missing(json_t *object, const char *name, json_t *value);

/* A text, or null for NULL. */
static inline json_t *json_text_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

#define AUTO_JSON CLEANUP(json_decrefp) json_t
