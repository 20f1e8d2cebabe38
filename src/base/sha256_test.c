#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/digest.h"
#include "base/sha256_backend.h"
#include "base/str.h"
#include "lib/test.h"

static void check(struct sha256 *s, const char *expected)
{
	uint8_t raw[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];

	sha256_end(s, raw);
	str_hex(raw, sizeof(raw), hex);
	CHECK_STR(hex, expected);
}

static void check_text(const char *text, const char *expected)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, text, strlen(text));
	check(&s, expected);
}

/* The examples of FIPS 180. */
TEST(the_examples_of_the_standard_come_out)
{
	struct sha256 s;
	char thousand[1000];

	check_text("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	check_text("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	check_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(thousand, 'a', sizeof(thousand));
	sha256_init(&s);
	for (int i = 0; i < 1000; i++)
		sha256_add(&s, thousand, sizeof(thousand));
	check(&s, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(any_size_in_any_pieces_is_what_the_library_has)
{
	static uint8_t data[700];
	char expected[DIGEST_HEX_SIZE + 1];

	srand(1);
	for (size_t size = 0; size <= sizeof(data); size++) {
		struct sha256 s;
		size_t at = 0;

		for (size_t i = 0; i < size; i++)
			data[i] = (uint8_t)rand();
		sha256_init(&s);
		while (at < size) {
			size_t n = (size_t)rand() % 200;

			n = n < size - at ? n : size - at;
			sha256_add(&s, data + at, n);
			at += n;
		}
		digest_of(data, size, expected);
		check(&s, expected);
	}
}

TEST(the_fast_way_and_the_plain_one_agree)
{
	static uint8_t data[8 * SHA256_BLOCK_SIZE];
	sha256_blocks_fn *fast = sha256_blocks_fast();
	uint32_t one[8], two[8];

	if (!fast)
		SKIP("this processor has no instructions for it");
	srand(2);
	for (int round = 0; round < 1000; round++) {
		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = (uint8_t)rand();
		memcpy(one, data, sizeof(one));
		memcpy(two, data, sizeof(two));
		sha256_blocks_plain(one, data, 8);
		fast(two, data, 8);
		CHECK(memcmp(one, two, sizeof(one)) == 0);
	}
}

TESTS(UNIT(the_examples_of_the_standard_come_out),
	UNIT(any_size_in_any_pieces_is_what_the_library_has),
	UNIT(the_fast_way_and_the_plain_one_agree))
