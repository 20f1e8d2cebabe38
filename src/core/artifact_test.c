#include "core/artifact.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/pack.h"
#include "lib/fault.h"
#include "lib/scratch.h"
#include "lib/test.h"

FAULT(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
FAULT(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAULT(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
FAULT(int, fdatasync, (int fd), (fd))
FAULT(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))

static const struct artifact_limits wide = { 1 << 20, 1 << 20, 1 << 20 };

/* --- making a capture --- */

static void put(int fd, enum pack_kind kind, const char *name, const char *text, uint64_t size)
{
	uint8_t head[PACK_HEAD_SIZE + PACK_NAME_MAX];
	struct pack_entry e = { .kind = kind, .mode = 0755, .size = size };

	(void)snprintf(e.name, sizeof(e.name), "%s", name);
	CHECK_EQ(fd_write_full(fd, head, pack_encode(&e, head)), 0);
	if (text)
		CHECK_EQ(fd_write_full(fd, text, strlen(text)), 0);
}

static void put_file(int fd, const char *name, const char *text)
{
	put(fd, PACK_FILE, name, text, strlen(text));
}

static int make_capture(int dir_fd)
{
	int fd = openat(dir_fd, "capture", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	return fd;
}

static void make_sample(int dir_fd)
{
	AUTO_FD fd = make_capture(dir_fd);

	put_file(fd, "out.txt", "0123456789");
	put_file(fd, "a/result", "{\"a\": 1}");
	put_file(fd, "a.csv", "x,y\n");
	put(fd, PACK_SKIP, "huge", NULL, 1 << 30);
	put(fd, PACK_END, "", NULL, 4);
}

static void check_sample(int dir_fd, const struct artifact_summary *sum)
{
	AUTO_FREE char *text = NULL;
	json_t *list = NULL;

	CHECK_EQ(sum->n_files, 3);
	CHECK_EQ(sum->n_bytes, 22);
	CHECK_EQ(sum->n_skipped, 1);
	CHECK(!sum->cut_short);
	CHECK(scratch_holds(dir_fd, "artifacts/a/result", "{\"a\": 1}"));
	CHECK(scratch_holds(dir_fd, "artifacts/out.txt", "0123456789"));
	CHECK(!scratch_has(dir_fd, "artifacts.tmp"));
	CHECK(!scratch_has(dir_fd, "artifacts.json.tmp"));
	CHECK(!scratch_has(dir_fd, "capture"));
	CHECK_EQ(artifact_list(dir_fd, &list, NULL), 0);
	text = json_dumps(list, JSON_COMPACT);
	CHECK_STR(text,
		"[{\"path\":\"a.csv\",\"size\":4,\"mime\":\"text/csv\",\"sha256\":"
		"\"9c6536d38fa37da58fac066342747e6d20fdace12ab5b287cf04506f2afe95b0\"},"
		"{\"path\":\"a/result\",\"size\":8,\"mime\":\"application/json\",\"sha256\":"
		"\"f9d86028c6e0d64e225186f96acb69338b2c59764df79162107f5c4bb34d1310\"},"
		"{\"path\":\"out.txt\",\"size\":10,\"mime\":\"text/plain\",\"sha256\":"
		"\"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882\"}]");
	json_decref(list);
}

/* --- unpacking --- */

TEST(a_capture_is_unpacked_once)
{
	SCRATCH(dir);
	struct artifact_summary sum = { .n_files = 9 };

	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK_EQ(sum.n_files, 0); /* nothing was captured */
	CHECK(!scratch_has(dir.fd, "artifacts.json"));
	make_sample(dir.fd);
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	check_sample(dir.fd, &sum);
	/* Again, and with limits under which it would have been less. */
	struct artifact_limits none = { 0 };
	memset(&sum, 0, sizeof(sum));
	CHECK_EQ(artifact_unpack(dir.fd, &none, &sum, NULL), 0);
	check_sample(dir.fd, &sum);
}

TEST(what_a_predecessor_left_does_no_harm)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };

	make_sample(dir.fd);
	CHECK_EQ(mkdirat(dir.fd, "artifacts.tmp", 0700), 0);
	scratch_write(dir.fd, "artifacts.tmp/junk", "junk");
	CHECK_EQ(mkdirat(dir.fd, "artifacts", 0700), 0);
	scratch_write(dir.fd, "artifacts/junk", "junk");
	scratch_write(dir.fd, "artifacts.json.tmp", "[");
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK(!scratch_has(dir.fd, "artifacts/junk"));
	check_sample(dir.fd, &sum);
}

TEST(a_death_at_any_moment_changes_nothing)
{
	size_t n_fds = 0;
	int n = 1;

	for (;; n++) {
		SCRATCH(dir);
		struct artifact_summary sum = { .n_files = 9 };
		struct err err = { 0 };

		make_sample(dir.fd);
		if (n == 1)
			n_fds = scratch_count_fds();
		if (!fault_arm(n, EIO))
			break;
		int r = artifact_unpack(dir.fd, &wide, &sum, &err);
		if (fault_disarm() && r < 0) {
			CHECK(err.text[0]);
			CHECK(sum.n_files == 9 || scratch_has(dir.fd, "artifacts.json"));
			CHECK(scratch_has(dir.fd, "capture"));
		}
		CHECK_EQ(scratch_count_fds(), n_fds);
		CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
		check_sample(dir.fd, &sum);
	}
	CHECK(n > 10);
}

TEST(limits_are_applied_in_the_order_of_paths)
{
	static const struct {
		struct artifact_limits limits;
		const char *kept; /* of d, c, b, a: what is left, sorted */
		uint64_t n_skipped;
	} rows[] = {
		{ { 100, 100, 100 }, "abcd", 0 },
		{ { 8, 100, 100 }, "abd", 1 },
		{ { 100, 4, 100 }, "ab", 2 },
		{ { 100, 5, 100 }, "abd", 1 },
		{ { 100, 100, 4 }, "abd", 1 },
		{ { 0, 100, 100 }, "", 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		SCRATCH(dir);
		struct artifact_summary sum = { 0 };
		int fd = make_capture(dir.fd);
		char kept[8] = "";
		size_t n_kept = 0;

		put_file(fd, "d", "1");
		put_file(fd, "c", "12345");
		put_file(fd, "b", "12");
		put_file(fd, "a", "12");
		put(fd, PACK_END, "", NULL, 4);
		(void)close(fd);
		CHECK_EQ(artifact_unpack(dir.fd, &rows[i].limits, &sum, NULL), 0);
		for (const char *p = "abcd"; *p; p++) {
			char path[] = { 'a', 'r', 't', 'i', 'f', 'a', 'c', 't', 's', '/', *p, 0 };

			if (scratch_has(dir.fd, path))
				kept[n_kept++] = *p;
		}
		CHECK_STR(kept, rows[i].kept);
		CHECK_EQ(sum.n_files, strlen(kept));
		CHECK_EQ(sum.n_skipped, rows[i].n_skipped);
	}
}

TEST(a_stream_cut_short_gives_what_was_whole)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };
	int fd = make_capture(dir.fd);

	put_file(fd, "whole", "1");
	put(fd, PACK_FILE, "half", "12345", 10);
	(void)close(fd);
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK(sum.cut_short);
	CHECK_EQ(sum.n_files, 1);
	CHECK(scratch_has(dir.fd, "artifacts/whole"));
	CHECK(!scratch_has(dir.fd, "artifacts/half"));
	sum.cut_short = false;
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK(sum.cut_short);
}

