#include "ipc/unpack.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/err.h"
#include "ipc/sample.h"
#include "lib/child.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define MUCH (1u << 20)

static struct unpack unpack; /* too large for a comfortable stack */
static struct pack_reader reader;

static int write_below(int dir_fd, const struct sample *s, struct err *err)
{
	unpack_init(&unpack, dir_fd, MUCH);
	pack_reader_init(&reader, &unpack.sink);
	int r = pack_feed(&reader, s->out.data, s->out.size, err);
	if (r == 0)
		r = pack_end(&reader, err);
	unpack_fini(&unpack);
	return r;
}

static mode_t mode_of(int dir_fd, const char *name)
{
	struct stat st;

	CHECK_EQ(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode;
}

TEST(files_directories_and_links_are_made)
{
	SCRATCH(d);
	SAMPLE(s);
	char target[16] = "";
	mode_t old = umask(022);

	sample_dir(&s, "dir", 0700);
	sample_file(&s, "dir/file", "hello");
	sample_file(&s, "made/on/the/way", "x");
	sample_head(&s, PACK_FILE, "script", 0777, 0);
	sample_head(&s, PACK_FILE, "none", 0, 0);
	sample_link(&s, "link", "/etc/passwd");
	sample_head(&s, PACK_SKIP, "skipped", 0, 99);
	sample_end(&s);
	CHECK_EQ(write_below(d.fd, &s, NULL), 0);
	(void)umask(old);
	CHECK(scratch_holds(d.fd, "dir/file", "hello"));
	CHECK(scratch_holds(d.fd, "made/on/the/way", "x"));
	CHECK_EQ(mode_of(d.fd, "dir"), S_IFDIR | 0700);
	CHECK_EQ(mode_of(d.fd, "dir/file"), S_IFREG | 0644);
	CHECK_EQ(mode_of(d.fd, "script"), S_IFREG | 0755);
	CHECK_EQ(mode_of(d.fd, "none"), S_IFREG | 0600);
	CHECK_EQ(readlinkat(d.fd, "link", target, sizeof(target)), 11);
	CHECK_MEM(target, "/etc/passwd", 11);
	CHECK(!scratch_has(d.fd, "skipped"));
	CHECK_EQ(unpack.n_skipped, 1);
	CHECK_EQ(unpack.n_bytes, 6);
}

TEST(what_is_there_is_replaced)
{
	SCRATCH(d);
	SAMPLE(s);
	struct stat before, after;

	scratch_write(d.fd, "outside", "keep");
	CHECK_EQ(mkdirat(d.fd, "in", 0755), 0);
	AUTO_FD in = openat(d.fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scratch_write(in, "file", "a longer text than the new one");
	CHECK_EQ(linkat(in, "file", d.fd, "hardlink", 0), 0);
	CHECK_EQ(symlinkat("../outside", in, "link"), 0);
	CHECK_EQ(mkdirat(in, "dir", 0750), 0);
	CHECK_EQ(fstatat(in, "dir", &before, 0), 0);
	sample_file(&s, "file", "new");
	sample_file(&s, "link", "new");
	sample_dir(&s, "dir", 0777);
	sample_link(&s, "file", "elsewhere");
	sample_end(&s);
	CHECK_EQ(write_below(in, &s, NULL), 0);
	CHECK(scratch_holds(in, "link", "new"));
	CHECK_EQ(mode_of(in, "file") & S_IFMT, S_IFLNK);
	CHECK_EQ(fstatat(in, "dir", &after, 0), 0);
	CHECK_EQ(before.st_ino, after.st_ino);
	CHECK_EQ(before.st_mode, after.st_mode);
	CHECK(scratch_holds(d.fd, "outside", "keep"));
	CHECK(scratch_holds(d.fd, "hardlink", "a longer text than the new one"));
}

TEST(no_link_leads_out)
{
	static const char *const targets[] = { "..", ".", "/", "../outside", "/etc", "up/.." };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		SCRATCH(d);
		SAMPLE(s);
		struct err err = { 0 };

		CHECK_EQ(mkdirat(d.fd, "outside", 0777), 0);
		CHECK_EQ(mkdirat(d.fd, "in", 0755), 0);
		AUTO_FD in = openat(d.fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		sample_link(&s, "up", targets[i]);
		sample_file(&s, "up/pwned", "x");
		sample_end(&s);
		int r = write_below(in, &s, &err);
		CHECK(r == -ELOOP || r == -ENOTDIR || r == -EXDEV);
		CHECK(strstr(err.text, "up/pwned") != NULL);
		CHECK(!scratch_has(d.fd, "pwned"));
		CHECK(!scratch_has(d.fd, "outside/pwned"));
		CHECK(!scratch_has(in, "pwned"));
	}
}

TEST(what_is_in_the_way_is_an_error_that_names_it)
{
	static const struct {
		enum pack_kind kind;
		const char *name;
		int code;
	} cases[] = {
		{ PACK_FILE, "dir", -EISDIR },
		{ PACK_LINK, "dir", -EISDIR },
		{ PACK_DIR, "file", -EEXIST },
		{ PACK_FILE, "file/below", -ENOTDIR },
		{ PACK_DIR, "fifo/below", -ENOTDIR },
		{ PACK_DIR, "dangling", -EEXIST },
	};
	SCRATCH(d);

	CHECK_EQ(mkdirat(d.fd, "dir", 0755), 0);
	scratch_write(d.fd, "dir/keep", "x");
	scratch_write(d.fd, "file", "keep");
	CHECK_EQ(mkfifoat(d.fd, "fifo", 0600), 0);
	CHECK_EQ(symlinkat("nowhere", d.fd, "dangling"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		SAMPLE(s);
		struct err err = { 0 };

		sample_head(
			&s, cases[i].kind, cases[i].name, 0755, cases[i].kind == PACK_DIR ? 0 : 1);
		if (cases[i].kind != PACK_DIR)
			put_u8(&s.out, 'x');
		sample_end(&s);
		CHECK_EQ(write_below(d.fd, &s, &err), cases[i].code);
		CHECK(strstr(err.text, cases[i].name) != NULL);
	}
	CHECK(scratch_holds(d.fd, "dir/keep", "x"));
	CHECK(scratch_holds(d.fd, "file", "keep"));
	CHECK(!scratch_has(d.fd, "nowhere"));
}

TEST(all_files_together_have_a_limit)
{
	static char text[MUCH + 1];
	SCRATCH(d);
	SAMPLE(s);
	struct err err = { 0 };

	memset(text, 'x', MUCH - 4);
	sample_file(&s, "first", text);
	sample_file(&s, "fits", "1234");
	sample_file(&s, "empty", "");
	sample_file(&s, "last", "5");
	sample_end(&s);
	CHECK_EQ(write_below(d.fd, &s, &err), -EFBIG);
	CHECK(strstr(err.text, "'last'") && strstr(err.text, "1048576"));
	CHECK(scratch_holds(d.fd, "fits", "1234"));
	CHECK(!scratch_has(d.fd, "last"));
}

TEST(a_size_that_overflows_is_just_too_large)
{
	SCRATCH(d);
	SAMPLE(s);

	sample_file(&s, "first", "1");
	sample_head(&s, PACK_FILE, "huge", 0644, UINT64_MAX);
	CHECK_EQ(write_below(d.fd, &s, NULL), -EFBIG);
	CHECK(!scratch_has(d.fd, "huge"));
}

TEST(a_file_that_was_cut_short_is_removed)
{
	SCRATCH(d);
	SAMPLE(s);
	size_t n_before = scratch_count_fds();

	sample_file(&s, "whole", "x");
	sample_head(&s, PACK_FILE, "sub/half", 0644, 100);
	put_bytes(&s.out, "only this", 9);
	CHECK_EQ(write_below(d.fd, &s, NULL), -EBADMSG);
	CHECK(scratch_holds(d.fd, "whole", "x"));
	CHECK(!scratch_has(d.fd, "sub/half"));
	CHECK_EQ(scratch_count_fds(), n_before);
}

TEST(where_only_files_are_wanted_nothing_else_is_taken)
{
	static const enum pack_kind kinds[] = { PACK_DIR, PACK_LINK, PACK_TWIN, PACK_TIME };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		SCRATCH(d);
		SAMPLE(s);

		sample_file(&s, "a/file", "x");
		sample_head(&s, PACK_SKIP, "skipped", 0, 0);
		sample_head(&s, kinds[i], "other", 0755, pack_has_data(kinds[i]));
		unpack_init(&unpack, d.fd, MUCH);
		unpack.files_only = true;
		pack_reader_init(&reader, &unpack.sink);
		CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, NULL), -EBADMSG);
		unpack_fini(&unpack);
		CHECK(scratch_holds(d.fd, "a/file", "x"));
		CHECK(!scratch_has(d.fd, "other"));
	}
}

