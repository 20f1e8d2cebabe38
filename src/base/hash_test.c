#include "base/hash.h"

#include <string.h>

#include "lib/test.h"

/* What is in files was summed like this. */
TEST(a_sum_stays_what_it_is)
{
	static const char text[] = "0123456789abcdef0123456789abcdef0123456789";

	CHECK_EQ(hash_add(0, 1), UINT64_C(0xff51afd71204231a));
	CHECK_EQ(hash_bytes(0, "", 0), UINT64_C(0x6ae6e4af84e0e608));
	CHECK_EQ(hash_bytes(7, text, sizeof(text) - 1), UINT64_C(0x85a0bd2437ba965a));
}

TEST(every_byte_its_place_and_the_seed_count)
{
	uint8_t data[80] = { 0 };
	uint64_t sum = hash_bytes(1, data, sizeof(data));

	CHECK(hash_bytes(2, data, sizeof(data)) != sum);
	CHECK(hash_bytes(1, data, sizeof(data) - 1) != sum);
	for (size_t i = 0; i < sizeof(data); i++) {
		data[i] = 1;
		CHECK(hash_bytes(1, data, sizeof(data)) != sum);
		uint64_t other = hash_bytes(1, data, sizeof(data));
		data[i] = 0;
		data[(i + 8) % sizeof(data)] = 1;
		CHECK(hash_bytes(1, data, sizeof(data)) != other);
		data[(i + 8) % sizeof(data)] = 0;
	}
}

TESTS(UNIT(a_sum_stays_what_it_is), UNIT(every_byte_its_place_and_the_seed_count))
