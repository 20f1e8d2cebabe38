#include "core/upload.h"

#include <errno.h>

#include "core/archive_sample.h"
#include "lib/pack_room.h"
#include "lib/test.h"

static const struct upload_limits wide = {
	.max_bytes = 16 << 20,
	.max_files = 1000,
	.max_depth = 10,
	.max_ratio = 100,
};

static struct upload_source source_of(int fd, const char *name)
{
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	return (struct upload_source){ .fd = fd, .size = (uint64_t)st.st_size, .name = name };
}

/* Upload one source into `room`; the caller looks at what came. */
static int pack_one(struct pack_room *room, int fd, const char *name,
	const struct upload_limits *limits, struct upload_result *ret, struct err *err)
{
	struct upload_source source = source_of(fd, name);
	int r = upload_pack(&source, 1, limits, &room->writer, ret, err);

	if (r == 0)
		r = pack_write_end(&room->writer, err);
	int unpacked = pack_room_close(room);
	CHECK_EQ(unpacked, r == 0 ? 0 : -EBADMSG);
	if (r < 0)
		CHECK_EQ(room->n_bytes, 0); /* refused before a byte was sent */
	return r;
}

static int text_fd(const char *text, size_t size)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, text, size), 0);
	return fd;
}

/* --- what is stored --- */

TEST(plain_files_are_stored_by_name)
{
	PACK_ROOM(room);
	AUTO_FD fd = text_fd("..hello, world", 14);
	struct upload_result result = { 0 };
	struct err err = { 0 };
	struct upload_source sources[] = {
		{ .fd = fd, .offset = 2, .size = 5, .name = "a.txt" },
		{ .fd = fd, .offset = 9, .size = 5, .name = "./dir/b.tar", .kind = UPLOAD_PLAIN },
		{ .fd = fd, .size = 1, .name = "/etc/passwd" },
		{ .fd = fd, .size = 1, .name = "../x" },
		{ .fd = fd, .size = 1, .name = "a/../../x" },
		{ .fd = fd, .size = 1, .name = "..\\x" },
		{ .fd = fd, .size = 1, .name = "" },
		{ .fd = fd, .size = 1, .name = "dir/" },
		{ .fd = fd, .size = 1, .name = "." },
		{ .fd = fd, .size = 1, .name = NULL },
		{ .fd = fd, .size = 0, .name = "empty" },
	};

	CHECK_EQ(upload_pack(sources, ARRAY_SIZE(sources), &wide, &room.writer, &result, &err), 0);
	CHECK_EQ(pack_write_end(&room.writer, NULL), 0);
	CHECK_EQ(pack_room_close(&room), 0);
	CHECK_EQ(result.n_files, 3);
	CHECK_EQ(result.n_bytes, 10);
	CHECK_EQ(result.n_skipped, 8);
	CHECK(scratch_holds(room.dir.fd, "a.txt", "hello"));
	CHECK(scratch_holds(room.dir.fd, "dir/b.tar", "world"));
	CHECK(scratch_holds(room.dir.fd, "empty", ""));
}

static const struct member tree[] = {
	{ "./", NULL, AE_IFDIR, 0700 },
	{ "./src/", NULL, AE_IFDIR, 0700 },
	{ "./src/main.c", "int main;", 0, 0600 },
	{ "run.sh", "#!/bin/sh", 0, 04711 },
	{ "empty/dir/", NULL, AE_IFDIR },
	{ "gr\xc3\xbc\xc3\x9f"
	  "e.txt",
		"hallo" },
	{ NULL },
};

