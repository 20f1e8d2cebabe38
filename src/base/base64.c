#include "base/base64.h"

#include <errno.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *data, size_t size, char *ret)
{
	const uint8_t *in = data;
	char *out = ret;

	for (; size >= 3; in += 3, size -= 3) {
		*out++ = alphabet[in[0] >> 2];
		*out++ = alphabet[(in[0] & 3) << 4 | in[1] >> 4];
		*out++ = alphabet[(in[1] & 15) << 2 | in[2] >> 6];
		*out++ = alphabet[in[2] & 63];
	}
	if (size > 0) {
		uint8_t second = size > 1 ? in[1] : 0;

		*out++ = alphabet[in[0] >> 2];
		*out++ = alphabet[(in[0] & 3) << 4 | second >> 4];
		*out++ = size > 1 ? alphabet[(second & 15) << 2] : '=';
		*out++ = '=';
	}
	*out = '\0';
	return (size_t)(out - ret);
}

static int value_of(char c)
{
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

/* Four characters into `n` bytes, the rest of which must be zero. */
static int decode_group(const char *text, size_t n, uint8_t *ret)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < 4; i++) {
		int v = i <= n ? value_of(text[i]) : 0;

		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
	}
	if (n < 3 && (bits & ((1u << (8 * (3 - n))) - 1)))
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		ret[i] = (uint8_t)(bits >> (16 - 8 * i));
	return 0;
}

int base64_decode(const char *text, size_t size, uint8_t *ret, size_t *ret_size)
{
	size_t n = 0;

	if (size % 4 != 0)
		return -EINVAL;
	for (size_t i = 0; i < size; i += 4) {
		size_t bytes = 3;

		if (i + 4 == size && text[i + 3] == '=')
			bytes = text[i + 2] == '=' ? 1 : 2;
		int r = decode_group(text + i, bytes, ret + n);
		if (r < 0)
			return r;
		n += bytes;
	}
	*ret_size = n;
	return 0;
}
