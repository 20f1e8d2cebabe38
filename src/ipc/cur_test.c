#include "ipc/cur.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

TEST(what_is_put_is_read_back)
{
	struct put p;
	struct cur c;
	char into[6];

	put_init(&p, 1024);
	put_u8(&p, 0xfe);
	put_u32(&p, 0xdeadbeef);
	put_u64(&p, UINT64_MAX - 1);
	put_u64(&p, 100);
	put_str(&p, "hello");
	put_str(&p, "");
	put_str(&p, "hello");
	put_bytes(&p, "xy", 2);
	CHECK_EQ(put_end(&p), 0);
	cur_init(&c, p.data, p.size);
	CHECK_EQ(cur_u8(&c), 0xfe);
	CHECK_EQ(cur_u32(&c), 0xdeadbeef);
	CHECK(cur_u64(&c) == UINT64_MAX - 1);
	CHECK_EQ(cur_u64_max(&c, 100), 100);
	AUTO_FREE char *text = cur_str(&c, 5);
	CHECK_STR(text, "hello");
	AUTO_FREE char *empty = cur_str(&c, 0);
	CHECK_STR(empty, "");
	cur_str_into(&c, into, sizeof(into));
	CHECK_STR(into, "hello");
	CHECK_EQ(cur_end(&c), -EBADMSG); /* two bytes are left */
	CHECK_EQ(cur_u8(&c), 'x');
	CHECK_EQ(cur_u8(&c), 'y');
	CHECK_EQ(cur_end(&c), 0);
	put_fini(&p);
}

TEST(the_wire_is_little_endian)
{
	static const uint8_t wire[] = { 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 'a' };
	struct put p;

	put_init(&p, 64);
	put_u32(&p, 0x01020304);
	put_u64(&p, UINT64_C(0x0102030405060708));
	put_str(&p, "a");
	CHECK_EQ(p.size, sizeof(wire));
	CHECK_MEM(p.data, wire, sizeof(wire));
	put_fini(&p);
}

/* Every prefix of a message is bad, and reading on gives zeros and no crash. */
TEST(a_cut_message_poisons)
{
	struct put p;

	put_init(&p, 64);
	put_u8(&p, 1);
	put_u32(&p, 2);
	put_u64(&p, 3);
	put_str(&p, "four");
	for (size_t n = 0; n < p.size; n++) {
		struct cur c;
		char into[8] = "before";

		cur_init(&c, p.data, n);
		(void)cur_u8(&c);
		(void)cur_u32(&c);
		(void)cur_u64(&c);
		cur_str_into(&c, into, sizeof(into));
		CHECK_STR(into, "");
		CHECK(cur_str(&c, 100) == NULL);
		CHECK_EQ(cur_u8(&c), 0);
		CHECK_EQ(cur_u32(&c), 0);
		CHECK(cur_u64(&c) == 0);
		CHECK_EQ(cur_end(&c), -EBADMSG);
	}
	put_fini(&p);
}

TEST(numbers_and_strings_have_limits)
{
	struct put p;
	struct cur c;
	char into[4] = "abc";

	put_init(&p, 64);
	put_u64(&p, 101);
	put_str(&p, "four");
	cur_init(&c, p.data, p.size);
	CHECK_EQ(cur_u64_max(&c, 100), 0);
	CHECK_EQ(cur_end(&c), -EBADMSG);
	cur_init(&c, p.data, p.size);
	(void)cur_u64(&c);
	CHECK(cur_str(&c, 3) == NULL);
	CHECK_EQ(cur_end(&c), -EBADMSG);
	cur_init(&c, p.data, p.size);
	(void)cur_u64(&c);
	cur_str_into(&c, into, sizeof(into));
	CHECK_STR(into, "");
	CHECK_EQ(cur_end(&c), -EBADMSG);
	put_fini(&p);
}

TEST(a_length_beyond_the_message_is_refused_before_memory_is_asked_for)
{
	static const uint8_t wire[] = { 0xff, 0xff, 0xff, 0xff, 'a' };
	struct cur c;

	cur_init(&c, wire, sizeof(wire));
	CHECK(cur_str(&c, SIZE_MAX) == NULL);
	CHECK_EQ(cur_end(&c), -EBADMSG);
}

TEST(no_string_hides_a_nul)
{
	static const uint8_t wire[] = { 3, 0, 0, 0, 'a', 0, 'b' };
	struct cur c;
	char into[8];

	cur_init(&c, wire, sizeof(wire));
	CHECK(cur_str(&c, 8) == NULL);
	CHECK_EQ(cur_end(&c), -EBADMSG);
	cur_init(&c, wire, sizeof(wire));
	cur_str_into(&c, into, sizeof(into));
	CHECK_STR(into, "");
	CHECK_EQ(cur_end(&c), -EBADMSG);
}

TEST(a_writer_grows_to_its_limit_and_no_further)
{
	struct put p;

	put_init(&p, 1000);
	for (int i = 0; i < 250; i++)
		put_u32(&p, (uint32_t)i);
	CHECK_EQ(put_end(&p), 0);
	CHECK_EQ(p.size, 1000);
	put_u8(&p, 1);
	CHECK_EQ(put_end(&p), -E2BIG);
	CHECK_EQ(p.size, 1000);
	for (uint32_t i = 0; i < 250; i++) {
		struct cur c;

		cur_init(&c, p.data + 4 * i, 4);
		CHECK_EQ(cur_u32(&c), i);
	}
	put_fini(&p);
	CHECK(p.data == NULL);
	/* Nothing goes in once something did not, even if it would fit. */
	put_init(&p, 8);
	put_str(&p, "too long");
	put_u8(&p, 1);
	CHECK_EQ(put_end(&p), -E2BIG);
	put_fini(&p);
}

TEST(a_bool_is_0_or_1)
{
	static const uint8_t wire[] = { 0, 1, 2 };
	struct cur c;

	cur_init(&c, wire, 2);
	CHECK(!cur_bool(&c));
	CHECK(cur_bool(&c));
	CHECK_EQ(cur_end(&c), 0);
	cur_init(&c, wire + 2, 1);
	CHECK(!cur_bool(&c));
	CHECK_EQ(cur_end(&c), -EBADMSG);
}

TESTS(UNIT(a_bool_is_0_or_1), UNIT(what_is_put_is_read_back), UNIT(the_wire_is_little_endian),
	UNIT(a_cut_message_poisons), UNIT(numbers_and_strings_have_limits),
	UNIT(a_length_beyond_the_message_is_refused_before_memory_is_asked_for),
	UNIT(no_string_hides_a_nul), UNIT(a_writer_grows_to_its_limit_and_no_further))