static void check_tree(int dir_fd, const struct upload_result *result)
{
	struct stat st;

	CHECK_EQ(result->n_files, 3);
	CHECK_EQ(result->n_bytes, 9 + 9 + 5);
	CHECK_EQ(result->n_skipped, 0);
	CHECK_EQ(result->n_corrupt, 0);
	CHECK(scratch_holds(dir_fd, "src/main.c", "int main;"));
	CHECK(scratch_holds(dir_fd,
		"gr\xc3\xbc\xc3\x9f"
		"e.txt",
		"hallo"));
	CHECK(scratch_has(dir_fd, "empty/dir"));
	CHECK_EQ(fstatat(dir_fd, "run.sh", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0755);
	CHECK_EQ(fstatat(dir_fd, "src/main.c", &st, 0), 0);
	CHECK_EQ(st.st_mode & 07777, 0644);
}

static int format_zip_stored(struct archive *a)
{
	int r = archive_write_set_format_zip(a);

	return r ? r : archive_write_zip_set_compression_store(a);
}

static int format_zip64(struct archive *a)
{
	int r = archive_write_set_format_zip(a);

	return r ? r : archive_write_set_format_option(a, "zip", "zip64", "1");
}

TEST(archives_of_every_kind_are_unpacked)
{
	static const struct {
		const char *name;
		format_fn *format;
		format_fn *filter;
	} rows[] = {
		{ "a.tar", archive_write_set_format_ustar, NULL },
		{ "a.tar", archive_write_set_format_pax, NULL },
		{ "a.tar", archive_write_set_format_gnutar, NULL },
		{ "a.tar", archive_write_set_format_v7tar, NULL },
		{ "a.tar.gz", archive_write_set_format_pax, archive_write_add_filter_gzip },
		{ "a.tgz", archive_write_set_format_pax, archive_write_add_filter_gzip },
		{ "a.tar.bz2", archive_write_set_format_pax, archive_write_add_filter_bzip2 },
		{ "a.tar.xz", archive_write_set_format_pax, archive_write_add_filter_xz },
		{ "a.tar.zst", archive_write_set_format_pax, archive_write_add_filter_zstd },
		{ "a.zip", archive_write_set_format_zip, NULL },
		{ "a.zip", format_zip_stored, NULL },
		{ "a.zip", format_zip64, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		PACK_ROOM(room);
		AUTO_FD fd = make_archive(rows[i].format, rows[i].filter, tree);
		struct upload_result result = { 0 };
		struct err err = { 0 };

		if (pack_one(&room, fd, rows[i].name, &wide, &result, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		check_tree(room.dir.fd, &result);
	}
}

TEST(what_is_unsafe_is_skipped)
{
	static const struct member members[] = {
		{ "/etc/passwd", "x" },
		{ "../escape", "x" },
		{ "a/../../escape", "x" },
		{ "a\\..\\escape", "x" },
		{ "C:\\escape", "x" },
		{ "link", NULL, AE_IFLNK, 0, "/etc/passwd" },
		{ "inner", NULL, AE_IFLNK, 0, "good" },
		{ "hard", NULL, AE_IFREG, 0, NULL, "/etc/passwd" },
		{ "fifo", NULL, AE_IFIFO },
		{ "good", "good" },
		{ "link/below", "is a directory" },
		{ NULL },
	};
	PACK_ROOM(room);
	AUTO_FD fd = make_archive(archive_write_set_format_gnutar, NULL, members);
	struct upload_result result = { 0 };

	CHECK_EQ(pack_one(&room, fd, "a.tar", &wide, &result, NULL), 0);
	CHECK_EQ(result.n_files, 2);
	CHECK_EQ(result.n_skipped, 9);
	CHECK(scratch_holds(room.dir.fd, "good", "good"));
	CHECK(scratch_holds(room.dir.fd, "link/below", "is a directory"));
	CHECK(!scratch_has(room.dir.fd, "inner"));
}

TEST(links_in_a_zip_are_skipped)
{
	static const struct member members[] = {
		{ "link", NULL, AE_IFLNK, 0, "/etc/passwd" },
		{ "../escape", "x" },
		{ "good", "good" },
		{ NULL },
	};
	PACK_ROOM(room);
	AUTO_FD fd = make_archive(archive_write_set_format_zip, NULL, members);
	struct upload_result result = { 0 };

	CHECK_EQ(pack_one(&room, fd, "a.ZIP", &wide, &result, NULL), 0);
	CHECK_EQ(result.n_files, 1);
	CHECK_EQ(result.n_skipped, 2);
	CHECK(!scratch_has(room.dir.fd, "link"));
}

TEST(the_last_of_a_name_wins)
{
	static const struct member members[] = {
		{ "a", "first" },
		{ "b", "file" },
		{ "b/c", "below a file" },
		{ "./a", "last" },
		{ NULL },
	};
	PACK_ROOM(room);
	AUTO_FD fd = make_archive(archive_write_set_format_pax, NULL, members);
	struct upload_result result = { 0 };

	CHECK_EQ(pack_one(&room, fd, "a.tar", &wide, &result, NULL), 0);
	CHECK_EQ(result.n_files, 2);
	CHECK_EQ(result.n_bytes, 8);
	CHECK_EQ(result.n_skipped, 1);
	CHECK(scratch_holds(room.dir.fd, "a", "last"));
	CHECK(scratch_holds(room.dir.fd, "b", "file"));
}

static const struct member long_names[] = {
	{ "0123456789012345678901234567890123456789012345678901234567890123456789/"
	  "0123456789012345678901234567890123456789012345678901234567890123456789/"
	  "0123456789012345678901234567890123456789012345678901234567890123456789/x",
		"far" },
	{ NULL },
};

TEST(long_names_come_whole)
{
	static format_fn *const formats[] = { archive_write_set_format_pax,
		archive_write_set_format_gnutar, archive_write_set_format_zip };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		PACK_ROOM(room);
		AUTO_FD fd = make_archive(formats[i], NULL, long_names);
		struct upload_result result = { 0 };

		CHECK_EQ(pack_one(&room, fd, i == 2 ? "a.zip" : "a.tar", &wide, &result, NULL), 0);
		CHECK_EQ(result.n_files, 1);
		CHECK(scratch_holds(room.dir.fd, long_names[0].name, "far"));
	}
}

/* A file of `size` bytes with five in the middle, the rest holes. */
static int make_sparse(uint64_t size)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	int fd = memfd_create("archive", MFD_CLOEXEC);

	CHECK_EQ(archive_write_set_format_pax(a), ARCHIVE_OK);
	CHECK_EQ(archive_write_open_fd(a, fd), ARCHIVE_OK);
	archive_entry_set_pathname(e, "sparse");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)size);
	archive_entry_sparse_add_entry(e, 100000, 5);
	CHECK_EQ(archive_write_header(a, e), ARCHIVE_OK);
	AUTO_FREE char *data = calloc(1, 100005);
	memcpy(data + 100000, "hello", 5);
	CHECK(archive_write_data(a, data, 100005) >= 0);
	CHECK_EQ(archive_write_close(a), ARCHIVE_OK);
	archive_entry_free(e);
	archive_write_free(a);
	return fd;
}

