#include "box/compile.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "box/seccomp.h"
#include "lib/test.h"

#define EPERM_ANSWER (SECCOMP_RET_ERRNO | EPERM)

static const char *const needed[] = { "brk", "clone", "close", "execve", "exit_group", "ioctl",
	"mmap", "openat2", "prctl", "read", "rt_sigreturn", "sendmsg", "wait4", "write" };

/* A program's beginning with what every box needs. */
static struct compile *begin(uint32_t default_action)
{
	struct compile *c = NULL;

	CHECK_EQ(compile_new(default_action, &c, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		CHECK_EQ(compile_add(c, needed[i], SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	return c;
}

static struct seccomp_program finish(struct compile *c)
{
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	CHECK_EQ(compile_finish(c, &p, &err), 0);
	compile_free(c);
	return p;
}

static uint32_t ask(const struct seccomp_program *p, uint32_t nr, uint64_t arg)
{
	struct seccomp_data call = {
		.nr = (int)nr, .arch = seccomp_arch_native(), .args = { arg }
	};

	return seccomp_eval(p, &call, NULL);
}

TEST(rules_decide_and_the_default_does_otherwise)
{
	struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));
	const struct scmp_arg_cmp one = { 0, SCMP_CMP_EQ, 1, 0 };
	const struct scmp_arg_cmp two = { 0, SCMP_CMP_EQ, 2, 0 };

	CHECK_EQ(compile_add(c, "getpid", SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ALLOW, &one, 1, NULL), 0);
	CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ERRNO(EDOM), &two, 1, NULL), 0);
	struct seccomp_program p = finish(c);
	CHECK_EQ(ask(&p, SYS_getpid, 0), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_getppid, 0), EPERM_ANSWER);
	CHECK_EQ(ask(&p, SYS_socket, 1), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&p, SYS_socket, 2), SECCOMP_RET_ERRNO | EDOM);
	CHECK_EQ(ask(&p, SYS_socket, 3), EPERM_ANSWER);
	CHECK_EQ(ask(&p, SYS_socket, 1 | (1ULL << 32)), EPERM_ANSWER);
	seccomp_fini(&p);
}

TEST(names_nobody_knows_are_ignored)
{
	struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));

	CHECK_EQ(compile_add(c, "frobnicate", SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	/* known to libseccomp, but only on machines with one call for all of them */
	CHECK_EQ(compile_add(c, "socketcall", SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	struct seccomp_program p = finish(c);
	seccomp_fini(&p);
}

TEST(calls_younger_than_libseccomp_are_missing_unless_the_default_is_no_errno)
{
	struct seccomp_program p = finish(begin(SCMP_ACT_ERRNO(EPERM)));

	CHECK_EQ(ask(&p, 1000, 0), SECCOMP_RET_ERRNO | ENOSYS);
	CHECK_EQ(ask(&p, 0x3fffffff, 0), SECCOMP_RET_ERRNO | ENOSYS);
	seccomp_fini(&p);
	p = finish(begin(SCMP_ACT_ALLOW));
	CHECK_EQ(ask(&p, 1000, 0), SECCOMP_RET_ALLOW);
	seccomp_fini(&p);
	p = finish(begin(SCMP_ACT_KILL_PROCESS));
	CHECK_EQ(ask(&p, 1000, 0), SECCOMP_RET_KILL_PROCESS);
	seccomp_fini(&p);
}

static void check_others_kill(const struct seccomp_program *p, int nr)
{
	static const uint32_t others[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_S390X, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct seccomp_data call = { .nr = nr, .arch = others[i] };

		CHECK_EQ(seccomp_eval(p, &call, NULL), SECCOMP_RET_KILL_PROCESS);
	}
#ifdef __x86_64__
	CHECK_EQ(ask(p, 0x40000000u | (uint32_t)nr, 0), SECCOMP_RET_KILL_PROCESS);
#endif
}

TEST(other_conventions_kill_also_when_the_default_allows)
{
	static const uint32_t defaults[] = { SCMP_ACT_ERRNO(EPERM), SCMP_ACT_ALLOW };

	for (size_t i = 0; i < ARRAY_SIZE(defaults); i++) {
		struct seccomp_program p = finish(begin(defaults[i]));

		for (int nr = 0; nr < 500; nr++)
			check_others_kill(&p, nr);
		seccomp_fini(&p);
	}
}

TEST(init_is_guarded_whatever_the_rules_allow)
{
	const struct scmp_arg_cmp low = { 0, SCMP_CMP_LT, 10, 0 };
	struct compile *c = begin(SCMP_ACT_ERRNO(EDOM));

	CHECK_EQ(compile_add(c, "sched_setscheduler", SCMP_ACT_ALLOW, &low, 1, NULL), 0);
	CHECK_EQ(compile_add(c, "sched_setattr", SCMP_ACT_ALLOW, NULL, 0, NULL), 0);
	struct seccomp_program rules = finish(c);
	struct seccomp_program none = finish(begin(SCMP_ACT_ALLOW));
	CHECK_EQ(ask(&rules, SYS_sched_setscheduler, 1), EPERM_ANSWER);
	CHECK_EQ(ask(&rules, SYS_sched_setscheduler, 2), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&rules, SYS_sched_setscheduler, 10), SECCOMP_RET_ERRNO | EDOM);
	CHECK_EQ(ask(&rules, SYS_sched_setattr, 1), EPERM_ANSWER);
	CHECK_EQ(ask(&rules, SYS_sched_setattr, 2), SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&none, SYS_sched_setscheduler, 1), EPERM_ANSWER);
	CHECK_EQ(ask(&none, SYS_sched_setscheduler, 2), SECCOMP_RET_ALLOW);
	seccomp_fini(&rules);
	seccomp_fini(&none);
}

TEST(rules_that_contradict_are_refused)
{
	const struct scmp_arg_cmp one = { 0, SCMP_CMP_EQ, 1, 0 };
	CLEANUP(compile_freep) struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));
	struct err err = { 0 };

	CHECK_EQ(compile_add(c, "read", SCMP_ACT_ALLOW, NULL, 0, &err), 0); /* only repeats */
	CHECK_EQ(compile_add(c, "read", SCMP_ACT_ERRNO(EPERM), NULL, 0, &err), -EINVAL);
	CHECK_STR(err.text, "'read' has another rule that says otherwise");
	CHECK_EQ(compile_add(c, "read", SCMP_ACT_ERRNO(EDOM), &one, 1, &err), -EINVAL);
	CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ALLOW, &one, 1, &err), 0);
	CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ERRNO(EDOM), NULL, 0, &err), -EINVAL);
	CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ERRNO(EDOM), &one, 1, &err), -EINVAL);
	CHECK(strstr(err.text, "socket: another rule has the same conditions") != NULL);
}

