/* A system call filter, compiled once by the keeper (see profile.h) and loaded by
 * the init of every box just before it obeys anybody. The program is plain memory
 * that fork() copies; the kernel keeps its own copy once it is loaded. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct seccomp_data;
struct sock_filter;

struct seccomp_program {
	struct sock_filter *code;
	size_t n_code; /* at most BPF_MAXINSNS */
};

/* Release the code; an empty program is allowed. */
void seccomp_fini(struct seccomp_program *p);

/* Filter every thread of this process, all its children and whatever they
 * execute, for good. The caller has set no_new_privs. Does not allocate and is
 * async-signal-safe. Returns 0 or a negative errno; after an error nothing is
 * filtered. (Not called seccomp_load: libseccomp has a function of that name.)
 *
 * Two flags are left out on purpose. SECCOMP_FILTER_FLAG_LOG would let a guest
 * write to the host's log at will. SECCOMP_FILTER_FLAG_SPEC_ALLOW would overrule
 * an administrator who wants filtered processes kept from speculation attacks on
 * others; where nobody asked for that, which is the default since Linux 5.16,
 * leaving it out costs nothing. */
int seccomp_install(const struct seccomp_program *p, struct err *err);

/* What the program answers to `call`: SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | code
 * and so on, as the kernel would work it out. `*ret_by_args` (may be NULL) says
 * whether it looked at the arguments. A program that is not well-formed kills. */
uint32_t seccomp_eval(
	const struct seccomp_program *p, const struct seccomp_data *call, bool *ret_by_args);