TEST(holes_are_zeros)
{
	PACK_ROOM(room);
	AUTO_FD fd = make_sparse(300000);
	struct upload_result result = { 0 };
	static char data[300001];

	CHECK_EQ(pack_one(&room, fd, "a.tar", &wide, &result, NULL), 0);
	CHECK_EQ(result.n_bytes, 300000);
	AUTO_FD got = openat(room.dir.fd, "sparse", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(fd_read_full(got, data, sizeof(data)), 300000);
	CHECK_EQ(memcmp(data + 100000, "hello", 5), 0);
	for (size_t i = 0; i < 300000; i++)
		CHECK(data[i] == 0 || (i >= 100000 && i < 100005));
}

/* --- what is refused --- */

/* Where the first file's bytes are, or, where they are compressed, some of that. */
static off_t find_content(int fd)
{
	char data[256];
	ssize_t n = pread(fd, data, sizeof(data), 0);
	const char *found = n > 0 ? memmem(data, (size_t)n, "aaaaaaaa", 8) : NULL;

	return found ? found - data : 36;
}

TEST(a_damaged_archive_leaves_nothing)
{
	static const struct {
		const char *name;
		format_fn *format;
		format_fn *filter;
		bool truncate;
	} rows[] = {
		{ "a.tar", archive_write_set_format_pax, NULL, true },
		{ "a.tgz", archive_write_set_format_pax, archive_write_add_filter_gzip, true },
		{ "a.tgz", archive_write_set_format_pax, archive_write_add_filter_gzip, false },
		{ "a.tar.xz", archive_write_set_format_pax, archive_write_add_filter_xz, false },
		{ "a.tar.bz2", archive_write_set_format_pax, archive_write_add_filter_bzip2,
			false },
		{ "a.tar.zst", archive_write_set_format_pax, archive_write_add_filter_zstd, true },
		{ "a.zip", archive_write_set_format_zip, NULL, true },
		{ "a.zip", format_zip_stored, NULL, false },
	};
	static const struct member members[] = { { "a", "aaaaaaaaaaaaaaaa" }, { "b", "bb" },
		{ NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		PACK_ROOM(room);
		AUTO_FD fd = make_archive(rows[i].format, rows[i].filter, members);
		struct upload_result result = { 0 };
		off_t size = lseek(fd, 0, SEEK_END);

		if (rows[i].truncate)
			CHECK_EQ(ftruncate(fd, i == 0 ? 1300 : size - 30), 0);
		else
			CHECK_EQ(pwrite(fd, "\x55\xaa", 2, find_content(fd)), 2);
		CHECK_EQ(pack_one(&room, fd, rows[i].name, &wide, &result, NULL), 0);
		if (result.n_corrupt != 1 || result.n_files != 0)
			fail_msg("row %zu was taken", i);
		CHECK(result.corrupt.text[0]);
		CHECK(!scratch_has(room.dir.fd, "a"));
	}
}

TEST(garbage_is_a_damaged_archive_beside_good_ones)
{
	PACK_ROOM(room);
	AUTO_FD junk = text_fd("this is no archive at all, whatever its name may say", 52);
	AUTO_FD good = make_archive(archive_write_set_format_zip, NULL, tree);
	struct upload_source sources[] = { source_of(junk, "a.tar"), source_of(junk, "b.zip"),
		source_of(good, "c.zip"), source_of(junk, "d.tar.gz"), source_of(junk, "e") };
	struct upload_result result = { 0 };

	sources[3].size = 0;
	CHECK_EQ(upload_pack(sources, 5, &wide, &room.writer, &result, NULL), 0);
	CHECK_EQ(pack_write_end(&room.writer, NULL), 0);
	CHECK_EQ(pack_room_close(&room), 0);
	CHECK_EQ(result.n_corrupt, 3);
	CHECK_EQ(result.n_files, 4);
	CHECK(scratch_has(room.dir.fd, "e"));
	CHECK(scratch_has(room.dir.fd, "src/main.c"));
}

TEST(formats_we_did_not_ask_for_are_not_tried)
{
	static format_fn *const formats[] = { archive_write_set_format_cpio_newc,
		archive_write_set_format_7zip, archive_write_set_format_iso9660,
		archive_write_set_format_zip };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		PACK_ROOM(room);
		AUTO_FD fd = make_archive(formats[i], NULL, tree);
		struct upload_result result = { 0 };

		CHECK_EQ(pack_one(&room, fd, "a.tar", &wide, &result, NULL), 0);
		CHECK_EQ(result.n_files, 0);
	}
}

static void check_refused(
	int fd, const char *name, const struct upload_limits *limits, int code, const char *words)
{
	PACK_ROOM(room);
	struct upload_result result = { .n_files = 77 };
	struct err err = { 0 };

	CHECK_EQ(pack_one(&room, fd, name, limits, &result, &err), code);
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
	CHECK_EQ(result.n_files, 77);
}

TEST(limits_are_named)
{
	AUTO_FD fd = make_archive(archive_write_set_format_pax, NULL, tree);
	struct upload_limits limits = wide;

	limits.max_bytes = 22;
	check_refused(fd, "a.tar", &limits, -EFBIG, "limit of 22 bytes");
	limits.max_bytes = 5;
	check_refused(fd, "a.tar", &limits, -EFBIG, "limit of 5 bytes");
	check_refused(fd, "a.txt", &limits, -EFBIG, "limit of 5 bytes");
	limits = wide;
	limits.max_files = 2;
	check_refused(fd, "a.tar", &limits, -E2BIG, "limit of 2 files");
	limits = wide;
	limits.max_depth = 1;
	check_refused(fd, "a.tar", &limits, -E2BIG, "limit of 1 directories");
	check_refused(fd, "a/b/c", &limits, -E2BIG, "limit of 1 directories");
	limits = wide;
	limits.max_bytes = 23;
	limits.max_files = 3;
	limits.max_depth = 2;
	PACK_ROOM(room);
	struct upload_result result = { 0 };
	CHECK_EQ(pack_one(&room, fd, "a.tar", &limits, &result, NULL), 0);
}

TEST(bombs_are_defused)
{
	AUTO_FREE char *zeros = malloc((32 << 20) + 1);
	struct upload_limits limits = wide;
	struct member members[] = { { "zeros", zeros }, { NULL } };

	memset(zeros, '0', 32 << 20);
	zeros[32 << 20] = '\0';
	limits.max_bytes = UINT64_MAX;
	AUTO_FD gz =
		make_archive(archive_write_set_format_pax, archive_write_add_filter_gzip, members);
	check_refused(gz, "a.tgz", &limits, -E2BIG, "more than 100 times");
	AUTO_FD zip = make_archive(archive_write_set_format_zip, NULL, members);
	check_refused(zip, "a.zip", &limits, -E2BIG, "more than 100 times");
	AUTO_FD sparse = make_sparse(UINT64_C(1) << 60);
	check_refused(sparse, "a.tar", &limits, -EFBIG, "limit of");
	AUTO_FD wide_sparse = make_sparse(UINT64_C(1) << 40);
	check_refused(wide_sparse, "a.tar", &limits, -E2BIG, "more than 100 times");
	limits = wide;
	limits.max_ratio = 0;
	limits.max_bytes = 4 << 20;
	check_refused(gz, "a.tgz", &limits, -EFBIG, "limit of 4194304 bytes");
}

TEST(ten_thousand_nested_directories_are_too_deep)
{
	static char name[20001];
	struct member members[] = { { name, "x" }, { NULL } };
	struct upload_limits limits = wide;

	for (size_t i = 0; i < sizeof(name) - 1; i++)
		name[i] = i % 2 ? '/' : 'd';
	name[sizeof(name) - 2] = 'f';
	AUTO_FD fd = make_archive(archive_write_set_format_pax, NULL, members);
	check_refused(fd, "a.tar", &limits, -E2BIG, "limit of 10 directories");
	limits.max_depth = 0;
	PACK_ROOM(room);
	struct upload_result result = { 0 };
	CHECK_EQ(pack_one(&room, fd, "a.tar", &limits, &result, NULL), 0);
	CHECK_EQ(result.n_skipped, 1);
	CHECK_EQ(result.n_files, 0);
}

TEST(a_closed_box_is_an_error)
{
	int ends[2];
	AUTO_FD fd = text_fd("hello", 5);
	struct upload_source source = source_of(fd, "a");
	struct upload_result result;
	struct err err = { 0 };

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	(void)close(ends[1]);
	struct pack_writer w = { .fd = ends[0], .max_bytes = UINT64_MAX };
	CHECK_EQ(upload_pack(&source, 1, &wide, &w, &result, &err), -EPIPE);
	(void)close(ends[0]);
}

/* --- what is left out --- */

TEST(patterns_leave_files_out)
{
	static const struct member members[] = {
		{ "node_modules/x/y.js", "1" },
		{ "node_modules/x/", NULL, AE_IFDIR },
		{ "a.log", "1" },
		{ "keep.log", "1" },
		{ "secret/key", "1" },
		{ ".dockerignore", "# mine\n*.log\n!keep.log\n!secret\n" },
		{ "main.py", "1" },
		{ NULL },
	};
	char *patterns[] = { strdup("**/node_modules"), strdup("secret"), NULL };
	struct upload_limits limits = wide;
	PACK_ROOM(room);
	AUTO_FD fd = make_archive(archive_write_set_format_pax, NULL, members);
	struct upload_result result = { 0 };

	limits.ignore = patterns;
	limits.max_files = 3; /* what is ignored does not count */
	CHECK_EQ(pack_one(&room, fd, "a.tar", &limits, &result, NULL), 0);
	CHECK_EQ(result.n_files, 3);
	CHECK_EQ(result.n_ignored, 3);
	CHECK(scratch_has(room.dir.fd, "keep.log"));
	CHECK(scratch_has(room.dir.fd, ".dockerignore"));
	CHECK(!scratch_has(room.dir.fd, "a.log"));
	CHECK(!scratch_has(room.dir.fd, "node_modules"));
	CHECK(!scratch_has(room.dir.fd, "secret"));
	free(patterns[0]);
	free(patterns[1]);
}

TEST(a_bad_dockerignore_is_an_error)
{
	static const struct member members[] = { { ".dockerignore", "a\n[" }, { NULL } };
	AUTO_FD fd = make_archive(archive_write_set_format_zip, NULL, members);
	AUTO_FREE char *large = calloc(1, 70000);
	struct member too_large[] = { { "./.dockerignore", large }, { NULL } };

	check_refused(fd, "a.zip", &wide, -EINVAL, ".dockerignore: line 2: ");
	memset(large, '#', 69999);
	AUTO_FD fd2 = make_archive(archive_write_set_format_zip, NULL, too_large);
	check_refused(fd2, "a.zip", &wide, -E2BIG, ".dockerignore is larger");
}

TEST(binaries_are_blocked_on_demand)
{
	static const struct member members[] = {
		{ "program", "\x7f"
			     "ELF and so on" },
		{ "setup.exe", "MZ and so on" },
		{ "script", "#!/bin/sh\n" },
		{ NULL },
	};
	struct upload_limits limits = wide;
	struct upload_result result = { 0 };
	AUTO_FD fd = make_archive(archive_write_set_format_pax, NULL, members);
	AUTO_FD nul = text_fd("a\0b", 3);
	PACK_ROOM(room);

	limits.block_binaries = true;
	struct upload_source sources[] = { source_of(fd, "a.tar"), source_of(nul, "data") };
	CHECK_EQ(upload_pack(sources, 2, &limits, &room.writer, &result, NULL), 0);
	CHECK_EQ(result.n_files, 1);
	CHECK_EQ(result.n_binaries, 3);
	PACK_ROOM(other);
	CHECK_EQ(upload_pack(sources, 2, &wide, &other.writer, &result, NULL), 0);
	CHECK_EQ(result.n_files, 4);
}

/* --- files that stand in a request --- */

static int pack_inline(struct pack_room *room, const struct upload_inline *files, size_t n,
	const struct upload_limits *limits, struct err *err)
{
	struct upload_result result = { 0 };
	int r = upload_pack_inline(files, n, limits, &room->writer, &result, err);

	if (r == 0)
		CHECK_EQ(pack_write_end(&room->writer, NULL), 0);
	CHECK_EQ(pack_room_close(room), r == 0 ? 0 : -EBADMSG);
	return r;
}

TEST(inline_files_are_written)
{
	static const struct upload_inline files[] = {
		{ "a.py", "print()", 7 },
		{ "d/e/f", "x\0y", 3 },
		{ "a.py", "last", 4 },
	};
	PACK_ROOM(room);

	CHECK_EQ(pack_inline(&room, files, 3, &wide, NULL), 0);
	CHECK(scratch_holds(room.dir.fd, "a.py", "last"));
	CHECK(scratch_has(room.dir.fd, "d/e/f"));
}

TEST(a_bad_inline_path_is_named_by_index)
{
	static const char *const bad[] = { "", "/a", "../a", "a/..", "a//b", "./a", "a\\b", "a/" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		PACK_ROOM(room);
		struct upload_inline files[] = { { "good", "x", 1 }, { bad[i], "x", 1 } };
		struct err err = { 0 };

		CHECK_EQ(pack_inline(&room, files, 2, &wide, &err), -EINVAL);
		CHECK(strstr(err.text, "invalid inline file at index 1"));
	}
	PACK_ROOM(room);
	static const struct upload_inline clash[] = { { "a/b", "x", 1 }, { "a", "x", 1 } };
	struct err err = { 0 };
	CHECK_EQ(pack_inline(&room, clash, 2, &wide, &err), -EINVAL);
	CHECK(strstr(err.text, "index 0"));
}

TEST(inline_files_have_the_same_limits)
{
	static const struct upload_inline files[] = { { "a/b", "12345", 5 }, { "c", "12345", 5 } };
	struct upload_limits limits = wide;
	struct err err = { 0 };
	PACK_ROOM(room);

	limits.max_bytes = 9;
	CHECK_EQ(pack_inline(&room, files, 2, &limits, &err), -EFBIG);
	limits = wide;
	limits.max_files = 1;
	PACK_ROOM(room2);
	CHECK_EQ(pack_inline(&room2, files, 2, &limits, &err), -E2BIG);
}

TESTS(UNIT(plain_files_are_stored_by_name), UNIT(archives_of_every_kind_are_unpacked),
	UNIT(what_is_unsafe_is_skipped), UNIT(links_in_a_zip_are_skipped),
	UNIT(the_last_of_a_name_wins), UNIT(long_names_come_whole), UNIT(holes_are_zeros),
	UNIT(a_damaged_archive_leaves_nothing), UNIT(garbage_is_a_damaged_archive_beside_good_ones),
	UNIT(formats_we_did_not_ask_for_are_not_tried), UNIT(limits_are_named),
	UNIT(bombs_are_defused), UNIT(ten_thousand_nested_directories_are_too_deep),
	UNIT(a_closed_box_is_an_error), UNIT(patterns_leave_files_out),
	UNIT(a_bad_dockerignore_is_an_error), UNIT(binaries_are_blocked_on_demand),
	UNIT(inline_files_are_written), UNIT(a_bad_inline_path_is_named_by_index),
	UNIT(inline_files_have_the_same_limits))
