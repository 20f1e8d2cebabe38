/* The front of a filter program: answers that follow from a call's number alone, as
 * a search tree over ranges of numbers. libseccomp compares number by number, and
 * the kernel takes two to four times as long to load that. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct err;
struct seccomp_program;

/* Instead of an answer: the rest of the program decides. No action has this value. */
#define DISPATCH_REST UINT32_MAX

/* Put a front before `p`: a call numbered i by the convention `arch` (AUDIT_ARCH_...)
 * is answered `answers[i]`, one beyond the last of `n_answers` is answered like it. Calls
 * by another convention, also those of x32, go to what `p` was. -E2BIG when the
 * result is larger than the kernel takes, and `p` is as it was. */
int dispatch_prepend(struct seccomp_program *p, uint32_t arch, const uint32_t *answers,
	size_t n_answers, struct err *err);
