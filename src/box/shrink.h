/* A filter program made shorter, with the same answer to every call. What libseccomp and
 * the rest of us write is put together from parts which each look at the number again;
 * and the longer a program is, the longer the kernel takes to load it, for every box.
 *
 * It works on any program of the instructions that seccomp_eval() knows: it finds out
 * what the program answers for every value of what it looks at, and writes that down as
 * a tree of decisions. */
#pragma once
#include <stdbool.h>

struct seccomp_program;

/* True when `p` has become shorter; else it is what it was. */
bool shrink_program(struct seccomp_program *p);
