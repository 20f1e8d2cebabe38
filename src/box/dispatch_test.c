#include "box/dispatch.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "box/seccomp.h"
#include "lib/test.h"

#define ARCH     AUDIT_ARCH_X86_64
#define THE_REST (SECCOMP_RET_ERRNO | 77) /* what the program behind the front says */

/* A program of `n` instructions that only the last of which does anything. */
static struct seccomp_program make_rest(size_t n)
{
	struct seccomp_program p = { xcalloc(n, sizeof(struct sock_filter)), n };

	for (size_t i = 0; i + 1 < n; i++)
		p.code[i] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0);
	p.code[n - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, THE_REST);
	return p;
}

static uint32_t ask(const struct seccomp_program *p, uint32_t arch, uint32_t nr)
{
	struct seccomp_data call = { .nr = (int)nr, .arch = arch };

	return seccomp_eval(p, &call, NULL);
}

static uint32_t expected(uint32_t answer)
{
	return answer == DISPATCH_REST ? THE_REST : answer;
}

static void check_front(const uint32_t *answers, size_t n, size_t n_rest)
{
	struct seccomp_program p = make_rest(n_rest);

	CHECK_EQ(dispatch_prepend(&p, ARCH, answers, n, NULL), 0);
	for (uint32_t nr = 0; nr < n; nr++)
		CHECK_EQ(ask(&p, ARCH, nr), expected(answers[nr]));
	CHECK_EQ(ask(&p, ARCH, (uint32_t)n), expected(answers[n - 1]));
	CHECK_EQ(ask(&p, ARCH, 0x3fffffff), expected(answers[n - 1]));
	CHECK_EQ(ask(&p, ARCH, 0x40000000), THE_REST);
	CHECK_EQ(ask(&p, ARCH, UINT32_MAX), THE_REST);
	for (uint32_t nr = 0; nr < n; nr++)
		CHECK_EQ(ask(&p, AUDIT_ARCH_I386, nr), THE_REST);
	seccomp_fini(&p);
}

TEST(one_range_needs_no_tree)
{
	const uint32_t allow[] = { SECCOMP_RET_ALLOW };
	const uint32_t rest[] = { DISPATCH_REST, DISPATCH_REST };

	check_front(allow, ARRAY_SIZE(allow), 1);
	check_front(rest, ARRAY_SIZE(rest), 1);
}

TEST(every_number_gets_its_answer)
{
	uint32_t answers[1024];

	for (unsigned seed = 1; seed <= 40; seed++) {
		size_t n = 1 + seed * 25;

		srand(seed);
		for (size_t i = 0; i < n; i++) {
			unsigned pick = (unsigned)rand() % (1 + seed % 12);

			answers[i] = pick == 0 ? DISPATCH_REST : SECCOMP_RET_ERRNO | pick;
			if (i > 0 && seed % 3)
				answers[i] = rand() % 4 ? answers[i - 1] : answers[i];
		}
		check_front(answers, n, 1 + seed * 20);
	}
}

/* Conditional jumps reach 255 instructions; these trees are wider than that. */
TEST(answers_far_away_are_reached)
{
	uint32_t answers[1024];

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		answers[i] = SECCOMP_RET_ERRNO | (uint32_t)i;
	check_front(answers, ARRAY_SIZE(answers), 1);
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
		answers[i] = i % 2 ? DISPATCH_REST : SECCOMP_RET_ALLOW;
	check_front(answers, ARRAY_SIZE(answers), 1);
	check_front(answers, ARRAY_SIZE(answers), 2000);
}

TEST(what_does_not_fit_is_refused_and_the_program_left_alone)
{
	struct seccomp_program p = make_rest(BPF_MAXINSNS - 3);
	const struct sock_filter *code = p.code;
	const uint32_t answers[] = { SECCOMP_RET_ALLOW };
	struct err err = { 0 };

	CHECK_EQ(dispatch_prepend(&p, ARCH, answers, 1, &err), -E2BIG);
	CHECK(strstr(err.text, "4096 instructions") != NULL);
	CHECK(p.code == code);
	CHECK_EQ(p.n_code, BPF_MAXINSNS - 3);
	CHECK_EQ(dispatch_prepend(&p, ARCH, answers, 0, &err), -EINVAL);
	seccomp_fini(&p);

	uint32_t many[1024];
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = SECCOMP_RET_ERRNO | (uint32_t)i;
	p = make_rest(BPF_MAXINSNS - 1500);
	CHECK_EQ(dispatch_prepend(&p, ARCH, many, ARRAY_SIZE(many), &err), -E2BIG);
	seccomp_fini(&p);
}

TESTS(UNIT(one_range_needs_no_tree), UNIT(every_number_gets_its_answer),
	UNIT(answers_far_away_are_reached),
	UNIT(what_does_not_fit_is_refused_and_the_program_left_alone))
