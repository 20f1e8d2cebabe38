/* From rules to a filter program, by libseccomp. The keeper uses it once, at its
 * start, through profile.h.
 *
 * The wall around the program: a call by another architecture's convention (on
 * x86-64 those of i386 and x32) kills the whole process. Such a call can only come
 * from a program built for another machine, which can not live with refusals
 * anyway since it can not even exit; SIGSYS says truthfully why it ended. And guard.h
 * protects the box's init, also where the rules would allow everything. */
#pragma once
#include <seccomp.h>
#include <stdint.h>

#include "base/cleanup.h"

struct compile;
struct err;
struct seccomp_program;

/* Rules one program may have, counting each system call of each rule. */
#define COMPILE_RULES_MAX 2048u

/* Begin a program that answers `default_action` (SCMP_ACT_...) to every call that
 * no rule matches. Returns 0 with an object the caller must compile_free(). */
int compile_new(uint32_t default_action, struct compile **ret, struct err *err);
void compile_free(struct compile *c);

/* Answer `action` to the call `name` when all `n_args` conditions hold. A name that
 * this machine's libseccomp does not know is ignored. -EINVAL for rules that
 * contradict: with one that has no condition, or with the same conditions; apart
 * from that the rules of one call must not overlap, for libseccomp gives them no
 * order. -E2BIG for too many. */
int compile_add(struct compile *c, const char *name, uint32_t action,
	const struct scmp_arg_cmp *args, unsigned n_args, struct err *err);

/* The finished program; the caller must seccomp_fini() it. -E2BIG when it is larger
 * than the kernel takes. -EINVAL when it forbids what every box needs. */
int compile_finish(struct compile *c, struct seccomp_program *ret, struct err *err);

DEFINE_CLEANUP(struct compile, compile_free)
