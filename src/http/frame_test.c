#include "http/frame.h"

#include <errno.h>
#include <string.h>

#include "lib/test.h"

/* From RFC 6455: the masked text "Hello". */
static const char hello[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";

TEST(a_frame_is_read_byte_by_byte)
{
	struct frame f = { 0 };
	char out[8] = "";
	size_t at = 0;

	while (!f.is_read) {
		CHECK_EQ(frame_read_head(&f, hello + at, 1, false), 1);
		at++;
	}
	CHECK_EQ(at, 6);
	CHECK_EQ(f.opcode, FRAME_TEXT);
	CHECK(f.is_final);
	CHECK_EQ(f.left, 5);
	for (size_t i = 0; i < 5; i++)
		CHECK_EQ(frame_read_payload(&f, hello + at + i, 1, out + i), 1);
	CHECK_STR(out, "Hello");
	CHECK_EQ(f.left, 0);
}

static int read_head(const char *bytes, size_t size, bool in_message, struct frame *ret)
{
	*ret = (struct frame){ 0 };
	return frame_read_head(ret, bytes, size, in_message);
}

TEST(sizes_are_read_in_their_shortest_form_only)
{
	struct frame f;

	CHECK_EQ(read_head("\x82\xfe\x01\x00mask", 8, false, &f), 8);
	CHECK_EQ(f.left, 256);
	CHECK_EQ(read_head("\x82\xff\0\0\0\0\0\1\0\0mask", 14, false, &f), 14);
	CHECK_EQ(f.left, 65536);
	CHECK_EQ(read_head("\x82\xfe\0\x7dmask", 8, false, &f), -FRAME_CODE_PROTOCOL);
	CHECK_EQ(
		read_head("\x82\xff\0\0\0\0\0\0\xff\xffmask", 14, false, &f), -FRAME_CODE_PROTOCOL);
	CHECK_EQ(read_head("\x82\xff\x80\0\0\0\0\0\0\0mask", 14, false, &f), -FRAME_CODE_PROTOCOL);
}

TEST(rules_are_kept)
{
	static const struct {
		const char *bytes;
		bool in_message;
		int want;
	} cases[] = {
		{ "\x81\x05", false, -FRAME_CODE_PROTOCOL }, /* no mask */
		{ "\xc1\x85", false, -FRAME_CODE_PROTOCOL }, /* a reserved bit */
		{ "\x83\x85", false, -FRAME_CODE_PROTOCOL }, /* an unknown opcode */
		{ "\x8b\x85", false, -FRAME_CODE_PROTOCOL },
		{ "\x09\x85", false, -FRAME_CODE_PROTOCOL },      /* a ping in pieces */
		{ "\x89\xfe", false, -FRAME_CODE_PROTOCOL },      /* a long ping */
		{ "\x80\x85", false, -FRAME_CODE_PROTOCOL },      /* continues nothing */
		{ "\x81\x85", true, -FRAME_CODE_PROTOCOL },       /* begins within a message */
		{ "\x80\x85", true, 2 }, { "\x89\x85", true, 2 }, /* a ping may come between */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame f;

		print_message("%zu\n", i);
		CHECK_EQ(read_head(cases[i].bytes, 2, cases[i].in_message, &f), cases[i].want);
	}
}

TEST(heads_are_written_before_their_payload)
{
	unsigned char out[FRAME_OUT_MAX];

	CHECK_EQ(frame_write_head(FRAME_TEXT, 5, out + FRAME_OUT_MAX), 2);
	CHECK_MEM(out + FRAME_OUT_MAX - 2, "\x81\x05", 2);
	CHECK_EQ(frame_write_head(FRAME_PING, 125, out + FRAME_OUT_MAX), 2);
	CHECK_MEM(out + FRAME_OUT_MAX - 2, "\x89\x7d", 2);
	CHECK_EQ(frame_write_head(FRAME_TEXT, 126, out + FRAME_OUT_MAX), 4);
	CHECK_MEM(out + FRAME_OUT_MAX - 4, "\x81\x7e\x00\x7e", 4);
	CHECK_EQ(frame_write_head(FRAME_TEXT, 65535, out + FRAME_OUT_MAX), 4);
	CHECK_EQ(frame_write_head(FRAME_TEXT, 65536, out + FRAME_OUT_MAX), 10);
	CHECK_MEM(out, "\x81\x7f\0\0\0\0\0\1\0\0", 10);
}

TEST(the_key_is_answered)
{
	char accept[FRAME_ACCEPT_SIZE];

	CHECK_EQ(frame_accept_key("dGhlIHNhbXBsZSBub25jZQ==", accept), 0);
	CHECK_STR(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	CHECK_EQ(frame_accept_key("", accept), -EBADMSG);
	CHECK_EQ(frame_accept_key("dGhlIHNhbXBsZSBub25jZQ=", accept), -EBADMSG);
	CHECK_EQ(frame_accept_key("dGhlIHNhbXBsZSBub25jZQA=", accept), -EBADMSG);
	CHECK_EQ(frame_accept_key("dGhlIHNhbXBsZSBub25j****", accept), -EBADMSG);
	CHECK_EQ(frame_accept_key("dGh!IHNhbXBsZSBub25jZQ==", accept), -EBADMSG);
}

TEST(codes_of_a_close_are_checked)
{
	static const unsigned good[] = { 1000, 1001, 1002, 1003, 1007, 1011, 1012, 3000, 4999 };
	static const unsigned wrong[] = { 0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535 };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(frame_is_valid_code(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK(!frame_is_valid_code(wrong[i]));
}

TEST(text_is_checked)
{
	static const char *const good[] = { "", "plain", "\xc3\xa9", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf", "\xc2\x80" };
	static const char *const wrong[] = { "\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80",
		"\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
		"a\xe2\x82", "\xe2\x28\xa1" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK(frame_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK(!frame_is_utf8(wrong[i], strlen(wrong[i])));
}

TESTS(UNIT(a_frame_is_read_byte_by_byte), UNIT(sizes_are_read_in_their_shortest_form_only),
	UNIT(rules_are_kept), UNIT(heads_are_written_before_their_payload),
	UNIT(the_key_is_answered), UNIT(codes_of_a_close_are_checked), UNIT(text_is_checked))
