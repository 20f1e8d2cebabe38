/* SHA-256 by the instructions that processors of x86-64 have for it, about eight times as fast. */
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#include "base/sha256_backend.h"

#define TARGET __attribute__((target("sha,ssse3,sse4.1")))

/* The instructions want the words of the state as A B E F and C D G H, the highest first. */
TARGET static void load_state(const uint32_t state[8], __m128i *ret_abef, __m128i *ret_cdgh)
{
	__m128i low = _mm_loadu_si128((const __m128i *)state);
	__m128i high = _mm_loadu_si128((const __m128i *)(state + 4));

	low = _mm_shuffle_epi32(low, 0xb1);
	high = _mm_shuffle_epi32(high, 0x1b);
	*ret_abef = _mm_alignr_epi8(low, high, 8);
	*ret_cdgh = _mm_blend_epi16(high, low, 0xf0);
}

TARGET static void store_state(uint32_t state[8], __m128i abef, __m128i cdgh)
{
	abef = _mm_shuffle_epi32(abef, 0x1b);
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);
	_mm_storeu_si128((__m128i *)state, _mm_blend_epi16(abef, cdgh, 0xf0));
	_mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(cdgh, abef, 8));
}

/* The next four words, of the sixteen before. */
TARGET static __m128i expand(const __m128i w[4], size_t i)
{
	__m128i last = w[(i + 3) % 4];
	__m128i sum = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);

	sum = _mm_add_epi32(sum, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
	return _mm_sha256msg2_epu32(sum, last);
}

TARGET static void work_block(__m128i *abef, __m128i *cdgh, const uint8_t *data)
{
	const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i w[4], a = *abef, c = *cdgh;

#pragma GCC unroll 16
	for (size_t i = 0; i < 16; i++) {
		w[i % 4] =
			i < 4 ? _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + i), order)
			      : expand(w, i);
		__m128i sum = _mm_add_epi32(
			w[i % 4], _mm_load_si128((const __m128i *)sha256_constants + i));

		c = _mm_sha256rnds2_epu32(c, a, sum);
		a = _mm_sha256rnds2_epu32(a, c, _mm_shuffle_epi32(sum, 0x0e));
	}
	*abef = _mm_add_epi32(*abef, a);
	*cdgh = _mm_add_epi32(*cdgh, c);
}

TARGET static void blocks(uint32_t state[8], const uint8_t *data, size_t n)
{
	__m128i abef, cdgh;

	load_state(state, &abef, &cdgh);
	for (size_t i = 0; i < n; i++)
		work_block(&abef, &cdgh, data + i * 64);
	store_state(state, abef, cdgh);
}

static bool is_there(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) &&
	       __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSSE3) && (c & bit_SSE4_1);
}

sha256_blocks_fn *sha256_blocks_fast(void)
{
	static int is_known; /* 1: there, -1: not; asking leaves a virtual machine */

	if (!is_known)
		is_known = is_there() ? 1 : -1;
	return is_known > 0 ? blocks : NULL;
}
