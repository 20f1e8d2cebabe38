#include "base/base64.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

TEST(there_and_back)
{
	static const char *const rows[][2] = { { "", "" }, { "f", "Zg==" }, { "it", "aXQ=" },
		{ "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" }, { "\xff\xfe\xfd", "//79" } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[32];
		uint8_t bytes[32];
		size_t n = 0;

		CHECK_EQ(base64_encode(rows[i][0], strlen(rows[i][0]), text), strlen(rows[i][1]));
		CHECK_STR(text, rows[i][1]);
		CHECK_EQ(base64_decode(text, strlen(text), bytes, &n), 0);
		CHECK_EQ(n, strlen(rows[i][0]));
		CHECK_MEM(bytes, rows[i][0], n);
	}
}

TEST(what_no_encoder_makes_is_refused)
{
	static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=",
		"====", "Zg==Zg==", "Zm 9v", "Zm9v\n", "Zm9_", "Zm9-", "Z===", "!!!!" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint8_t bytes[32];
		size_t n = 7;

		CHECK_EQ(base64_decode(bad[i], strlen(bad[i]), bytes, &n), -EINVAL);
		CHECK_EQ(n, 7);
	}
}

TESTS(UNIT(there_and_back), UNIT(what_no_encoder_makes_is_refused))
