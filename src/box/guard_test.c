#include "box/guard.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/str.h"
#include "box/dispatch.h"
#include "box/seccomp.h"
#include "lib/test.h"

#define ARCH      seccomp_arch_native()
#define N_ANSWERS 500u
#define THE_REST  (SECCOMP_RET_ERRNO | 77) /* what the program behind the guard says */
#define REFUSED   (SECCOMP_RET_ERRNO | EPERM)

/* A guarded program in which each call has the same answer. */
struct stage {
	struct seccomp_program p;
	uint32_t answers[N_ANSWERS];
};

static void stage_fini(struct stage *t)
{
	seccomp_fini(&t->p);
}

static void stage_init(struct stage *t, uint32_t answer)
{
	t->p = (struct seccomp_program){ xcalloc(1, sizeof(struct sock_filter)), 1 };
	t->p.code[0] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, THE_REST);
	for (size_t i = 0; i < N_ANSWERS; i++)
		t->answers[i] = answer;
	CHECK_EQ(guard_prepend(&t->p, ARCH, t->answers, N_ANSWERS, NULL), 0);
}

#define STAGE(name, answer)                                                                        \
	CLEANUP(stage_fini) struct stage name;                                                     \
	stage_init(&name, answer)

static uint32_t ask(const struct stage *t, uint32_t arch, int nr, uint64_t arg0, uint64_t arg1)
{
	struct seccomp_data call = { .nr = nr, .arch = arch, .args = { arg0, arg1 } };

	return seccomp_eval(&t->p, &call, NULL);
}

static const struct {
	int nr;
	uint64_t args[2];
	bool is_refused;
} calls[] = {
	{ SYS_sched_setscheduler, { 1 }, true },
	{ SYS_sched_setscheduler, { 0 }, false },
	{ SYS_sched_setscheduler, { 2, 1 }, false },
	{ SYS_sched_setscheduler, { 0x8000000000000001, 0 }, true }, /* the kernel sees 32 bits */
	{ SYS_sched_setscheduler, { 0x80000001 }, false },
	{ SYS_sched_setparam, { 1 }, true },
	{ SYS_sched_setparam, { 0, 1 }, false },
	{ SYS_sched_setattr, { 1 }, true },
	{ SYS_sched_setattr, { 77 }, false },
	{ SYS_sched_setaffinity, { 1, 8 }, true },
	{ SYS_sched_setaffinity, { 0, 1 }, false },
	{ SYS_setpriority, { PRIO_PROCESS, 1 }, true },
	{ SYS_setpriority, { PRIO_PROCESS, 0 }, false },
	{ SYS_setpriority, { PRIO_PGRP, 0 }, false },
	{ SYS_setpriority, { PRIO_USER, 0 }, true },
	{ SYS_setpriority, { 1ull << 32 | PRIO_USER, 1000 }, true },
	{ SYS_ioprio_set, { IOPRIO_WHO_PROCESS, 1 }, true },
	{ SYS_ioprio_set, { IOPRIO_WHO_PROCESS, 0 }, false },
	{ SYS_ioprio_set, { IOPRIO_WHO_USER, 0 }, true },
};

static void check_calls(uint32_t answer)
{
	STAGE(t, answer);

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		uint32_t got = ask(&t, ARCH, calls[i].nr, calls[i].args[0], calls[i].args[1]);
		uint32_t otherwise = answer == DISPATCH_REST ? THE_REST : answer;

		CHECK_EQ(got, calls[i].is_refused ? REFUSED : otherwise);
		CHECK_EQ(t.answers[calls[i].nr], DISPATCH_REST);
	}
}

TEST(init_is_refused_and_others_are_answered_as_before)
{
	check_calls(SECCOMP_RET_ALLOW);
	check_calls(SECCOMP_RET_LOG);
	check_calls(DISPATCH_REST);
}

TEST(other_calls_are_left_alone)
{
	STAGE(t, SECCOMP_RET_ALLOW);

	CHECK_EQ(t.answers[SYS_getpriority], SECCOMP_RET_ALLOW);
	CHECK_EQ(ask(&t, ARCH, SYS_getpriority, 0, 1), THE_REST);
	CHECK_EQ(ask(&t, ARCH, SYS_kill, 1, 1), THE_REST);
}

/* Their numbers mean other calls. */
TEST(other_conventions_are_left_alone)
{
	STAGE(t, SECCOMP_RET_ALLOW);

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		CHECK_EQ(ask(&t, 0, calls[i].nr, 1, 1), THE_REST);
		CHECK_EQ(ask(&t, ARCH, calls[i].nr | 0x40000000, 1, 1), THE_REST);
	}
}

TEST(what_is_refused_anyway_stays_so)
{
	STAGE(t, SECCOMP_RET_KILL_PROCESS);

	CHECK_EQ(t.answers[SYS_sched_setscheduler], SECCOMP_RET_KILL_PROCESS);
	CHECK_EQ(ask(&t, ARCH, SYS_sched_setscheduler, 1, 0), THE_REST);
}

TEST(a_program_that_leaves_no_room_is_refused_and_untouched)
{
	struct seccomp_program p = { xcalloc(BPF_MAXINSNS, sizeof(*p.code)), BPF_MAXINSNS };
	uint32_t answers[] = { SECCOMP_RET_ALLOW };
	struct err err = { 0 };

	CHECK_EQ(guard_prepend(&p, ARCH, answers, 1, &err), -E2BIG);
	CHECK_EQ(p.n_code, BPF_MAXINSNS);
	CHECK_EQ(answers[0], SECCOMP_RET_ALLOW);
	CHECK(strstr(err.text, "instructions") != NULL);
	seccomp_fini(&p);
}

TESTS(UNIT(init_is_refused_and_others_are_answered_as_before), UNIT(other_calls_are_left_alone),
	UNIT(other_conventions_are_left_alone), UNIT(what_is_refused_anyway_stays_so),
	UNIT(a_program_that_leaves_no_room_is_refused_and_untouched))
