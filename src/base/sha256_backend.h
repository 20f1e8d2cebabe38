/* How sha256.c works on whole blocks. Only sha256.c and its test include this. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Work `n` blocks of 64 bytes into the state. */
typedef void sha256_blocks_fn(uint32_t state[8], const uint8_t *data, size_t n);

extern const uint32_t sha256_constants[64];

sha256_blocks_fn sha256_blocks_plain;

/* The one that uses instructions of this processor, or NULL. */
sha256_blocks_fn *sha256_blocks_fast(void);
