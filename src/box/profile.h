/* A seccomp profile, the JSON that Docker and the OCI runtimes read, made into a
 * filter program for this machine. The keeper does it once, at its start.
 *
 * Where the format leaves room, the stricter reading holds:
 * - includes and excludes are asked for a process without any capability, on this
 *   machine's architecture and kernel.
 * - Only this machine's own architecture is let in; sub-architectures may be named,
 *   as in Docker's own profile, but a call by their conventions kills the process.
 * - A field nobody knows is an error, not a comment: a slip in "args" must not make
 *   a rule wider. So is one argument in two conditions of a rule, which other readers
 *   take for "or".
 * - A call that the default refuses by an errno, but that is younger than libseccomp,
 *   gets ENOSYS.
 * - SCMP_ACT_TRACE and SCMP_ACT_NOTIFY need a supervisor, and there is none. */
#pragma once
#include <stddef.h>

struct err;
struct seccomp_program;

#define PROFILE_SIZE_MAX ((size_t)256 << 10)

/* The profile that is shipped as deploy/seccomp.json, not terminated. */
extern const char profile_default[];
extern const size_t profile_default_size;

/* Returns 0 with a program the caller must seccomp_fini(); -EINVAL with a sentence
 * that names the field; -E2BIG when the text, the rules or the program are too
 * large; -ENOTSUP on a machine we know no architecture name for. */
int profile_compile(const char *json, size_t size, struct seccomp_program *ret, struct err *err);
