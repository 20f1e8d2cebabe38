/* Scope-bound ownership: what a variable owns is released when it leaves
 * scope, unless TAKE() or take_fd() moved it to a new owner first. */
#pragma once
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* DEFINE_CLEANUP(struct x, x_free) gives x_freep() for CLEANUP(x_freep). */
#define DEFINE_CLEANUP(type, fn)                                                                   \
	static inline void fn##p(type **p)                                                         \
	{                                                                                          \
		fn(*p);                                                                            \
	}

/* Move ownership out of `p`, leaving NULL behind. */
#define TAKE(p)                                                                                    \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

static inline void free_ptrp(void *p)
{
	free(*(void **)p);
}

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

static inline void close_fdp(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

#define AUTO_FREE CLEANUP(free_ptrp)
#define AUTO_FD   CLEANUP(close_fdp) int

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
