/* What is not stored of an upload: it is refused as a whole, or some of it is left out. */
#include "core/upload.h"

#include "core/upload_sample.h"

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
		struct err err = { 0 };
		off_t size = lseek(fd, 0, SEEK_END);

		if (rows[i].truncate)
			CHECK_EQ(ftruncate(fd, i == 0 ? 1300 : size - 30), 0);
		else
			CHECK_EQ(pwrite(fd, "\x55\xaa", 2, find_content(fd)), 2);
		if (pack_one(&room, fd, rows[i].name, &wide, &result, &err) != -EBADMSG)
			fail_msg("row %zu was taken", i);
		CHECK_EQ(strncmp(err.text + 1, rows[i].name, strlen(rows[i].name)), 0);
		CHECK(!scratch_has(room.dir.fd, "a"));
	}
}

TEST(garbage_spoils_the_good_beside_it)
{
	AUTO_FD junk = text_fd("this is no archive at all, whatever its name may say", 52);
	AUTO_FD good = make_archive(archive_write_set_format_zip, NULL, tree);
	struct upload_source junks[] = { source_of(junk, "a.tar"), source_of(junk, "b.zip"),
		source_of(junk, "d.tar.gz"), source_of(junk, "empty.tgz") };

	junks[3].size = 0;
	for (size_t i = 0; i < ARRAY_SIZE(junks); i++) {
		PACK_ROOM(room);
		struct upload_source sources[] = { source_of(good, "c.zip"), junks[i] };
		struct upload_result result = { 0 };
		struct err err = { 0 };

		CHECK_EQ(upload_pack(sources, 2, &wide, &room.writer, &result, &err), -EBADMSG);
		CHECK(strstr(err.text, junks[i].name) != NULL);
		CHECK_EQ(pack_room_close(&room), -EBADMSG);
		CHECK(!scratch_has(room.dir.fd, "src/main.c"));
	}
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

		/* An image of a disc begins with zeros, as the end of a tar does. */
		int r = formats[i] == archive_write_set_format_iso9660 ? 0 : -EBADMSG;
		CHECK_EQ(pack_one(&room, fd, "a.tar", &wide, &result, NULL), r);
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

TESTS(UNIT(a_damaged_archive_leaves_nothing), UNIT(garbage_spoils_the_good_beside_it),
	UNIT(formats_we_did_not_ask_for_are_not_tried), UNIT(limits_are_named),
	UNIT(bombs_are_defused), UNIT(ten_thousand_nested_directories_are_too_deep),
	UNIT(a_closed_box_is_an_error), UNIT(patterns_leave_files_out),
	UNIT(a_bad_dockerignore_is_an_error), UNIT(binaries_are_blocked_on_demand))
