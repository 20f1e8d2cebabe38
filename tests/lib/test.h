/* What every unit test includes: cmocka with the few spellings we use.
 *
 *	TEST(get_of_absent_key_is_enoent)
 *	{
 *		CHECK_EQ(store_get(s, "nobody", &v), -ENOENT);
 *	}
 *
 *	TESTS(UNIT(get_of_absent_key_is_enoent))
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define TEST(name)         static void name(void **state __attribute__((unused)))
#define UNIT(name)         cmocka_unit_test(name)
#define CHECK(cond)        assert_true(cond)
#define CHECK_EQ(a, b)     assert_int_equal((a), (b))
#define CHECK_STR(a, b)    assert_string_equal((a), (b))
#define CHECK_MEM(a, b, n) assert_memory_equal((a), (b), (n))

/* A test that can not run here says why and is counted as skipped. */
#define SKIP(why)                                                                                  \
	do {                                                                                       \
		print_message("skip: %s\n", (why));                                                \
		skip();                                                                            \
	} while (0)

/* cmocka looks for its setting before each line it prints; tests may empty the environment. */
static inline void test_keep_output(void)
{
	const char *wanted = getenv("CMOCKA_MESSAGE_OUTPUT");

	if (wanted && strcasecmp(wanted, "tap") == 0)
		cmocka_set_message_output(CM_OUTPUT_TAP);
}

#define TESTS(...)                                                                                 \
	int main(void)                                                                             \
	{                                                                                          \
		const struct CMUnitTest tests[] = { __VA_ARGS__ };                                 \
                                                                                                   \
		test_keep_output();                                                                \
		return cmocka_run_group_tests(tests, NULL, NULL);                                  \
	}
