/* Is it UTF-8? As RFC 3629 has it: no surrogates, no overlong forms, nothing beyond
 * U+10FFFF. */
#pragma once
#include <stddef.h>

/* How many bytes from the start are whole characters. `*ret_tail` is how many bytes behind
 * them begin a character that the data ends in; 0 when there are none or they can not. */
size_t utf8_span(const void *data, size_t size, size_t *ret_tail);

/* How many bytes at the end of any data, at most 3, begin a character that is not over. */
size_t utf8_tail(const void *data, size_t size);
