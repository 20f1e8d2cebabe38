#include "core/extract.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/test.h"

typedef int format_fn(struct archive *a);

/* An archive of `n` files, "00000000" and so on, each with its name as content. */
static int make_archive(format_fn *format, format_fn *filter, unsigned n)
{
	struct archive *a = archive_write_new();
	int fd = memfd_create("archive", MFD_CLOEXEC);
	char name[16];

	CHECK_EQ(format(a), ARCHIVE_OK);
	CHECK(!filter || filter(a) == ARCHIVE_OK);
	CHECK_EQ(archive_write_open_fd(a, fd), ARCHIVE_OK);
	for (unsigned i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();

		(void)snprintf(name, sizeof(name), "%08u", i);
		archive_entry_set_pathname(e, name);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, i % 2 ? 0755 : 0644);
		archive_entry_set_size(e, 8);
		CHECK_EQ(archive_write_header(a, e), ARCHIVE_OK);
		CHECK_EQ(archive_write_data(a, name, 8), 8);
		archive_entry_free(e);
	}
	CHECK_EQ(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return fd;
}

static struct extract_source source_of(int fd, enum extract_format format)
{
	return (struct extract_source){
		.fd = fd,
		.size = (uint64_t)lseek(fd, 0, SEEK_END),
		.format = format,
		.max_bytes = 64 << 20,
		.max_ratio = 100,
	};
}

/* Read all members; how many there were, or an error. */
static int count(const struct extract_source *s, struct err *err)
{
	CLEANUP(extract_freep) struct extract *x = NULL;
	struct extract_member m;
	int n = 0;
	int r = extract_open(s, &x, err);

	while (r >= 0 && (r = extract_next(x, &m, err)) > 0)
		n++;
	return r < 0 ? r : n;
}

TEST(members_come_in_order)
{
	static format_fn *const formats[] = { archive_write_set_format_pax,
		archive_write_set_format_zip };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		AUTO_FD fd = make_archive(formats[i], NULL, 3);
		struct extract_source s = source_of(fd, (enum extract_format)i);
		CLEANUP(extract_freep) struct extract *x = NULL;
		struct extract_member m;
		const void *data = NULL;
		size_t size = 0;

		CHECK_EQ(extract_open(&s, &x, NULL), 0);
		CHECK_EQ(extract_next(x, &m, NULL), 1);
		CHECK_STR(m.name, "00000000");
		CHECK(!m.is_executable);
		CHECK_EQ(extract_next(x, &m, NULL), 1); /* its content was not read */
		CHECK_STR(m.name, "00000001");
		CHECK(m.is_executable);
		CHECK_EQ(extract_data(x, &data, &size, NULL), 1);
		CHECK_EQ(size, 8);
		CHECK_MEM(data, "00000001", 8);
		CHECK_EQ(extract_data(x, &data, &size, NULL), 0);
		CHECK_EQ(extract_data(x, &data, &size, NULL), 0);
		CHECK_EQ(extract_next(x, &m, NULL), 1);
		CHECK_EQ(extract_next(x, &m, NULL), 0);
		CHECK_EQ(extract_next(x, &m, NULL), 0);
	}
}

TEST(an_archive_may_lie_within_a_file)
{
	static format_fn *const formats[] = { archive_write_set_format_pax,
		archive_write_set_format_zip };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		AUTO_FD fd = make_archive(formats[i], NULL, 3);
		AUTO_FD spool = memfd_create("spool", MFD_CLOEXEC);
		AUTO_FREE char *data = NULL;
		size_t size = 0;

		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK_EQ(fd_read_all(fd, 1 << 20, &data, &size), 0);
		CHECK_EQ(fd_write_full(spool, "PK\5\6 before", 11), 0);
		CHECK_EQ(fd_write_full(spool, data, size), 0);
		CHECK_EQ(fd_write_full(spool, "PK\5\6 behind", 11), 0);
		struct extract_source s = source_of(spool, (enum extract_format)i);
		s.offset = 11;
		s.size = size;
		CHECK_EQ(count(&s, NULL), 3);
		s.size = size + 100; /* more than there is */
		CHECK(count(&s, NULL) < 0);
	}
}

static int gzip_twice(struct archive *a)
{
	int r = archive_write_add_filter_gzip(a);

	return r ? r : archive_write_add_filter_gzip(a);
}

TEST(twice_compressed_is_refused)
{
	AUTO_FD fd = make_archive(archive_write_set_format_pax, gzip_twice, 1);
	struct extract_source s = source_of(fd, EXTRACT_TAR);
	struct err err = { 0 };

	CHECK_EQ(count(&s, &err), -EBADMSG);
	CHECK(strstr(err.text, "more than once"));
}

