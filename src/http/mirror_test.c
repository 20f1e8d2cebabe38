#include "http/mirror.h"

#include <string.h>

#include "base/cleanup.h"
#include "lib/test.h"

TEST(what_a_header_can_not_hold_is_encoded)
{
	static const char *const rows[][2] = {
		{ "run_python", "run_python" },
		{ "belljar://s/a b.txt", "belljar://s/a b.txt" },
		{ "", "=?base64?"
		      "?=" },
		{ " padded ", "=?base64?IHBhZGRlZCA=?=" },
		{ "line1\nline2", "=?base64?bGluZTEKbGluZTI=?=" },
		{ "Hello, \xe4\xb8\x96\xe7\x95\x8c", "=?base64?SGVsbG8sIOS4lueVjA==?=" },
		{ "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=" },
		{ "a\r\nX-API-KEY: b", "=?base64?YQ0KWC1BUEktS0VZOiBi?=" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		AUTO_FREE char *value = mirror_encode(rows[i][0]);

		CHECK_STR(value, rows[i][1]);
		CHECK(mirror_equals(value, rows[i][0]));
		CHECK(!mirror_equals(value, "other"));
	}
}

TEST(what_is_no_value_equals_nothing)
{
	static const char *const rows[][2] = {
		{ "", "" }, { "\xe4\xb8\x96", "\xe4\xb8\x96" }, { " a", " a" },
		{ "=?base64?YQ?=", "a" },                         /* no padding */
		{ "=?base64?!!!!?=", "" },                        /* no base64 */
		{ "=?BASE64?YQ==?=", "a" }, { "=?base64?=", "" }, /* its ends overlap */
		{ "=?base64?YQBi?=", "a" },                       /* a NUL within */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK(!mirror_equals(rows[i][0], rows[i][1]));
}

TESTS(UNIT(what_a_header_can_not_hold_is_encoded), UNIT(what_is_no_value_equals_nothing))
