/* How the interpreter of a guest ends: Python does it, in its order and with nothing of ours on the
 * stack, and is stopped as soon as nothing is left of the guest whose end would be noticed. */
#pragma once
#include <stdbool.h>

struct object;

/* In a process that is to be a template, before it is an interpreter. */
void end_begin(void);

/* In the template, with the namespace of python_boot.py, when all is imported. */
void end_prepare(struct object *names);

/* In a clone, before its guest's code. */
void end_expect(void);

/* What the guest's code comes to: its result, or NULL with an exception. True if that was asked
 * to be its end. */
bool end_conclude(struct object *done);

/* End the interpreter and the process, as concluded. */
_Noreturn void end_now(void);
