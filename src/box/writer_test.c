#include "box/writer.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/str.h"
#include "box/seccomp.h"
#include "lib/test.h"

#define YES (SECCOMP_RET_ERRNO | 1)
#define NO  (SECCOMP_RET_ERRNO | 2)

static uint32_t ask(const struct writer *w, size_t end, int nr)
{
	struct seccomp_program p = { w->code + w->at, end - w->at };
	struct seccomp_data call = { .nr = nr };

	return seccomp_eval(&p, &call, NULL);
}

/* Both ways are there, however much lies between. */
static void check_distance(size_t distance)
{
	struct sock_filter code[1024];
	struct writer w = { .code = code, .at = ARRAY_SIZE(code) };
	size_t yes = writer_put_return(&w, YES);
	size_t no = writer_put_return(&w, NO);

	for (size_t i = 0; i < distance; i++)
		(void)writer_put(&w, BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	(void)writer_put_jump(&w, BPF_JEQ, 7, yes, no);
	size_t begin = writer_put(&w, BPF_LD | BPF_W | BPF_ABS, 0);
	CHECK_EQ(begin, w.at);
	CHECK(!w.full);
	CHECK_EQ(ask(&w, ARRAY_SIZE(code), 7), YES);
	CHECK_EQ(ask(&w, ARRAY_SIZE(code), 8), NO);
}

TEST(jumps_reach_as_far_as_they_must)
{
	for (size_t distance = 0; distance < 600; distance++)
		check_distance(distance);
}

TEST(what_comes_next_needs_no_jump)
{
	struct sock_filter code[8];
	struct writer w = { .code = code, .at = ARRAY_SIZE(code) };
	size_t yes = writer_put_return(&w, YES);

	CHECK_EQ(writer_put_goto(&w, yes), yes);
	CHECK_EQ(w.at, yes);
	(void)writer_put_return(&w, NO);
	(void)writer_put_goto(&w, yes);
	CHECK_EQ(ask(&w, ARRAY_SIZE(code), 0), YES);
}

TEST(returns_that_are_near_are_shared)
{
	struct sock_filter code[512];
	struct writer w = { .code = code, .at = ARRAY_SIZE(code) };
	size_t first = writer_put_return(&w, YES);

	CHECK(writer_put_return(&w, NO) != first);
	CHECK_EQ(writer_put_return(&w, YES), first);
	for (int i = 0; i < 200; i++)
		(void)writer_put(&w, BPF_JMP | BPF_JA, 0);
	size_t again = writer_put_return(&w, YES);
	CHECK(again != first);
	CHECK_EQ(writer_put_return(&w, YES), again);
	for (uint32_t i = 100; i < 100 + 2 * WRITER_RETURNS_MAX; i++)
		CHECK_EQ(code[writer_put_return(&w, SECCOMP_RET_ERRNO | i)].k,
			SECCOMP_RET_ERRNO | i);
}

TEST(what_does_not_fit_is_said)
{
	struct sock_filter code[2];
	struct writer w = { .code = code, .at = ARRAY_SIZE(code) };

	(void)writer_put_return(&w, YES);
	(void)writer_put_return(&w, NO);
	CHECK(!w.full);
	(void)writer_put_jump(&w, BPF_JEQ, 1, 0, 1);
	CHECK(w.full);
}

TESTS(UNIT(jumps_reach_as_far_as_they_must), UNIT(what_comes_next_needs_no_jump),
	UNIT(returns_that_are_near_are_shared), UNIT(what_does_not_fit_is_said))
