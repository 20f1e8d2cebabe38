#include "ipc/pack_write.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "ipc/twins.h"
#include "ipc/unpack.h"
#include "lib/child.h"
#include "lib/random.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* The reading side: a thread that unpacks what comes out of a socket. */
struct receiver {
	int fd;
	pthread_t thread;
	struct pack_reader reader;
	struct unpack unpack;
	struct err err;
	int result;
};

static void *receive(void *arg)
{
	struct receiver *r = arg;
	uint8_t chunk[1000]; /* of no size that suits anything */

	for (;;) {
		ssize_t n = read(r->fd, chunk, sizeof(chunk));

		if (n <= 0)
			break;
		if (r->result == 0)
			r->result = pack_feed(&r->reader, chunk, (size_t)n, &r->err);
	}
	if (r->result == 0)
		r->result = pack_end(&r->reader, &r->err);
	return NULL;
}

static struct receiver receiver;

/* Start to unpack into `dir_fd`; the writer's end goes to `w`. */
static void begin(int dir_fd, struct pack_writer *w)
{
	int ends[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	memset(&receiver, 0, sizeof(receiver));
	receiver.fd = ends[0];
	unpack_init(&receiver.unpack, dir_fd, UINT64_MAX);
	pack_reader_init(&receiver.reader, &receiver.unpack.sink);
	CHECK_EQ(pthread_create(&receiver.thread, NULL, receive, &receiver), 0);
	w->fd = ends[1];
}

/* End the stream; what the reader made of it. */
static int finish(struct pack_writer *w)
{
	(void)close(w->fd);
	CHECK_EQ(pthread_join(receiver.thread, NULL), 0);
	(void)close(receiver.fd);
	unpack_fini(&receiver.unpack);
	return receiver.result;
}

/* A tree of files with odd sizes, links and directories, always the same for a seed. */
static void grow(int dir_fd, uint64_t *seed, int depth)
{
	size_t n = random_below(seed, 6);

	for (size_t i = 0; i < n; i++) {
		char name[32];
		uint64_t kind = random_below(seed, 8);

		(void)snprintf(name, sizeof(name), "%c%zu ä\n%llu", kind ? 'n' : '.', i,
			(unsigned long long)random_below(seed, 1000));
		if (kind < 3 && depth < 4) {
			CHECK_EQ(mkdirat(dir_fd, name, 0700 | (mode_t)random_below(seed, 64)), 0);
			AUTO_FD fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			grow(fd, seed, depth + 1);
		} else if (kind == 3) {
			CHECK_EQ(symlinkat(depth % 2 ? "/" : "../nowhere", dir_fd, name), 0);
		} else {
			size_t size = random_below(seed, kind == 4 ? 200000 : 50);
			AUTO_FREE char *text = xcalloc(size + 1, 1);

			for (size_t j = 0; j < size; j++)
				text[j] = (char)random_between(seed, 1, 255);
			scratch_write(dir_fd, name, text);
			CHECK_EQ(fchmodat(dir_fd, name, 0600 | (mode_t)random_below(seed, 64), 0),
				0);
		}
	}
}

/* Both trees as streams: equal trees give equal streams, and no others do. */
static int write_to_file(int dir_fd)
{
	struct pack_writer w = { .max_bytes = UINT64_MAX };
	int ends[2];
	char chunk[4096];
	FILE *file = tmpfile();

	CHECK(file != NULL);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(ends[0]);
		w.fd = ends[1];
		_exit(pack_write_tree(&w, "", dir_fd, NULL) < 0 || pack_write_end(&w, NULL) < 0);
	}
	(void)close(ends[1]);
	for (ssize_t n; (n = read(ends[0], chunk, sizeof(chunk))) > 0;)
		CHECK_EQ(fwrite(chunk, 1, (size_t)n, file), n);
	(void)close(ends[0]);
	int status = 1;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	(void)fflush(file);
	int fd = dup(fileno(file));
	(void)fclose(file);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void check_same(int a_fd, int b_fd)
{
	AUTO_FREE char *a = NULL;
	AUTO_FREE char *b = NULL;
	size_t a_size = 0;
	size_t b_size = 0;

	CHECK_EQ(fd_read_all(a_fd, 64 << 20, &a, &a_size), 0);
	CHECK_EQ(fd_read_all(b_fd, 64 << 20, &b, &b_size), 0);
	CHECK_EQ(a_size, b_size);
	CHECK_MEM(a, b, a_size);
}

TEST(random_trees_come_out_as_they_went_in)
{
	mode_t old = umask(0);

	for (uint64_t tree = 1; tree <= 20; tree++) {
		SCRATCH(from);
		SCRATCH(to);
		uint64_t seed = tree;
		struct pack_writer w = { .max_bytes = UINT64_MAX };

		grow(from.fd, &seed, 0);
		begin(to.fd, &w);
		CHECK_EQ(pack_write_tree(&w, "", from.fd, NULL), 0);
		CHECK_EQ(pack_write_end(&w, NULL), 0);
		CHECK_EQ(finish(&w), 0);
		CHECK(receiver.reader.n_entries == w.n_entries);
		CHECK(receiver.unpack.n_bytes == w.n_bytes);
		AUTO_FD a = write_to_file(from.fd);
		AUTO_FD b = write_to_file(to.fd);
		check_same(a, b);
	}
	(void)umask(old);
}

TEST(bytes_and_files_go_under_the_name_given)
{
	SCRATCH(from);
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = UINT64_MAX };

	scratch_write(from.fd, "x", "from a file");
	CHECK_EQ(mkdirat(from.fd, "sub", 0755), 0);
	scratch_write(from.fd, "sub/y", "from a tree");
	AUTO_FD file = openat(from.fd, "x", O_RDONLY | O_CLOEXEC);
	begin(to.fd, &w);
	CHECK_EQ(pack_write_bytes(&w, "dir/bytes", 0755, "a\0b", 3, NULL), 0);
	CHECK_EQ(pack_write_bytes(&w, "none", 0644, NULL, 0, NULL), 0);
	CHECK_EQ(pack_write_file(&w, "file", file, NULL), 0);
	CHECK_EQ(pack_write_tree(&w, "tree/here", from.fd, NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK(scratch_holds(to.fd, "none", ""));
	CHECK(scratch_holds(to.fd, "file", "from a file"));
	CHECK(scratch_holds(to.fd, "tree/here/x", "from a file"));
	CHECK(scratch_holds(to.fd, "tree/here/sub/y", "from a tree"));
}

static bool is_mine(const char *name)
{
	return streq(name, "mine");
}

TEST(what_is_hidden_is_left_out_at_the_top)
{
	SCRATCH(from);
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = UINT64_MAX, .is_hidden = is_mine };

	CHECK_EQ(mkdirat(from.fd, "mine", 0755), 0);
	scratch_write(from.fd, "mine/x", "hidden");
	CHECK_EQ(mkdirat(from.fd, "sub", 0755), 0);
	scratch_write(from.fd, "sub/mine", "seen");
	begin(to.fd, &w);
	CHECK_EQ(pack_write_tree(&w, "", from.fd, NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK(!scratch_has(to.fd, "mine"));
	CHECK(scratch_holds(to.fd, "sub/mine", "seen"));
}

TEST(an_empty_tree_is_a_directory_still)
{
	SCRATCH(from);
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = UINT64_MAX };

	begin(to.fd, &w);
	CHECK_EQ(pack_write_tree(&w, "empty", from.fd, NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK(scratch_has(to.fd, "empty"));
}

TEST(a_stream_without_its_end_is_cut_short)
{
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = UINT64_MAX };

	begin(to.fd, &w);
	CHECK_EQ(pack_write_bytes(&w, "a", 0644, "x", 1, NULL), 0);
	CHECK_EQ(finish(&w), -EBADMSG);
	CHECK(strstr(receiver.err.text, "cut short") != NULL);
}

TEST(bad_names_are_not_sent)
{
	static const char *const bad[] = { "", "/etc/passwd", "../x", "a/../b", "a//b" };
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = UINT64_MAX };

	begin(to.fd, &w);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(pack_write_bytes(&w, bad[i], 0644, "x", 1, NULL), -EINVAL);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK_EQ(receiver.reader.n_entries, 0);
}

TEST(only_what_matches_and_fits_is_taken_out)
{
	static char *globs[] = { (char *)"*.png", (char *)"/workspace/out/**", (char *)"./exact",
		NULL };
	SCRATCH(from);
	SCRATCH(to);
	struct pack_writer w = { .max_bytes = 10, .files_only = true, .globs = globs };

	CHECK_EQ(mkdirat(from.fd, "out", 0755), 0);
	CHECK_EQ(mkdirat(from.fd, "out/deep", 0755), 0);
	scratch_write(from.fd, "a.png", "12345");
	scratch_write(from.fd, "b.txt", "no");
	scratch_write(from.fd, "c.png", "too large for the rest");
	scratch_write(from.fd, "exact", "123");
	scratch_write(from.fd, "out/deep/d", "45");
	CHECK_EQ(symlinkat("/etc/passwd", from.fd, "e.png"), 0);
	CHECK_EQ(mkfifoat(from.fd, "f.png", 0600), 0);
	begin(to.fd, &w);
	receiver.unpack.files_only = true;
	CHECK_EQ(pack_write_tree(&w, "", from.fd, NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK(scratch_holds(to.fd, "a.png", "12345"));
	CHECK(scratch_holds(to.fd, "exact", "123"));
	CHECK(scratch_holds(to.fd, "out/deep/d", "45"));
	CHECK(!scratch_has(to.fd, "b.txt"));
	CHECK(!scratch_has(to.fd, "c.png"));
	CHECK(!scratch_has(to.fd, "e.png"));
	CHECK(!scratch_has(to.fd, "f.png"));
	CHECK_EQ(receiver.unpack.n_skipped, 1);
	CHECK_EQ(w.n_bytes, 10);
}

/* What a guest closed to itself is its own loss and no failure. */
static void take_from_closed(void *ctx)
{
	const int *dirs = ctx;
	static char *globs[] = { (char *)"**", NULL };
	struct pack_writer w = { .max_bytes = 100, .files_only = true, .globs = globs };

	if (geteuid() == 0)
		CHILD_CHECK(setresuid(65534, 65534, 65534) == 0);
	CHILD_CHECK(mkdirat(dirs[0], "shut", 0755) == 0);
	scratch_write(dirs[0], "shut/lost", "x");
	scratch_write(dirs[0], "closed", "x");
	scratch_write(dirs[0], "open", "x");
	CHILD_CHECK(fchmodat(dirs[0], "shut", 0, 0) == 0);
	CHILD_CHECK(fchmodat(dirs[0], "closed", 0, 0) == 0);
	begin(dirs[1], &w);
	CHILD_CHECK(pack_write_tree(&w, "", dirs[0], NULL) == 0);
	CHILD_CHECK(pack_write_end(&w, NULL) == 0);
	CHILD_CHECK(finish(&w) == 0);
	CHILD_CHECK(receiver.unpack.n_skipped == 1);
	CHILD_CHECK(scratch_holds(dirs[1], "open", "x"));
	CHILD_CHECK(!scratch_has(dirs[1], "closed"));
}

TEST(closed_files_are_skipped_when_taken_out)
{
	SCRATCH(from);
	SCRATCH(to);
	int dirs[] = { from.fd, to.fd };

	CHECK_EQ(fchmod(from.fd, 0777), 0);
	CHECK_EQ(fchmod(to.fd, 0777), 0);
	IN_CHILD(take_from_closed, dirs);
}

TEST(a_tree_deeper_than_the_limit_is_refused_or_left_out)
{
	static char *globs[] = { (char *)"**", NULL };
	SCRATCH(from);
	SCRATCH(to);
	struct pack_writer in = { .max_bytes = 100 };
	struct pack_writer out = { .max_bytes = 100, .files_only = true, .globs = globs };
	AUTO_FD at = dup(from.fd);
	struct err err = { 0 };

	for (unsigned i = 0; i <= PACK_DEPTH_MAX; i++) {
		CHECK_EQ(mkdirat(at, "d", 0755), 0);
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
		scratch_write(at, "f", "x");
	}
	begin(to.fd, &in);
	CHECK_EQ(pack_write_tree(&in, "", from.fd, &err), -ENAMETOOLONG);
	CHECK_EQ(finish(&in), -EBADMSG);
	begin(to.fd, &out);
	CHECK_EQ(pack_write_tree(&out, "", from.fd, &err), 0);
	CHECK_EQ(pack_write_end(&out, &err), 0);
	CHECK_EQ(finish(&out), 0);
	CHECK_EQ(out.n_entries, PACK_DEPTH_MAX - 1);
}

static struct stat stat_of(int dir_fd, const char *name)
{
	struct stat st = { 0 };

	CHECK_EQ(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static void set_time(int dir_fd, const char *name, time_t sec, long ns)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { sec, ns } };

	CHECK_EQ(utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

TEST(a_whole_tree_keeps_times_and_hard_links)
{
	static const char *const names[] = { "a", "dir", "dir/b", "link" };
	SCRATCH(from);
	SCRATCH(to);
	CLEANUP(twins_fini) struct twins twins = { 0 };
	struct pack_writer w = { .max_bytes = 4, .twins = &twins };

	scratch_write(from.fd, "a", "once");
	CHECK_EQ(mkdirat(from.fd, "dir", 0755), 0);
	CHECK_EQ(linkat(from.fd, "a", from.fd, "dir/b", 0), 0);
	CHECK_EQ(symlinkat("a", from.fd, "link"), 0);
	CHECK_EQ(mkfifoat(from.fd, "fifo", 0600), 0);
	set_time(from.fd, "a", 1577836800, 123456789);
	set_time(from.fd, "link", -5, 1);
	set_time(from.fd, "dir", 32503680000, 0);
	begin(to.fd, &w);
	receiver.unpack.whole = true;
	CHECK_EQ(pack_write_tree(&w, "", from.fd, NULL), 0);
	CHECK_EQ(pack_write_end(&w, NULL), 0);
	CHECK_EQ(finish(&w), 0);
	CHECK_EQ(w.n_bytes, 4);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct stat a = stat_of(from.fd, names[i]);
		struct stat b = stat_of(to.fd, names[i]);

		CHECK_EQ(a.st_mtim.tv_sec, b.st_mtim.tv_sec);
		CHECK_EQ(a.st_mtim.tv_nsec, b.st_mtim.tv_nsec);
	}
	CHECK_EQ(stat_of(to.fd, "a").st_ino, stat_of(to.fd, "dir/b").st_ino);
	CHECK(!scratch_has(to.fd, "fifo"));
}

TEST(a_whole_tree_is_whole_or_refused)
{
	SCRATCH(from);
	SCRATCH(to);
	CLEANUP(twins_fini) struct twins twins = { 0 };
	struct pack_writer w = { .max_bytes = 5, .twins = &twins };
	struct err err = { 0 };

	scratch_write(from.fd, "a", "123");
	scratch_write(from.fd, "b", "456");
	begin(to.fd, &w);
	CHECK_EQ(pack_write_tree(&w, "", from.fd, &err), -EFBIG);
	CHECK(strstr(err.text, "'b'") != NULL);
	CHECK_EQ(finish(&w), -EBADMSG);
}

TEST(a_reader_that_hangs_up_is_epipe_and_no_signal)
{
	static char much[1 << 20];
	struct pack_writer w = { .max_bytes = UINT64_MAX };
	int ends[2];
	struct err err = { 0 };

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	(void)close(ends[0]);
	w.fd = ends[1];
	CHECK_EQ(pack_write_bytes(&w, "a", 0644, much, sizeof(much), &err), -EPIPE);
	(void)close(ends[1]);
}

TESTS(UNIT(random_trees_come_out_as_they_went_in), UNIT(bytes_and_files_go_under_the_name_given),
	UNIT(an_empty_tree_is_a_directory_still), UNIT(what_is_hidden_is_left_out_at_the_top),
	UNIT(a_stream_without_its_end_is_cut_short), UNIT(bad_names_are_not_sent),
	UNIT(only_what_matches_and_fits_is_taken_out),
	UNIT(closed_files_are_skipped_when_taken_out),
	UNIT(a_tree_deeper_than_the_limit_is_refused_or_left_out),
	UNIT(a_whole_tree_keeps_times_and_hard_links), UNIT(a_whole_tree_is_whole_or_refused),
	UNIT(a_reader_that_hangs_up_is_epipe_and_no_signal))
