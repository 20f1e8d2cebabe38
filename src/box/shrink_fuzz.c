/* Any program, as the kernel's instructions: it stays as it is, or becomes shorter with the
 * same answers. */
#include "box/shrink.h"

#include <assert.h>
#include <stdint.h>

#include "box/shrink_sample.h"

#define CALLS 300

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct seccomp_program copy_of(const void *code, size_t n_code)
{
	struct seccomp_program p = { xcalloc(n_code + 1, sizeof(*p.code)), n_code };

	if (n_code > 0)
		memcpy(p.code, code, n_code * sizeof(*p.code));
	return p;
}

static bool is_equal(const struct seccomp_program *a, const struct seccomp_program *b)
{
	return a->n_code == b->n_code &&
	       memcmp(a->code, b->code, a->n_code * sizeof(*a->code)) == 0;
}

static void check_answers(
	const struct seccomp_program *before, const struct seccomp_program *after, uint64_t seed)
{
	struct sample_values v = sample_values_of(before);
	uint32_t words[SAMPLE_WORDS];

	for (int i = 0; i < CALLS; i++) {
		sample_fill(&v, 0, &seed, words);
		bool agree = sample_agree(before, after, words);
		assert(agree);
	}
	free(v.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size / sizeof(struct sock_filter);

	if (n > BPF_MAXINSNS)
		return 0;
	struct seccomp_program before = copy_of(data, n);
	struct seccomp_program after = copy_of(data, n);
	bool is_shorter = shrink_program(&after);
	bool is_right = is_shorter ? after.n_code < n : is_equal(&before, &after);
	assert(is_right);
	check_answers(&before, &after, size);
	seccomp_fini(&before);
	seccomp_fini(&after);
	return 0;
}
