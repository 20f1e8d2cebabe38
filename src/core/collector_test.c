#include "core/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/str.h"
#include "lib/piped.h"
#include "lib/scratch.h"
#include "lib/test.h"

struct outcome {
	unsigned n;
	int r;
	uint64_t n_bytes;
};

static void on_done(void *ctx, int r, uint64_t n_bytes)
{
	struct outcome *o = ctx;

	o->n++;
	o->r = r;
	o->n_bytes = n_bytes;
}

static int open_file(int dir_fd, const char *before)
{
	scratch_write(dir_fd, "file", before);
	return openat(dir_fd, "file", O_RDWR | O_CLOEXEC);
}

/* Collect `text` into a file that holds `before`, and let the pipe end. */
static struct outcome collect(int dir_fd, const char *before, const char *text, uint64_t max)
{
	struct outcome o = { 0 };
	struct piped p;

	piped_open(&p);
	(void)collector_start(&p.loop, p.from, open_file(dir_fd, before), max, on_done, &o);
	CHECK_EQ(fd_write_full(p.to, text, strlen(text)), 0);
	CHECK_EQ(o.n, 0);
	piped_close(&p);
	CHECK_EQ(o.n, 1);
	return o;
}

TEST(everything_is_in_the_file_at_the_end)
{
	SCRATCH(dir);
	(void)collect(dir.fd, "", "", 100); /* the first loop opens some for all */
	size_t n_fds = scratch_count_fds();
	struct outcome o = collect(dir.fd, "", "some bytes", 100);

	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 10);
	CHECK(scratch_holds(dir.fd, "file", "some bytes"));
	CHECK_EQ(scratch_count_fds(), n_fds);
	o = collect(dir.fd, "", "", 100);
	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 0);
}

/* As the successor of a server that was killed. */
TEST(it_goes_on_at_the_end_of_the_file)
{
	SCRATCH(dir);
	struct outcome o = collect(dir.fd, "begun, ", "and ended", 100);

	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 16);
	CHECK(scratch_holds(dir.fd, "file", "begun, and ended"));
}

TEST(over_the_limit_the_rest_is_dropped)
{
	SCRATCH(dir);
	struct outcome o = collect(dir.fd, "", "0123456789", 4);

	CHECK_EQ(o.r, -EFBIG);
	CHECK_EQ(o.n_bytes, 4);
	CHECK(scratch_holds(dir.fd, "file", "0123"));
	o = collect(dir.fd, "0123456789", "more", 4); /* it was over it before */
	CHECK_EQ(o.r, -EFBIG);
	CHECK(scratch_holds(dir.fd, "file", "0123456789"));
}

TEST(exactly_the_limit_is_within_it)
{
	SCRATCH(dir);
	struct outcome o = collect(dir.fd, "ab", "cd", 4);

	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 4);
}

TEST(much_more_than_a_pipe_holds_passes)
{
	SCRATCH(dir);
	struct outcome o = { 0 };
	struct piped p;
	AUTO_FREE char *chunk = xcalloc(1, 60000);

	piped_open(&p);
	(void)collector_start(&p.loop, p.from, open_file(dir.fd, ""), 10 << 20, on_done, &o);
	for (int i = 0; i < 100; i++) {
		memset(chunk, 'a' + i % 26, 60000);
		CHECK_EQ(fd_write_full(p.to, chunk, 60000), 0);
		while (uv_run(&p.loop, UV_RUN_NOWAIT) && o.n == 0) {
			int left = 0;
			struct stat st;

			CHECK_EQ(fstatat(dir.fd, "file", &st, 0), 0);
			left = (i + 1) * 60000 - (int)st.st_size;
			if (left == 0)
				break;
		}
	}
	piped_close(&p);
	CHECK_EQ(o.r, 0);
	CHECK_EQ(o.n_bytes, 6000000);
}

/* The box must not wait for ever because a disk is full; here a file may not grow. */
TEST(a_file_that_can_not_be_written_is_told_after_all_was_read)
{
	struct outcome o = { 0 };
	int file = memfd_create("full", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct piped p;

	piped_open(&p);
	CHECK_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_GROW), 0);
	(void)collector_start(&p.loop, p.from, file, 1000, on_done, &o);
	CHECK_EQ(fd_write_full(p.to, "bytes", 5), 0);
	for (int i = 0; i < 10; i++)
		(void)uv_run(&p.loop, UV_RUN_NOWAIT);
	CHECK_EQ(o.n, 0);
	CHECK_EQ(fd_write_full(p.to, "more", 4), 0);
	piped_close(&p);
	CHECK_EQ(o.n, 1);
	CHECK_EQ(o.r, -EPERM);
}

TEST(one_that_is_freed_tells_nobody)
{
	SCRATCH(dir);
	struct outcome o = { 0 };
	struct piped p;
	size_t n_fds = scratch_count_fds();

	piped_open(&p);
	struct collector *c =
		collector_start(&p.loop, p.from, open_file(dir.fd, ""), 100, on_done, &o);
	CHECK_EQ(fd_write_full(p.to, "bytes", 5), 0);
	collector_free(c);
	collector_free(NULL);
	(void)uv_run(&p.loop, UV_RUN_DEFAULT);
	piped_close(&p);
	CHECK_EQ(o.n, 0);
	CHECK_EQ(scratch_count_fds(), n_fds);
}

TESTS(UNIT(everything_is_in_the_file_at_the_end), UNIT(it_goes_on_at_the_end_of_the_file),
	UNIT(over_the_limit_the_rest_is_dropped), UNIT(exactly_the_limit_is_within_it),
	UNIT(much_more_than_a_pipe_holds_passes),
	UNIT(a_file_that_can_not_be_written_is_told_after_all_was_read),
	UNIT(one_that_is_freed_tells_nobody))
