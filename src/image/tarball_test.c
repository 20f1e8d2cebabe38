#include "image/tarball.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "image/budget.h"
#include "image/sample.h"
#include "lib/test.h"

static const struct sample_entry entries[] = {
	{ "a", S_IFREG | 0644, "hello" },
	{ "b", S_IFREG | 0644, "skipped content" },
	{ "d", S_IFDIR | 0755, NULL },
	{ 0 },
};

/* Read all of `data`, with `max` bytes of budget; the number of entries. */
static int read_all(
	const struct sample_data *data, uint64_t max, char raw[65], char plain[65], struct err *err)
{
	CLEANUP(tarball_freep) struct tarball *s = NULL;
	AUTO_FD fd = sample_open(data->data, data->size);
	struct archive_entry *entry;
	struct budget budget;
	int n = 0;
	int r;

	budget_init(&budget, max, fd);
	r = tarball_open(fd, &budget, &s, err);
	if (r < 0)
		return r;
	while ((r = tarball_next(s, &entry, err)) > 0)
		n++;
	if (r == 0)
		r = tarball_end(s, raw, plain, err);
	return r < 0 ? r : n;
}

TEST(both_digests_are_told)
{
	SAMPLE_DATA plain = sample_tar(entries, false);
	SAMPLE_DATA packed = sample_tar(entries, true);
	char raw_hex[65];
	char plain_hex[65];
	char wanted[65];

	CHECK_EQ(read_all(&plain, 1 << 20, raw_hex, plain_hex, NULL), 3);
	digest_of(plain.data, plain.size, wanted);
	CHECK_STR(raw_hex, wanted);
	CHECK_STR(plain_hex, wanted);
	CHECK_EQ(read_all(&packed, 1 << 20, raw_hex, plain_hex, NULL), 3);
	CHECK_STR(plain_hex, wanted);
	digest_of(packed.data, packed.size, wanted);
	CHECK_STR(raw_hex, wanted);
}

TEST(bytes_behind_the_archive_belong_to_the_digest)
{
	SAMPLE_DATA plain = sample_tar(entries, false);
	char raw_hex[65];
	char plain_hex[65];
	char wanted[65];

	memcpy(plain.data + plain.size, "tail", 4);
	plain.size += 4;
	CHECK_EQ(read_all(&plain, 1 << 20, raw_hex, plain_hex, NULL), 3);
	digest_of(plain.data, plain.size, wanted);
	CHECK_STR(raw_hex, wanted);
}

TEST(the_budget_stops_it)
{
	SAMPLE_DATA plain = sample_tar(entries, false);
	SAMPLE_DATA packed = sample_tar(entries, true);
	char raw_hex[65];
	char plain_hex[65];
	struct err err = { 0 };

	CHECK_EQ(read_all(&plain, 1024, raw_hex, plain_hex, &err), -EFBIG);
	CHECK(strstr(err.text, "the archive is larger than 1024"));
	CHECK(packed.size < 1024 * 11);
	CHECK_EQ(read_all(&packed, packed.size, raw_hex, plain_hex, &err), -EFBIG);
	CHECK(strstr(err.text, "the uncompressed archive"));
}

TEST(what_is_no_archive_is_refused)
{
	static const char *const bad[] = { "", "hello", "PK\x03\x04zip", "\x1f\x8bnot gzip" };
	char raw_hex[65];
	char plain_hex[65];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sample_data data = { .data = xstrdup(bad[i]), .size = strlen(bad[i]) };
		struct err err = { 0 };

		CHECK_EQ(read_all(&data, 1 << 20, raw_hex, plain_hex, &err), -EBADMSG);
		CHECK(strstr(err.text, "not a good tar archive"));
		free(data.data);
	}
}

TEST(an_archive_that_ends_early_is_refused)
{
	SAMPLE_DATA plain = sample_tar(entries, false);
	char raw_hex[65];
	char plain_hex[65];

	plain.size = 700;
	CHECK_EQ(read_all(&plain, 1 << 20, raw_hex, plain_hex, NULL), -EBADMSG);
}

TESTS(UNIT(both_digests_are_told), UNIT(bytes_behind_the_archive_belong_to_the_digest),
	UNIT(the_budget_stops_it), UNIT(what_is_no_archive_is_refused),
	UNIT(an_archive_that_ends_early_is_refused))
