/* The part of a filter program that protects init, whatever a profile allows. Init is of
 * the guest's own user, so the kernel lets a guest choose its policy, priority and
 * processors; one who gives it the least there is, and keeps the machine busy, makes it
 * too slow to end the run: even a killed process has to run to die. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;
struct seccomp_program;

/* Put before `p` what refuses, with EPERM, to change how process 1 is scheduled. `answers`
 * are those of dispatch_prepend(), for the convention `arch`, the native one; those which
 * are not known any more from the number alone become DISPATCH_REST. -E2BIG when the result
 * is larger than the kernel takes, and then `p` and `answers` are as they were. */
int guard_prepend(struct seccomp_program *p, uint32_t arch, uint32_t *answers, size_t n_answers,
	struct err *err);
