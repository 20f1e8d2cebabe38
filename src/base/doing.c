#include "base/doing.h"

#include <stdatomic.h>

static _Atomic(const char *) doing;

const char *doing_begin(const char *what)
{
	const char *before = atomic_load_explicit(&doing, memory_order_relaxed);

	atomic_store_explicit(&doing, what, memory_order_relaxed);
	return before;
}

void doing_end(const char *before)
{
	atomic_store_explicit(&doing, before, memory_order_relaxed);
}

const char *doing_what(void)
{
	return atomic_load_explicit(&doing, memory_order_relaxed);
}
