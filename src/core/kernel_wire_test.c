#include "core/kernel_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ipc/cur.h"
#include "lib/test.h"

static const char png[] = "\x89PNG\r\n\x1a\n...";

/* Frames and fields have the form in which a text travels, behind a byte. */
static void add(struct put *p, char kind, const char *data, size_t size)
{
	put_u8(p, (uint8_t)kind);
	put_u32(p, (uint32_t)size);
	put_bytes(p, data, size);
}

static void add_text(struct put *p, char kind, const char *text)
{
	add(p, kind, text, strlen(text));
}

/* All of it in pieces of `step`: the last word, or the first that is wrong. */
static int feed(struct kernel_reader *r, const struct put *p, size_t step)
{
	int word = KERNEL_WORD_NONE;

	for (size_t at = 0; at < p->size && word >= 0;) {
		size_t n = p->size - at < step ? p->size - at : step;
		size_t taken = 0;

		word = kernel_reader_feed(r, p->data + at, n, &taken);
		at += taken;
	}
	return word;
}

TEST(a_reply_is_read_in_pieces_of_any_size)
{
	for (size_t step = 1; step < 200; step += 11) {
		CLEANUP(kernel_reader_fini) struct kernel_reader r = { 0 };
		CLEANUP(put_fini) struct put frames;
		CLEANUP(put_fini) struct put done;

		put_init(&frames, 1 << 20);
		put_init(&done, 1 << 20);
		add_text(&frames, 'R', "3.11.2");
		add(&frames, 'I', png, sizeof(png));
		add_text(&done, 'o', "error");
		add_text(&done, 'n', "17");
		add_text(&done, 'r', "h\xc3\xa4");
		add_text(&done, 't', "Traceback");
		add_text(&done, 'c', "9000000000");
		add_text(&done, 'i', "3");
		add_text(&done, 'u', "123456");
		add(&done, 'L', "E\1\0\0\0\0", 6);
		add(&frames, 'D', (const char *)done.data, done.size);
		CHECK_EQ(feed(&r, &frames, step), KERNEL_WORD_DONE);
		CHECK_EQ(r.reply.outcome, KERNEL_ERROR);
		CHECK_EQ(r.reply.number, 17);
		CHECK_STR(r.reply.result.data, "h\xc3\xa4");
		CHECK_STR(r.reply.traceback.data, "Traceback");
		CHECK_EQ(r.reply.uncut_size, UINT64_C(9000000000));
		CHECK(r.reply.error.data == NULL);
		CHECK_EQ(r.reply.n_images, 1);
		CHECK_EQ(r.reply.images[0].size, sizeof(png));
		CHECK_STR(r.reply.images[0].mime, "image/png");
		CHECK_EQ(r.reply.n_images_cut, 3);
		CHECK_EQ(r.reply.cpu_us, 123456);
		CHECK(r.reply.has_listing && r.reply.listing.is_cut);
	}
}

static void check_refused(const struct put *frames)
{
	CLEANUP(kernel_reader_fini) struct kernel_reader r = { 0 };
	size_t taken = 0;

	CHECK_EQ(feed(&r, frames, 4096), -EBADMSG);
	CHECK_EQ(kernel_reader_feed(&r, (const uint8_t *)"R", 1, &taken), -EBADMSG);
}

static void check_done_refused(char kind, const char *data, size_t size)
{
	CLEANUP(put_fini) struct put frames;
	CLEANUP(put_fini) struct put done;

	put_init(&frames, 1 << 20);
	put_init(&done, 1 << 20);
	add_text(&done, 'n', "1");
	add(&done, kind, data, size);
	add(&frames, 'D', (const char *)done.data, done.size);
	check_refused(&frames);
}

TEST(nonsense_is_refused)
{
	check_done_refused('o', "died", 4);
	check_done_refused('o', "", 0);
	check_done_refused('n', "0x1", 3);
	check_done_refused('n', "0", 1);
	check_done_refused('n', "99999999999999999999", 20);
	check_done_refused('c', "-1", 2);
	check_done_refused('c', "99999999999999999999999999", 26);
	check_done_refused('r', "\xff", 1);
	check_done_refused('r', "a\0b", 3);
	check_done_refused('L', "nonsense", 8);
	check_done_refused('X', "", 0);
	check_done_refused('r', "\0\0\0\0r\377\377\377\377", 10);
}

TEST(a_field_that_ends_behind_its_frame_is_refused)
{
	CLEANUP(put_fini) struct put frames;

	put_init(&frames, 1 << 20);
	add(&frames, 'D', "r\5\0\0\0abcd", 9);
	check_refused(&frames);
	frames.size = 0;
	add(&frames, 'D', "r\5\0", 3);
	check_refused(&frames);
	frames.size = 0;
	add(&frames, 'D', "", 0); /* of which piece? */
	check_refused(&frames);
}

TEST(every_limit_holds)
{
	static const struct {
		char kind;
		uint32_t size;
	} cases[] = { { 'R', KERNEL_READY_MAX + 1 }, { 'I', KERNEL_IMAGE_MAX + 1 },
		{ 'D', KERNEL_DONE_MAX + 1 }, { 'D', UINT32_MAX }, { 'Z', 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(put_fini) struct put frames;

		put_init(&frames, 64);
		put_u8(&frames, (uint8_t)cases[i].kind);
		put_u32(&frames, cases[i].size);
		check_refused(&frames);
	}
}

TEST(images_are_few_and_begin_as_such)
{
	CLEANUP(kernel_reader_fini) struct kernel_reader r = { 0 };
	CLEANUP(put_fini) struct put one;
	CLEANUP(put_fini) struct put other;

	put_init(&one, 100);
	put_init(&other, 100);
	add(&one, 'I', png, sizeof(png));
	for (unsigned i = 0; i < KERNEL_IMAGES_MAX; i++)
		CHECK_EQ(feed(&r, &one, 7), KERNEL_WORD_NONE);
	CHECK_EQ(feed(&r, &one, 7), -EBADMSG);
	add_text(&other, 'I', "<svg onload=...>");
	check_refused(&other);
	kernel_reader_fini(&r);
	put_fini(&other);
	put_init(&other, 100);
	add_text(&other, 'I', "\xff\xd8\xff...");
	CHECK_EQ(feed(&r, &other, 7), KERNEL_WORD_NONE);
	CHECK_STR(r.reply.images[0].mime, "image/jpeg");
}

TEST(images_are_limited_together)
{
	CLEANUP(kernel_reader_fini) struct kernel_reader r = { 0 };
	CLEANUP(put_fini) struct put half;
	size_t size = KERNEL_IMAGE_MAX / 2;
	AUTO_FREE char *image = xcalloc(1, size);

	put_init(&half, size + 100);
	memcpy(image, png, sizeof(png));
	add(&half, 'I', image, size);
	CHECK_EQ(feed(&r, &half, 65536), KERNEL_WORD_NONE);
	CHECK_EQ(feed(&r, &half, 65536), KERNEL_WORD_NONE);
	CHECK_EQ(feed(&r, &half, 65536), -EBADMSG);
}

TESTS(UNIT(a_reply_is_read_in_pieces_of_any_size), UNIT(nonsense_is_refused),
	UNIT(a_field_that_ends_behind_its_frame_is_refused), UNIT(every_limit_holds),
	UNIT(images_are_few_and_begin_as_such), UNIT(images_are_limited_together))
