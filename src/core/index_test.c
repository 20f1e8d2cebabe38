#include "core/index.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "core/frames.h"
#include "lib/scratch.h"
#include "lib/test.h"

static struct index open_index(const struct scratch *dir)
{
	struct index x = { .fd = -1 };
	struct err err = { 0 };

	if (index_open(&x, dir->fd, "a", true, &err) < 0)
		fail_msg("%s", err.text);
	return x;
}

static struct index_record sample_record(uint64_t seq)
{
	return (struct index_record){
		.kind = FRAME_STDOUT,
		.flags = INDEX_IS_TEXT,
		.size = 100,
		.offset = seq * 100,
		.time_ns = UINT64_C(1700000000000000000) + seq,
	};
}

static void fill(const struct index *x, uint64_t n)
{
	for (uint64_t seq = 1; seq <= n; seq++) {
		struct index_record record = sample_record(seq);

		CHECK_EQ(index_write(x, seq, &record, 1), 0);
	}
}

TEST(records_come_back)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record block[INDEX_BLOCK];

	CHECK_EQ(x.first_seq, 1);
	fill(&x, 300);
	index_fini(&x);
	x = open_index(&dir);
	CHECK_EQ(index_read(&x, 250, block, INDEX_BLOCK), 51);
	for (uint64_t i = 0; i < 51; i++) {
		struct index_record record = sample_record(250 + i);

		CHECK_EQ(block[i].kind, record.kind);
		CHECK_EQ(block[i].flags, record.flags);
		CHECK_EQ(block[i].size, record.size);
		CHECK_EQ(block[i].offset, record.offset);
		CHECK_EQ(block[i].time_ns, record.time_ns);
	}
	CHECK_EQ(index_read(&x, 301, block, INDEX_BLOCK), 0);
	CHECK_EQ(index_read(&x, UINT64_MAX, block, INDEX_BLOCK), 0);
	CHECK_EQ(index_cut(&x, 260), 0);
	CHECK_EQ(index_read(&x, 250, block, INDEX_BLOCK), 11);
	index_fini(&x);
}

TEST(any_changed_bit_is_noticed)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record block[3];
	uint8_t byte;

	fill(&x, 3);
	for (off_t at = 2 * INDEX_RECORD_SIZE; at < 3 * INDEX_RECORD_SIZE; at++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			CHECK_EQ(pread(x.fd, &byte, 1, at), 1);
			byte ^= (uint8_t)(1u << bit);
			CHECK_EQ(pwrite(x.fd, &byte, 1, at), 1);
			CHECK_EQ(index_read(&x, 1, block, 3), 1);
			byte ^= (uint8_t)(1u << bit);
			CHECK_EQ(pwrite(x.fd, &byte, 1, at), 1);
		}
	}
	CHECK_EQ(index_read(&x, 1, block, 3), 3);
	index_fini(&x);
}

TEST(a_record_counts_only_in_its_own_place)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record block[3];
	uint8_t bytes[INDEX_RECORD_SIZE];

	fill(&x, 3);
	CHECK_EQ(pread(x.fd, bytes, sizeof(bytes), 3 * INDEX_RECORD_SIZE), sizeof(bytes));
	CHECK_EQ(pwrite(x.fd, bytes, sizeof(bytes), 2 * INDEX_RECORD_SIZE), sizeof(bytes));
	CHECK_EQ(index_read(&x, 1, block, 3), 1);
	index_fini(&x);
}

TEST(torn_and_zeroed_ends_are_no_records)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record block[4];

	fill(&x, 3);
	CHECK_EQ(ftruncate(x.fd, 3 * INDEX_RECORD_SIZE + 31), 0);
	CHECK_EQ(index_read(&x, 1, block, 4), 2);
	CHECK_EQ(ftruncate(x.fd, 10 * INDEX_RECORD_SIZE), 0);
	CHECK_EQ(index_read(&x, 1, block, 4), 2);
	index_fini(&x);
}

/* Well-made records, but nothing that this program would write. */
TEST(records_beyond_the_limits_are_refused)
{
	static const struct index_record bad[] = {
		{ .kind = 0 },
		{ .kind = FRAME_TRUNCATED + 1 },
		{ .kind = 255 },
		{ .kind = FRAME_STDOUT, .size = FRAMES_CHUNK_MAX + 1 },
		{ .kind = FRAME_EVENT, .size = FRAMES_EVENT_MAX + 1 },
		{ .kind = FRAME_HEARTBEAT, .size = 1 },
		{ .kind = FRAME_STDOUT, .size = 1, .offset = INT64_MAX },
		{ .kind = FRAME_STDOUT, .size = 1, .offset = UINT64_MAX },
	};
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record record;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(index_write(&x, 1, &bad[i], 1), 0);
		CHECK_EQ(index_read(&x, 1, &record, 1), 0);
	}
	index_fini(&x);
}