TEST(what_nobody_could_ask_for_is_skipped)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };
	int fd = make_capture(dir.fd);

	put_file(fd, "bad\xff", "1");
	put_file(fd, "back\\slash", "1");
	put_file(fd, "v1..v2", "1");
	put_file(fd, "new\nline", "1");
	put_file(fd, "%2e%2e", "1");
	put(fd, PACK_LINK, "link", "/etc", 4);
	put(fd, PACK_DIR, "dir", NULL, 0);
	put_file(fd, "f", "1");
	put_file(fd, "f/below", "1");
	put_file(fd, "twice", "first");
	put_file(fd, "twice", "last");
	put_file(fd, "100% \xc3\xa4", "1");
	put(fd, PACK_END, "", NULL, 12);
	(void)close(fd);
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK_EQ(sum.n_skipped, 7);
	CHECK_EQ(sum.n_files, 3);
	CHECK(scratch_holds(dir.fd, "artifacts/twice", "last"));
	CHECK(scratch_has(dir.fd, "artifacts/100% \xc3\xa4"));
	CHECK(!scratch_has(dir.fd, "artifacts/link"));
}

TEST(garbage_gives_nothing)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };

	scratch_write(dir.fd, "capture", "this is not a stream of files");
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK(sum.cut_short);
	CHECK_EQ(sum.n_files, 0);
}

/* --- reading --- */

TEST(artifacts_are_opened_by_path)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };
	struct artifact a = { .fd = -1 };
	struct err err = { 0 };
	char text[16] = "";

	make_sample(dir.fd);
	CHECK_EQ(artifact_open(dir.fd, "out.txt", &a, &err), -ENOENT);
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK_EQ(artifact_open(dir.fd, "out.txt", &a, &err), 0);
	CHECK_EQ(a.size, 10);
	CHECK_STR(a.mime, "text/plain");
	CHECK(str_is_hex(a.sha256, 64));
	CHECK_EQ(read(a.fd, text, sizeof(text)), 10);
	CHECK_STR(text, "0123456789");
	(void)close(a.fd);
	CHECK_EQ(artifact_open(dir.fd, "a/result", &a, &err), 0);
	(void)close(a.fd);
	CHECK_EQ(artifact_open(dir.fd, "a", &a, &err), -ENOENT);
	CHECK_EQ(artifact_open(dir.fd, "nothing", &a, &err), -ENOENT);
	CHECK_EQ(artifact_open(dir.fd, "../capture", &a, &err), -EINVAL);
	CHECK_EQ(artifact_open(dir.fd, "", &a, &err), -EINVAL);
}