TEST(a_program_that_starves_the_box_is_refused)
{
	for (size_t skip = 0; skip < ARRAY_SIZE(needed); skip++) {
		CLEANUP(compile_freep) struct compile *c = NULL;
		struct seccomp_program p = { 0 };
		struct err err = { 0 };

		CHECK_EQ(compile_new(SCMP_ACT_ERRNO(EPERM), &c, NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
			if (i != skip)
				CHECK_EQ(compile_add(c, needed[i], SCMP_ACT_ALLOW, NULL, 0, NULL),
					0);
		}
		CHECK_EQ(compile_finish(c, &p, &err), -EINVAL);
		CHECK(strstr(err.text, needed[skip]) != NULL);
		CHECK(p.code == NULL);
	}
}

TEST(too_many_rules_are_refused)
{
	CLEANUP(compile_freep) struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));
	struct err err = { 0 };
	unsigned n = ARRAY_SIZE(needed);

	while (compile_add(c, "frobnicate", SCMP_ACT_ALLOW, NULL, 0, &err) == 0)
		n++;
	CHECK_EQ(n, COMPILE_RULES_MAX);
	CHECK_EQ(err.code, -E2BIG);
}

/* Fewer rules than the limit can make more instructions than the kernel takes. */
TEST(too_large_a_program_is_refused)
{
	CLEANUP(compile_freep) struct compile *c = begin(SCMP_ACT_ERRNO(EPERM));
	struct seccomp_program p = { 0 };
	struct err err = { 0 };

	for (unsigned i = 0; i < 1000; i++) {
		/* clang-format off */
		const struct scmp_arg_cmp args[] = {
			{ 0, SCMP_CMP_EQ, i, 0 },
			{ 1, SCMP_CMP_EQ, i, 0 },
			{ 2, SCMP_CMP_EQ, i, 0 },
		};
		/* clang-format on */
		CHECK_EQ(compile_add(c, "socket", SCMP_ACT_ALLOW, args, 3, NULL), 0);
	}
	CHECK_EQ(compile_finish(c, &p, &err), -E2BIG);
	CHECK(strstr(err.text, "4096 instructions") != NULL);
}

TESTS(UNIT(rules_decide_and_the_default_does_otherwise), UNIT(names_nobody_knows_are_ignored),
	UNIT(calls_younger_than_libseccomp_are_missing_unless_the_default_is_no_errno),
	UNIT(other_conventions_kill_also_when_the_default_allows),
	UNIT(init_is_guarded_whatever_the_rules_allow), UNIT(rules_that_contradict_are_refused),
	UNIT(a_program_that_starves_the_box_is_refused), UNIT(too_many_rules_are_refused),
	UNIT(too_large_a_program_is_refused))