TEST(a_lost_header_begins_anew_but_a_strange_one_does_not)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record record;
	struct err err = { 0 };

	fill(&x, 3);
	CHECK_EQ(pwrite(x.fd, (char[INDEX_RECORD_SIZE]){ 0 }, INDEX_RECORD_SIZE, 0), 32);
	index_fini(&x);
	CHECK_EQ(index_open(&x, dir.fd, "a", false, &err), -EBADMSG);
	x = open_index(&dir);
	CHECK_EQ(index_read(&x, 1, &record, 1), 0);
	index_fini(&x);
	scratch_write(dir.fd, "index", "this is a text that somebody else has written");
	CHECK_EQ(index_open(&x, dir.fd, "a", true, &err), -EBADMSG);
	CHECK(strstr(err.text, "header"));
	CHECK_EQ(unlinkat(dir.fd, "index", 0), 0);
	CHECK_EQ(index_open(&x, dir.fd, "a", false, &err), -ENOENT);
	CHECK_EQ(mkfifoat(dir.fd, "index", 0600), 0);
	CHECK_EQ(index_open(&x, dir.fd, "a", true, &err), -EBADMSG);
	CHECK_EQ(x.fd, -1);
}

TEST(an_index_of_another_run_has_no_records)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index_record block[3];
	struct err err = { 0 };
	struct stat st;

	fill(&x, 3);
	index_fini(&x);
	CHECK_EQ(index_open(&x, dir.fd, "b", false, &err), 0);
	CHECK(!x.is_sure);
	CHECK_EQ(index_read(&x, 1, block, 3), 0);
	index_fini(&x);
	CHECK_EQ(index_open(&x, dir.fd, "b", true, &err), 0);
	CHECK(!x.is_sure);
	CHECK_EQ(index_read(&x, 1, block, 3), 0);
	CHECK_EQ(fstat(x.fd, &st), 0);
	CHECK_EQ(st.st_size, INDEX_RECORD_SIZE);
	CHECK_EQ(index_assure(&x), 0);
	index_fini(&x);
	CHECK_EQ(index_open(&x, dir.fd, "b", true, &err), 0);
	CHECK(x.is_sure);
	index_fini(&x);
}

/* Who has it in a row knows whose it is. */
TEST(one_that_is_adopted_is_whose_it_says)
{
	SCRATCH(dir);
	struct index x = open_index(&dir);
	struct index adopted = { .fd = -1 };
	struct index_record block[3];
	struct err err = { 0 };

	fill(&x, 3);
	CHECK_EQ(index_adopt(&adopted, x.fd, &err), 0);
	CHECK(adopted.is_sure);
	CHECK_EQ(index_read(&adopted, 1, block, 3), 3);
	index_fini(&x);
}

TEST(a_sum_is_over_every_byte_and_the_owner)
{
	struct index a = { .fd = -1, .owner = 1 };
	struct index b = { .fd = -1, .owner = 2 };
	char text[200];

	for (size_t size = 1; size <= sizeof(text); size++) {
		memset(text, 'x', sizeof(text));
		struct index_record record = { .size = (uint32_t)size };
		record.sum = index_sum(&a, text, size);

		CHECK(index_fits(&a, &record, text));
		CHECK(!index_fits(&b, &record, text));
		CHECK(size == 1 || record.sum != index_sum(&a, text, size - 1));
		for (size_t at = 0; at < size; at++) {
			text[at] ^= 1;
			CHECK(!index_fits(&a, &record, text));
			text[at] ^= 1;
		}
	}
	CHECK_EQ(index_sum(&a, NULL, 0), 0);
}

/* As the first version wrote it: two records of output, with 10 and 7 bytes. */
TEST(the_first_version_is_read_and_continued_as_it_was)
{
	static const uint8_t bytes[3 * INDEX_RECORD_SIZE + 1] =
		"BJINDEX1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xd0\x74\x54\x89\xd8\x32\x2a\x55"
		"\1\1\0\0\12\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		"\x35\x24\xb0\x83\x16\x5e\x8d\x20"
		"\2\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
		"\x78\xb2\xff\x1e\x26\x33\x14\xa2";
	SCRATCH(dir);
	struct index_record block[4];
	struct index_record third = sample_record(3);

	AUTO_FD fd = openat(dir.fd, "index", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_EQ(pwrite(fd, bytes, 3 * INDEX_RECORD_SIZE, 0), 3 * INDEX_RECORD_SIZE);
	struct index x = open_index(&dir);
	CHECK(x.is_old && x.is_sure);
	CHECK_EQ(index_read(&x, 1, block, 4), 2);
	CHECK(block[0].kind == FRAME_STDOUT && block[0].size == 10);
	CHECK(block[1].kind == FRAME_STDERR && block[1].size == 7);
	CHECK(index_fits(&x, &block[0], "0123456789"));
	CHECK_EQ(index_write(&x, 3, &third, 1), 0);
	index_fini(&x);
	x = open_index(&dir);
	CHECK_EQ(index_read(&x, 1, block, 4), 3);
	CHECK_EQ(block[2].size, third.size);
	index_fini(&x);
}

TESTS(UNIT(an_index_of_another_run_has_no_records), UNIT(one_that_is_adopted_is_whose_it_says),
	UNIT(a_sum_is_over_every_byte_and_the_owner),
	UNIT(the_first_version_is_read_and_continued_as_it_was), UNIT(records_come_back),
	UNIT(any_changed_bit_is_noticed), UNIT(a_record_counts_only_in_its_own_place),
	UNIT(torn_and_zeroed_ends_are_no_records), UNIT(records_beyond_the_limits_are_refused),
	UNIT(a_lost_header_begins_anew_but_a_strange_one_does_not))
