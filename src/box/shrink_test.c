#include "box/shrink.h"

#include <errno.h>
#include <linux/audit.h>
#include <seccomp.h>

#include "base/err.h"
#include "box/compile.h"
#include "box/profile.h"
#include "box/shrink_sample.h"
#include "lib/test.h"

#define ALLOW   SECCOMP_RET_ALLOW
#define CHANCES 4000

static struct seccomp_program copy_of(const struct seccomp_program *p)
{
	struct seccomp_program copy = { xcalloc(p->n_code, sizeof(*p->code)), p->n_code };

	memcpy(copy.code, p->code, p->n_code * sizeof(*p->code));
	return copy;
}

/* One call and all that differ from it in one word of its arguments; then some by chance, also
 * with other halves of what differs. */
static void check_arguments(const struct seccomp_program *a, const struct seccomp_program *b,
	const struct sample_values *v, uint32_t arch, uint32_t nr)
{
	uint64_t seed = nr;
	uint32_t words[SAMPLE_WORDS] = { nr, arch };

	for (size_t w = 2; w < SAMPLE_WORDS; w++) {
		for (size_t i = 0; i < v->n; i++) {
			words[w] = v->at[i];
			CHECK(sample_agree(a, b, words));
		}
		words[w] = 0;
	}
	for (int i = 0; i < CHANCES; i++) {
		sample_fill(v, 2, &seed, words);
		CHECK(sample_agree(a, b, words));
	}
}

static void check_number(const struct seccomp_program *a, const struct seccomp_program *b,
	const struct sample_values *v, uint32_t arch, uint32_t nr)
{
	struct seccomp_data call = { .nr = (int)nr, .arch = arch };
	bool by_args_a, by_args_b;

	CHECK_EQ(seccomp_eval(a, &call, &by_args_a), seccomp_eval(b, &call, &by_args_b));
	if (by_args_a || by_args_b)
		check_arguments(a, b, v, arch, nr);
}

/* All the numbers there are, those of x32, and those beside any constant. */
static void check_same(const struct seccomp_program *a, const struct seccomp_program *b)
{
	const uint32_t native = seccomp_arch_native();
	const uint32_t archs[] = { native, native - 1, native + 1, AUDIT_ARCH_I386, AUDIT_ARCH_ARM,
		0, UINT32_MAX };
	struct sample_values v = sample_values_of(a);

	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		for (uint32_t nr = 0; nr < 1024; nr++) {
			check_number(a, b, &v, archs[i], nr);
			check_number(a, b, &v, archs[i], 0x40000000u + nr);
		}
		for (size_t k = 0; k < v.n; k++)
			check_number(a, b, &v, archs[i], v.at[k]);
	}
	free(v.at);
}

static size_t check_shrinks(struct seccomp_program *p)
{
	struct seccomp_program shorter = copy_of(p);
	size_t n;

	CHECK(shrink_program(&shorter));
	CHECK(shorter.n_code < p->n_code);
	check_same(p, &shorter);
	n = shorter.n_code;
	seccomp_fini(&shorter);
	seccomp_fini(p);
	return n;
}

TEST(the_default_profile_becomes_less_than_half)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	CHECK_EQ(profile_compile(profile_default, profile_default_size, &p, &err), 0);
	size_t before = p.n_code;
	size_t after = check_shrinks(&p);
	CHECK(after * 2 < before);
}

static struct compile *begin(uint32_t default_action)
{
	static const char *const needed[] = { "brk", "clone", "close", "execve", "exit_group",
		"ioctl", "mmap", "openat2", "prctl", "read", "rt_sigreturn", "sendmsg", "wait4",
		"write" };
	struct compile *c = NULL;