TEST(a_link_on_the_way_is_not_followed)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };
	struct artifact a = { .fd = -1 };

	make_sample(dir.fd);
	scratch_write(dir.fd, "secret", "secret");
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), 0);
	CHECK_EQ(unlinkat(dir.fd, "artifacts/out.txt", 0), 0);
	CHECK_EQ(symlinkat("../secret", dir.fd, "artifacts/out.txt"), 0);
	CHECK(artifact_open(dir.fd, "out.txt", &a, NULL) < 0);
	CHECK_EQ(a.fd, -1);
}

TEST(an_index_that_is_damaged_is_an_error)
{
	SCRATCH(dir);
	struct artifact_summary sum = { 0 };
	struct artifact a = { .fd = -1 };
	struct err err = { 0 };
	json_t *list = NULL;

	scratch_write(dir.fd, "artifacts.json", "{\"files\":");
	CHECK_EQ(artifact_list(dir.fd, &list, &err), -EBADMSG);
	CHECK(strstr(err.text, "artifacts.json"));
	scratch_write(dir.fd, "artifacts.json", "[]");
	CHECK_EQ(artifact_list(dir.fd, &list, NULL), -EBADMSG);
	CHECK_EQ(artifact_unpack(dir.fd, &wide, &sum, NULL), -EBADMSG);
	scratch_write(dir.fd, "artifacts.json", "{\"files\":[{\"path\":\"a\"}, 3]}");
	CHECK_EQ(artifact_open(dir.fd, "a", &a, NULL), -EBADMSG);
	CHECK_EQ(artifact_open(dir.fd, "b", &a, NULL), -ENOENT);
}

TEST(unsafe_paths_are_known)
{
	static const char *const bad[] = { "", "..", "../a", "a/..", "a/../b", "a..b", "/a", "//a",
		"a//b", "a/", "./a", "a/.", "a\\b", "..\\a", "%2e%2e/a", "%2E%2E", "%252E%252E",
		"%25252e%25252e", "%2525252525252525252e", "..%5c", "a%5cb", "%2fetc", "a%2f%2fb",
		"a%00", "a\nb", "\x7f", ".%2e" };
	static const char *const good[] = { "a", "a/b.c", ".hidden", "100%", "%zz", "a%2", "a%20b",
		"\xc3\xa4", "a b", "a.b.c" };
	char long_path[5000];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (artifact_path_is_safe(bad[i]))
			fail_msg("'%s' passed", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		if (!artifact_path_is_safe(good[i]))
			fail_msg("'%s' did not pass", good[i]);
	memset(long_path, 'a', sizeof(long_path));
	long_path[sizeof(long_path) - 1] = '\0';
	CHECK(!artifact_path_is_safe(long_path));
}

TEST(all_are_removed)
{
	SCRATCH(dir);
	json_t *list = NULL;

	CHECK_EQ(mkdirat(dir.fd, "artifacts", 0700), 0);
	scratch_write(dir.fd, "artifacts/a", "x");
	scratch_write(dir.fd, "artifacts.json", "[]");
	scratch_write(dir.fd, "stream", "stays");
	artifact_remove_all(dir.fd);
	artifact_remove_all(dir.fd); /* none is no failure */
	CHECK(!scratch_has(dir.fd, "artifacts") && !scratch_has(dir.fd, "artifacts.json"));
	CHECK(scratch_holds(dir.fd, "stream", "stays"));
	CHECK_EQ(artifact_list(dir.fd, &list, NULL), 0);
	CHECK_EQ(json_array_size(list), 0);
	json_decref(list);
}

TESTS(UNIT(all_are_removed), UNIT(a_capture_is_unpacked_once),
	UNIT(what_a_predecessor_left_does_no_harm), UNIT(a_death_at_any_moment_changes_nothing),
	UNIT(limits_are_applied_in_the_order_of_paths),
	UNIT(a_stream_cut_short_gives_what_was_whole), UNIT(what_nobody_could_ask_for_is_skipped),
	UNIT(garbage_gives_nothing), UNIT(artifacts_are_opened_by_path),
	UNIT(a_link_on_the_way_is_not_followed), UNIT(an_index_that_is_damaged_is_an_error),
	UNIT(unsafe_paths_are_known))
