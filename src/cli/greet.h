/* What a server says of itself when it is ready: where it is, and a line to try. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct settings;

/* "http://127.0.0.1:8080" or "unix:/run/belljar/socket"; `port` is the one that was given. */
void greet_where(const struct settings *c, uint16_t port, char *ret, size_t size);

/* Both lines, for whoever started it: with the key, or NULL when there are several. The caller
 * must free() them. */
char *greet_text(const struct settings *c, uint16_t port, const char *key);
