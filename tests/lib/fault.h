/* Makes the nth call of a kind fail, to see that nothing is leaked or left half done.
 * The test is linked with --wrap for each call (see unit_wraps in src/meson.build),
 * and says for each what stands in its place:
 *
 *	FAULT(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
 *
 *	for (int n = 1; fault_arm(n, EIO); n++) {
 *		int r = do_it();
 *		if (fault_disarm())
 *			CHECK_EQ(r, -EIO);
 *	}
 *
 * The loop ends with the first n that is larger than the number of calls. */
#pragma once
#include <errno.h>
#include <stdbool.h>

static struct {
	int countdown; /* calls until the one that fails; 0 when not armed */
	int code;
	bool has_fired;
	bool is_over;
} fault;

/* From now on the nth wrapped call fails with errno `code`. False when the last round
 * had fewer calls than its n. */
static inline bool fault_arm(int n, int code)
{
	if (n == 1)
		fault.is_over = false;
	fault.countdown = fault.is_over ? 0 : n;
	fault.code = code;
	fault.has_fired = false;
	return !fault.is_over;
}

/* Calls work again. True when one failed meanwhile. */
static inline bool fault_disarm(void)
{
	fault.countdown = 0;
	fault.is_over = !fault.has_fired;
	return fault.has_fired;
}

static inline bool fault_hits(void)
{
	if (fault.countdown == 0 || --fault.countdown > 0)
		return false;
	fault.has_fired = true;
	errno = fault.code;
	return true;
}

/* Failing means to return `bad`. */
#define FAULT_AS(bad, type, name, parameters, arguments)                                           \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return fault_hits() ? (bad) : __real_##name arguments;                             \
	}

#define FAULT(type, name, parameters, arguments) FAULT_AS(-1, type, name, parameters, arguments)
