/* For the test and the fuzzer of shrink.c: calls by which two programs can be told apart,
 * from the constants that one of them compares with. */
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "box/seccomp.h"

#define SAMPLE_WORDS (sizeof(struct seccomp_data) / sizeof(uint32_t))

struct sample_values {
	uint32_t *at;
	size_t n;
};

/* Each constant, and what is beside it. */
static inline struct sample_values sample_values_of(const struct seccomp_program *p)
{
	struct sample_values v = { xcalloc(4 + 4 * p->n_code, sizeof(uint32_t)), 0 };

	v.at[v.n++] = 0;
	v.at[v.n++] = 1;
	v.at[v.n++] = UINT32_MAX;
	v.at[v.n++] = UINT32_MAX - 1;
	for (size_t i = 0; i < p->n_code; i++) {
		uint32_t k = p->code[i].k;

		if (BPF_CLASS(p->code[i].code) != BPF_JMP && BPF_CLASS(p->code[i].code) != BPF_ALU)
			continue;
		v.at[v.n++] = k;
		v.at[v.n++] = k - 1;
		v.at[v.n++] = k + 1;
		v.at[v.n++] = ~k;
	}
	return v;
}

static inline bool sample_agree(const struct seccomp_program *a, const struct seccomp_program *b,
	const uint32_t words[SAMPLE_WORDS])
{
	struct seccomp_data call;

	memcpy(&call, words, sizeof(call));
	return seccomp_eval(a, &call, NULL) == seccomp_eval(b, &call, NULL);
}

/* The same numbers each time for the same seed. */
static inline uint32_t sample_next(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(*seed >> 33);
}

/* Every word from the first that is not `fixed` is one of the values, by chance. */
static inline void sample_fill(
	const struct sample_values *v, size_t fixed, uint64_t *seed, uint32_t words[SAMPLE_WORDS])
{
	for (size_t i = fixed; i < SAMPLE_WORDS; i++) {
		bool is_zero = sample_next(seed) % 2;

		words[i] = is_zero ? 0 : v->at[sample_next(seed) % v->n];
	}
}
