/* What a server says of itself when it is ready: where it is, and a line to try. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings;

/* "http://127.0.0.1:8080" or "unix:/run/belljar/socket"; `port` is the one that was given. */
void greet_where(const struct settings *c, uint16_t port, char *ret, size_t size);

/* Three lines, for whoever started it: where it is, which key it takes, and what to try. `key` is
 * the one key, or NULL when there are several. It is part of the text only with `shows_key`, and
 * never when it was set from outside; else the text says where the key is. The caller must
 * free() it. */
char *greet_text(const struct settings *c, uint16_t port, const char *key, bool shows_key);
