/* SHA-256 (FIPS 180-4) without a library, for the program of the keeper and of boxes, which is
 * linked without one. Everybody else uses digest.h. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE       32u
#define SHA256_BLOCK_SIZE 64u

/* The caller's storage; nothing has to be released. */
struct sha256 {
	uint32_t state[8];
	uint64_t n_bytes; /* added so far */
	uint8_t block[SHA256_BLOCK_SIZE];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t size);
/* The digest of all that was added. Nothing can be added afterwards. */
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_SIZE]);
