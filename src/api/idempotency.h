/* The header Idempotency-Key. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct exchange;

/* 1 to 128 printable ASCII characters. */
bool idempotency_is_key(const char *text);

/* The key, NULL when none was sent; it lives as long as the exchange. On failure it has
 * answered 422. */
int idempotency_read_key(struct exchange *x, const char **ret);

/* Tell whoever sent a key, in `details` of the answer, which one it was, and whether the object
 * was made just now ("new") or by an earlier request ("replayed"). */
void idempotency_tell(struct exchange *x, json_t *answer, bool is_replay);
