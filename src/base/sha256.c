#include "base/sha256.h"

#include <endian.h>
#include <string.h>

#include "base/sha256_backend.h"

const uint32_t sha256_constants[64] __attribute__((aligned(16))) = { 0x428a2f98, 0x71374491,
	0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
	0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc,
	0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354,
	0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
	0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f,
	0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static uint32_t load(const uint8_t *data)
{
	uint32_t v;

	memcpy(&v, data, sizeof(v));
	return be32toh(v);
}

static void expand(uint32_t w[64], const uint8_t *data)
{
	for (size_t i = 0; i < 16; i++)
		w[i] = load(data + 4 * i);
	for (size_t i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
}

/* Words a to h of the standard change places with each round, so they are counted from there. */
#define WORD(n) s[((n)-i) % 8]

static inline void work_round(uint32_t s[8], size_t i, uint32_t sum)
{
	uint32_t a = WORD(0), e = WORD(4);
	uint32_t choice = (e & WORD(5)) ^ (~e & WORD(6));
	uint32_t majority = (a & WORD(1)) ^ (a & WORD(2)) ^ (WORD(1) & WORD(2));

	sum += WORD(7) + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice;
	WORD(3) += sum;
	WORD(7) = sum + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
}

static void work_block(uint32_t state[8], const uint8_t *data)
{
	uint32_t w[64], s[8];

	expand(w, data);
	memcpy(s, state, sizeof(s));
#pragma GCC unroll 8
	for (size_t i = 0; i < 64; i++)
		work_round(s, i, sha256_constants[i] + w[i]);
	for (size_t i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256_blocks_plain(uint32_t state[8], const uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		work_block(state, data + i * SHA256_BLOCK_SIZE);
}

static void work(uint32_t state[8], const uint8_t *data, size_t n)
{
	sha256_blocks_fn *fast = sha256_blocks_fast();

	(fast ? fast : sha256_blocks_plain)(state, data, n);
}

void sha256_init(struct sha256 *s)
{
	*s = (struct sha256){
		.state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
			0x1f83d9ab, 0x5be0cd19 },
	};
}

/* Fill the block that was begun. How much of `data` that took. */
static size_t fill(struct sha256 *s, const uint8_t *data, size_t size)
{
	size_t n_kept = s->n_bytes % SHA256_BLOCK_SIZE;
	size_t room = SHA256_BLOCK_SIZE - n_kept;
	size_t n = size < room ? size : room;

	memcpy(s->block + n_kept, data, n);
	if (n == room)
		work(s->state, s->block, 1);
	s->n_bytes += n;
	return n;
}

void sha256_add(struct sha256 *s, const void *data, size_t size)
{
	const uint8_t *at = data;

	while (size > 0) {
		size_t n = size - size % SHA256_BLOCK_SIZE;

		if (s->n_bytes % SHA256_BLOCK_SIZE == 0 && n > 0) {
			work(s->state, at, n / SHA256_BLOCK_SIZE);
			s->n_bytes += n;
		} else {
			n = fill(s, at, size);
		}
		at += n;
		size -= n;
	}
}

void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE])
{
	static const uint8_t padding[SHA256_BLOCK_SIZE] = { 0x80 };
	uint64_t n_bits = htobe64(8 * s->n_bytes);
	size_t n_kept = s->n_bytes % SHA256_BLOCK_SIZE;

	sha256_add(s, padding, (n_kept < 56 ? 56 : 120) - n_kept);
	sha256_add(s, &n_bits, sizeof(n_bits));
	for (size_t i = 0; i < 8; i++) {
		uint32_t v = htobe32(s->state[i]);

		memcpy(ret + 4 * i, &v, sizeof(v));
	}
}
