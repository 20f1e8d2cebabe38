/* The header Idempotency-Key. */
#pragma once
#include <stdbool.h>

struct exchange;

/* 1 to 128 printable ASCII characters. */
bool idempotency_is_key(const char *text);

/* The key, NULL when none was sent; it lives as long as the exchange. On failure it has
 * answered 422. */
int idempotency_read_key(struct exchange *x, const char **ret);
