#include "core/utf8.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* By the first byte of a character: how long it is, and what the second may be; all
 * further ones are 80..bf. */
static const struct lead {
	unsigned char min, max;
	unsigned char size;
	unsigned char second_min, second_max;
} leads[] = {
	{ 0x00, 0x7f, 1, 0x00, 0x00 },
	{ 0xc2, 0xdf, 2, 0x80, 0xbf },
	{ 0xe1, 0xec, 3, 0x80, 0xbf },
	{ 0xf0, 0xf0, 4, 0x90, 0xbf },
	{ 0xee, 0xef, 3, 0x80, 0xbf },
	{ 0xe0, 0xe0, 3, 0xa0, 0xbf },
	{ 0xed, 0xed, 3, 0x80, 0x9f }, /* no surrogates */
	{ 0xf1, 0xf3, 4, 0x80, 0xbf },
	{ 0xf4, 0xf4, 4, 0x80, 0x8f },
};

/* The bytes of the character at `p`; 0 when none is there, -1 when the data ends in it. */
static int measure_as(const struct lead *lead, const unsigned char *p, size_t left)
{
	unsigned char min = lead->second_min;
	unsigned char max = lead->second_max;

	for (size_t i = 1; i < lead->size; i++) {
		if (i == left)
			return -1;
		if (p[i] < min || p[i] > max)
			return 0;
		min = 0x80;
		max = 0xbf;
	}
	return lead->size;
}

static int measure(const unsigned char *p, size_t left)
{
	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		if (p[0] >= leads[i].min && p[0] <= leads[i].max)
			return measure_as(&leads[i], p, left);
	}
	return 0;
}

/* The same for a character that is not ASCII with four bytes in sight, the first of them
 * lowest: what the table says, as masks. */
static int measure_fast(uint32_t v)
{
	if ((v & 0xc0e0) == 0x80c0 && (v & 0x1e) != 0)
		return 2;
	if ((v & 0xc0c0f0) == 0x8080e0 && (v & 0x200f) != 0 && (v & 0x200f) != 0x200d)
		return 3;
	if ((v & 0xc0c0c0f8) == 0x808080f0 && (v & 0x3007) != 0 &&
		((v & 0x04) == 0 || (v & 0x3003) == 0))
		return 4;
	return 0;
}

static size_t skip_ascii(const unsigned char *p, size_t left)
{
	size_t at = 0;
	uint64_t word;

	for (uint64_t words[4]; left - at >= sizeof(words); at += sizeof(words)) {
		memcpy(words, p + at, sizeof(words));
		if ((words[0] | words[1] | words[2] | words[3]) & HIGH_BITS)
			break;
	}
	for (; left - at >= sizeof(word); at += sizeof(word)) {
		memcpy(&word, p + at, sizeof(word));
		word = le64toh(word) & HIGH_BITS;
		if (word)
			return at + (size_t)__builtin_ctzll(word) / 8;
	}
	while (at < left && p[at] < 0x80)
		at++;
	return at;
}

size_t utf8_span(const void *data, size_t size, size_t *ret_tail)
{
	const unsigned char *p = data;
	size_t at = 0;

	*ret_tail = 0;
	while (at < size) {
		uint32_t v;

		if (p[at] < 0x80) {
			at += skip_ascii(p + at, size - at);
			continue;
		}
		if (size - at >= sizeof(v))
			memcpy(&v, p + at, sizeof(v));
		int n = size - at >= sizeof(v) ? measure_fast(le32toh(v))
					       : measure(p + at, size - at);
		if (n < 0)
			*ret_tail = size - at;
		if (n <= 0)
			break;
		at += (size_t)n;
	}
	return at;
}

size_t utf8_tail(const void *data, size_t size)
{
	const unsigned char *end = (const unsigned char *)data + size;

	for (size_t n = 1; n <= 3 && n <= size; n++) {
		if (end[-(ptrdiff_t)n] < 0x80)
			return 0;
		if (end[-(ptrdiff_t)n] >= 0xc0)
			return measure(end - n, n) < 0 ? n : 0;
	}
	return 0;
}
