#include "base/digest.h"

#include <errno.h>

#include "base/err.h"
#include "lib/test.h"

#define OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

TEST(digests_are_sha256)
{
	char hex[DIGEST_HEX_SIZE + 1];

	digest_of("abc", 3, hex);
	CHECK_STR(hex, OF_ABC);
	digest_of("", 0, hex);
	CHECK_STR(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(pieces_add_up)
{
	CLEANUP(digest_freep) struct digest *d = digest_new();
	char hex[DIGEST_HEX_SIZE + 1];

	digest_add(d, "a", 1);
	digest_add(d, "", 0);
	digest_add(d, "bc", 2);
	digest_end(d, hex);
	CHECK_STR(hex, OF_ABC);
}

TEST(texts_are_parsed_strictly)
{
	static const struct {
		const char *text;
		int code;
	} cases[] = {
		{ "sha256:" OF_ABC, 0 },
		{ OF_ABC, -EINVAL },
		{ "sha256:" OF_ABC "0", -EINVAL },
		{ "sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			-EINVAL },
		{ "sha256:../../../../../../../../../../../../../../../../../../../../etc/",
			-EINVAL },
		{ "sha512:" OF_ABC, -ENOTSUP },
		{ "", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char hex[DIGEST_HEX_SIZE + 1] = "untouched";

		CHECK_EQ(digest_parse(cases[i].text, "it", hex, NULL), cases[i].code);
		CHECK_STR(hex, cases[i].code ? "untouched" : OF_ABC);
	}
}

TESTS(UNIT(digests_are_sha256), UNIT(pieces_add_up), UNIT(texts_are_parsed_strictly))
