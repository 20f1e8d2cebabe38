/* What is stored of an upload, and how. */
#include "core/upload.h"

#include "core/upload_sample.h"

/* --- files and archives --- */

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

static void check_tree(int dir_fd, const struct upload_result *result)
{
	struct stat st;

	CHECK_EQ(result->n_files, 3);
	CHECK_EQ(result->n_bytes, 9 + 9 + 5);
	CHECK_EQ(result->n_skipped, 0);
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
	UNIT(inline_files_are_written), UNIT(a_bad_inline_path_is_named_by_index),
	UNIT(inline_files_have_the_same_limits))
