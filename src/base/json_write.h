/* JSON as text, without blanks: byte by byte what json_dumps() writes, for a fifth of its work.
 * That one looks again at each character whether it is UTF-8, and remembers by a printed address
 * every value that it is in, lest one contain itself. Ours are checked when they are made, and
 * none contains itself. */
#pragma once
#include <jansson.h>
#include <stddef.h>

/* Keys in the order of their bytes, not in that in which they were set. */
#define JSON_WRITE_SORTED 1u

/* The text of `json`, which the caller frees; it ends with a NUL that is not counted in
 * `*ret_size` (may be NULL). Numbers with a fraction have at most `digits` digits, or with 0 as
 * many as it takes to read the same number. Aborts without memory. */
char *json_write(const json_t *json, unsigned flags, unsigned digits, size_t *ret_size);