TEST(filters_we_did_not_ask_for_are_not_tried)
{
	static format_fn *const filters[] = { archive_write_add_filter_compress,
		archive_write_add_filter_uuencode, archive_write_add_filter_b64encode,
		archive_write_add_filter_lzip, archive_write_add_filter_lzma };

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++) {
		AUTO_FD fd = make_archive(archive_write_set_format_pax, filters[i], 1);
		struct extract_source s = source_of(fd, EXTRACT_TAR);

		CHECK_EQ(count(&s, NULL), -EBADMSG);
	}
}

/* libarchive keeps the directory of a zip in memory, whatever is in it. How much it writes itself
 * differs from version to version, but never less than 54 bytes for one of these names. */
TEST(the_directory_of_a_zip_is_limited)
{
	AUTO_FD good = make_archive(archive_write_set_format_zip, NULL, 20000);
	struct extract_source s = source_of(good, EXTRACT_ZIP);

	CHECK_EQ(count(&s, NULL), 20000);
	AUTO_FD bad = make_archive(archive_write_set_format_zip, NULL, 320000);
	s = source_of(bad, EXTRACT_ZIP);
	CHECK_EQ(count(&s, NULL), -EBADMSG);
}

/* One file whose map of holes goes on and on: pax headers, then the map as its content. */
static int make_map_bomb(void)
{
	static const char head[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
				   "29 GNU.sparse.realsize=10000\n20 GNU.sparse.name=x\n";
	int fd = memfd_create("archive", MFD_CLOEXEC);
	char block[512] = "";
	const size_t size = 32 << 20;

	/* A header of type "x", and one of a file behind it. */
	for (int i = 0; i < 2; i++) {
		unsigned sum = 0;

		memset(block, 0, sizeof(block));
		(void)snprintf(block, 100, "x");
		(void)snprintf(block + 100, 8, "0000644");
		(void)snprintf(
			block + 124, 12, "%011o", (unsigned)(i == 0 ? sizeof(head) - 1 : size));
		memset(block + 148, ' ', 8);
		block[156] = i == 0 ? 'x' : '0';
		memcpy(block + 257, "ustar\00000", 8);
		for (size_t j = 0; j < sizeof(block); j++)
			sum += (unsigned char)block[j];
		(void)snprintf(block + 148, 8, "%06o", sum);
		CHECK_EQ(fd_write_full(fd, block, sizeof(block)), 0);
		memset(block, 0, sizeof(block));
		memcpy(block, head, sizeof(head) - 1);
		if (i == 0)
			CHECK_EQ(fd_write_full(fd, block, sizeof(block)), 0);
	}
	CHECK_EQ(fd_write_full(fd, "8000000\n", 8), 0);
	for (size_t i = 0; i < 256; i++)
		memcpy(block + 2 * i, "0\n", 2);
	for (size_t i = 0; i < size / sizeof(block); i++)
		CHECK_EQ(fd_write_full(fd, block, sizeof(block)), 0);
	return fd;
}

TEST(the_map_of_holes_is_limited)
{
	AUTO_FD fd = make_map_bomb();
	struct extract_source s = source_of(fd, EXTRACT_TAR);
	struct rusage before, after;
	struct err err = { 0 };

	(void)getrusage(RUSAGE_SELF, &before);
	CHECK_EQ(count(&s, &err), -EBADMSG);
	(void)getrusage(RUSAGE_SELF, &after);
	CHECK(after.ru_maxrss - before.ru_maxrss < 200 << 10);
}

TEST(the_locale_is_put_back)
{
	locale_t mine = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	locale_t before = uselocale(mine);
	AUTO_FD fd = make_archive(archive_write_set_format_zip, NULL, 1);
	struct extract_source s = source_of(fd, EXTRACT_ZIP);

	CHECK_EQ(count(&s, NULL), 1);
	s.format = EXTRACT_TAR;
	CHECK(count(&s, NULL) < 0);
	CHECK(uselocale((locale_t)0) == mine);
	(void)uselocale(before);
	freelocale(mine);
}

TESTS(UNIT(members_come_in_order), UNIT(an_archive_may_lie_within_a_file),
	UNIT(twice_compressed_is_refused), UNIT(filters_we_did_not_ask_for_are_not_tried),
	UNIT(the_directory_of_a_zip_is_limited), UNIT(the_map_of_holes_is_limited),
	UNIT(the_locale_is_put_back))