static void sample_twin(struct sample *s, const char *name, const char *target)
{
	sample_head(s, PACK_TWIN, name, 0777, strlen(target));
	put_bytes(&s->out, target, strlen(target));
}

TEST(a_twin_is_the_same_file)
{
	SCRATCH(d);
	SAMPLE(s);

	scratch_write(d.fd, "b", "in the way");
	sample_file(&s, "dir/a", "x");
	sample_twin(&s, "b", "dir/a");
	sample_head(&s, PACK_TIME, "b", 7, 5);
	sample_end(&s);
	CHECK_EQ(write_below(d.fd, &s, NULL), 0);
	struct stat a, b;
	CHECK_EQ(fstatat(d.fd, "dir/a", &a, 0), 0);
	CHECK_EQ(fstatat(d.fd, "b", &b, 0), 0);
	CHECK_EQ(a.st_ino, b.st_ino);
	CHECK_EQ(a.st_mtim.tv_sec, 5);
	CHECK_EQ(a.st_mtim.tv_nsec, 7);
}

TEST(no_twin_leads_out)
{
	static const char *const bad[] = { "../secret", "/etc/passwd", "up/secret", "nobody",
		"twin", "" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		SCRATCH(outside);
		SAMPLE(s);

		scratch_write(outside.fd, "secret", "x");
		CHECK_EQ(mkdirat(outside.fd, "in", 0755), 0);
		AUTO_FD in = openat(outside.fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		sample_link(&s, "up", "..");
		sample_twin(&s, "twin", bad[i]);
		sample_end(&s);
		CHECK(write_below(in, &s, NULL) < 0);
		CHECK(!scratch_has(in, "twin"));
	}
}

TEST(a_time_is_of_what_is_there)
{
	SCRATCH(d);
	SAMPLE(s);

	sample_file(&s, "a", "x");
	sample_head(&s, PACK_TIME, "b", 0, 5);
	CHECK_EQ(write_below(d.fd, &s, NULL), -ENOENT);
}

TEST(what_has_to_be_whole_misses_nothing)
{
	SCRATCH(d);
	SAMPLE(s);
	struct err err = { 0 };

	sample_head(&s, PACK_SKIP, "lost", 0, 99);
	unpack_init(&unpack, d.fd, MUCH);
	unpack.whole = true;
	pack_reader_init(&reader, &unpack.sink);
	CHECK_EQ(pack_feed(&reader, s.out.data, s.out.size, &err), -EBADMSG);
	CHECK(strstr(err.text, "'lost'") != NULL);
	unpack_fini(&unpack);
}

/* On a file system of its own, which is full after 64 KiB. */
static void fill_up(void *ctx)
{
	static char text[MUCH / 2];
	struct err err = { 0 };
	SAMPLE(s);

	if (unshare(CLONE_NEWNS) < 0)
		CHILD_SKIP("needs the right to mount");
	CHILD_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	CHILD_CHECK(mount("tmpfs", ctx, "tmpfs", 0, "size=64k") == 0);
	int dir_fd = open(ctx, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHILD_CHECK(dir_fd >= 0);
	memset(text, 'x', sizeof(text) - 1);
	sample_file(&s, "small", "x");
	sample_file(&s, "large", text);
	sample_file(&s, "never", "x");
	sample_end(&s);
	CHILD_CHECK(write_below(dir_fd, &s, &err) == -ENOSPC);
	CHILD_CHECK(strstr(err.text, "'large'") && strstr(err.text, "No space"));
	CHILD_CHECK(scratch_holds(dir_fd, "small", "x"));
	CHILD_CHECK(!scratch_has(dir_fd, "large"));
	CHILD_CHECK(!scratch_has(dir_fd, "never"));
}

TEST(a_full_disk_leaves_no_half_file)
{
	SCRATCH(d);

	IN_CHILD(fill_up, d.path);
}

TESTS(UNIT(files_directories_and_links_are_made), UNIT(what_is_there_is_replaced),
	UNIT(no_link_leads_out), UNIT(what_is_in_the_way_is_an_error_that_names_it),
	UNIT(all_files_together_have_a_limit), UNIT(a_size_that_overflows_is_just_too_large),
	UNIT(a_file_that_was_cut_short_is_removed),
	UNIT(where_only_files_are_wanted_nothing_else_is_taken), UNIT(a_twin_is_the_same_file),
	UNIT(no_twin_leads_out), UNIT(a_time_is_of_what_is_there),
	UNIT(what_has_to_be_whole_misses_nothing), UNIT(a_full_disk_leaves_no_half_file))