	CHECK_EQ(compile_new(default_action, &c, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		CHECK_EQ(compile_add(c, needed[i], SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	return c;
}

static void finish_and_check(struct compile *c)
{
	struct seccomp_program p = { 0 };

	CHECK_EQ(compile_finish(c, &p, NULL), 0);
	compile_free(c);
	(void)check_shrinks(&p);
}

/* Every way to compare that a profile has, also of both halves of an argument. */
TEST(every_comparison_keeps_its_meaning)
{
	static const uint64_t values[] = { 0, 1, 0x7fffffff, 0xffffffff, 0x100000000, 0x100000001,
		0x1234567800000000, UINT64_MAX };

	for (int op = SCMP_CMP_NE; op <= SCMP_CMP_GT; op++) {
		struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));
		const char *const names[] = { "socket", "socketpair", "getpid", "kill", "tkill",
			"personality", "clone3", "fcntl" };

		if (op == SCMP_CMP_MASKED_EQ)
			op++;
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			const struct scmp_arg_cmp args[] = {
				{ 0, (enum scmp_compare)op, values[i], 0 },
				{ 3, (enum scmp_compare)op, values[ARRAY_SIZE(values) - 1 - i], 0 },
			};

			CHECK_EQ(compile_add(c, names[i], SCMP_ACT_ALLOW, args, 2, NULL), 0);
		}
		finish_and_check(c);
	}
}

TEST(every_mask_keeps_its_meaning)
{
	static const uint64_t masks[] = { 0xffff, 0xfff8, 0x7e020000, 0xffffffff00000000, 0xf0, 1,
		UINT64_MAX };
	struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));

	for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
		const struct scmp_arg_cmp one = { 1, SCMP_CMP_MASKED_EQ, masks[i],
			masks[i] & 0xaaaaaaaaaaaaaaaa };

		CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ERRNO(EDOM), &one, 1, NULL), 0);
	}
	finish_and_check(c);
}

TEST(other_defaults_keep_their_meaning)
{
	finish_and_check(begin(SCMP_ACT_ALLOW));
	finish_and_check(begin(SCMP_ACT_KILL_PROCESS));
	finish_and_check(begin(SCMP_ACT_LOG));
}

static void check_stays(struct sock_filter *code, size_t n)
{
	struct seccomp_program p = { code, n };
	struct seccomp_program before = copy_of(&p);

	CHECK(!shrink_program(&p));
	CHECK(p.code == code && p.n_code == n);
	CHECK_EQ(memcmp(p.code, before.code, n * sizeof(*code)), 0);
	seccomp_fini(&before);
}

TEST(what_is_no_filter_stays)
{
	/* clang-format off */
	struct sock_filter no_return[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	struct sock_filter too_far[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), BPF_STMT(BPF_RET | BPF_K, ALLOW) };
	struct sock_filter unknown[] = {
		BPF_STMT(BPF_ALU | BPF_NEG, 0), BPF_STMT(BPF_RET | BPF_K, ALLOW),
		BPF_STMT(BPF_RET | BPF_K, ALLOW) };
	struct sock_filter outside[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)),
		BPF_STMT(BPF_RET | BPF_K, ALLOW) };
	struct sock_filter short_already[] = { BPF_STMT(BPF_RET | BPF_K, ALLOW) };
	/* clang-format on */

	check_stays(no_return, ARRAY_SIZE(no_return));
	check_stays(too_far, ARRAY_SIZE(too_far));
	check_stays(unknown, ARRAY_SIZE(unknown));
	check_stays(outside, ARRAY_SIZE(outside));
	check_stays(short_already, ARRAY_SIZE(short_already));
}

/* Six arguments with a hundred values each, in every combination, are given up in time. */
TEST(what_is_too_much_stays)
{
	struct sock_filter code[4000];
	size_t n = 0;

	for (uint32_t i = 0; i < 1200; i++) {
		uint32_t word = 16 + 4 * (i % 12);

		code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, word);
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | i);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, ALLOW);
	check_stays(code, n);
}

TESTS(UNIT(the_default_profile_becomes_less_than_half), UNIT(every_comparison_keeps_its_meaning),
	UNIT(every_mask_keeps_its_meaning), UNIT(other_defaults_keep_their_meaning),
	UNIT(what_is_no_filter_stays), UNIT(what_is_too_much_stays))
