/* What a guest has left when its interpreter ends, by what would be noticed of its end. Objects
 * that only go back to the allocator are left to the kernel, which is faster at that. */
#pragma once
#include <stdbool.h>

struct object;

enum left {
	LEFT_NOTHING, /* whose end does anything */
	LEFT_THINGS,  /* files, generators, what has a finalizer or is not known */
	LEFT_HIDDEN,  /* something that can not be looked at */
};

/* In a template, with the namespace of python_boot.py. */
void left_prepare(struct object *boot);

/* In a clone, before its guest's code. */
void left_expect(void);

/* Takes memory for as long as it looks, up to an eighth of what the guest has. What types of
 * libraries do at their end nobody knows, unless they are trusted. */
enum left left_look(bool is_trusting);
