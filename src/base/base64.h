/* Base64 as RFC 4648 has it: padded, without blanks or line ends. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Room for the text of `n` bytes, with its terminator; and for the bytes of a text of `n`. */
#define BASE64_TEXT_SIZE(n)  (((n) + 2) / 3 * 4 + 1)
#define BASE64_BYTES_SIZE(n) ((n) / 4 * 3)

/* Writes BASE64_TEXT_SIZE(size) characters, and returns how many without the terminator. */
size_t base64_encode(const void *data, size_t size, char *ret);

/* Decode strictly: -EINVAL for a character, a length or padding that an encoder does not
 * make. `ret` has BASE64_BYTES_SIZE(size) bytes of room. */
int base64_decode(const char *text, size_t size, uint8_t *ret, size_t *ret_size);
