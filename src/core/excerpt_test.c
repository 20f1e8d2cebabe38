#include "core/excerpt.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "lib/test.h"

static char byte_at(uint64_t i)
{
	return (char)(i * 7 + i / 251);
}

/* `total` bytes in pieces of `step`: the first and the last are there, and no other. */
static void check(uint64_t total, size_t step)
{
	CLEANUP(excerpt_fini) struct excerpt e = { 0 };
	AUTO_FREE char *piece = xcalloc(1, step);

	for (uint64_t at = 0; at < total; at += step) {
		size_t n = total - at < step ? (size_t)(total - at) : step;

		for (size_t i = 0; i < n; i++)
			piece[i] = byte_at(at + i);
		excerpt_add(&e, piece, n);
	}
	const char *end = excerpt_end(&e);
	CHECK_EQ(e.total, total);
	CHECK_EQ(e.n_head, total < EXCERPT_PART ? total : EXCERPT_PART);
	uint64_t rest = total - e.n_head;
	CHECK_EQ(e.n_ring, rest < EXCERPT_PART ? rest : EXCERPT_PART);
	for (size_t i = 0; i < e.n_head; i++)
		CHECK(e.head[i] == byte_at(i));
	for (size_t i = 0; i < e.n_ring; i++)
		CHECK(end[i] == byte_at(total - e.n_ring + i));
}

TEST(the_beginning_and_the_end_are_kept)
{
	static const uint64_t totals[] = { 0, 1, 100, EXCERPT_PART, EXCERPT_PART + 1,
		2 * EXCERPT_PART, 2 * EXCERPT_PART + 1, 3 * EXCERPT_PART + 77, 1 << 20 };
	static const size_t steps[] = { 1000, 4096, EXCERPT_PART - 1, EXCERPT_PART, 300000 };

	for (size_t i = 0; i < ARRAY_SIZE(totals); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++)
			check(totals[i], steps[k]);
	}
	check(3 * EXCERPT_PART + 5, 1);
}

TESTS(UNIT(the_beginning_and_the_end_are_kept))
