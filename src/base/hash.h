/* Sums that tell bytes from others by chance: what is damaged, or another's. Nobody who chooses the
 * bytes is kept out by them; for that there is digest.h. They are written to files, so they never
 * change. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* One word more in a sum. */
uint64_t hash_add(uint64_t sum, uint64_t word);

/* Of `size` bytes, and of whatever the seed stands for. */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t size);
