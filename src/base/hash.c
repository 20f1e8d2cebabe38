#include "base/hash.h"

#include <endian.h>
#include <string.h>

#define SALT    UINT64_C(0x9e3779b97f4a7c15)
#define N_LANES 4u
#define STRIDE  (N_LANES * sizeof(uint64_t))

uint64_t hash_add(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0xff51afd7ed558ccd);
	return sum ^ sum >> 32;
}

static void add_to_lanes(uint64_t lanes[N_LANES], const uint8_t *data)
{
	for (size_t i = 0; i < N_LANES; i++) {
		uint64_t word;

		memcpy(&word, data + i * sizeof(word), sizeof(word));
		lanes[i] = hash_add(lanes[i], le64toh(word));
	}
}

/* Four sums beside each other, since the next product of one has to wait for its last. */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t size)
{
	uint64_t lanes[N_LANES] = { seed, ~seed, seed ^ SALT, ~seed ^ SALT };
	uint8_t rest[STRIDE] = { 0 };
	uint64_t sum = size;
	size_t at = 0;

	for (; size - at >= STRIDE; at += STRIDE)
		add_to_lanes(lanes, (const uint8_t *)data + at);
	if (at < size)
		memcpy(rest, (const uint8_t *)data + at, size - at);
	add_to_lanes(lanes, rest);
	for (size_t i = 0; i < N_LANES; i++)
		sum = hash_add(sum, lanes[i]);
	return sum;
}
