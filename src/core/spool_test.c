#include "core/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "lib/scratch.h"
#include "lib/test.h"

static struct spool make_spool(const struct scratch *dir)
{
	struct spool p;

	CHECK_EQ(spool_init(&p, "stdout", dir->fd, true), 0);
	return p;
}

TEST(a_file_that_nobody_needs_is_not_made)
{
	SCRATCH(dir);
	struct spool p = make_spool(&dir);

	CHECK_EQ(p.fd, -1);
	CHECK_EQ(p.size, 0);
	CHECK(!scratch_has(dir.fd, "stdout"));
	spool_fini(&p);
}

TEST(bytes_move_from_a_pipe_and_can_be_read)
{
	SCRATCH(dir);
	struct spool p = make_spool(&dir);
	int ends[2];
	char buf[16] = "";

	CHECK_EQ(fd_pipe(&ends[0], &ends[1]), 0);
	CHECK_EQ(fd_set_nonblock(ends[0], true), 0);
	CHECK_EQ(spool_take(&p, ends[0], 100), -EAGAIN);
	CHECK_EQ(fd_write_full(ends[1], "hello world", 11), 0);
	CHECK_EQ(spool_take(&p, ends[0], 5), 5);
	CHECK_EQ(spool_take(&p, ends[0], 100), 6);
	CHECK_EQ(spool_read(&p, 3, buf, 8), 0);
	CHECK_STR(buf, "lo world");
	CHECK_EQ(spool_read(&p, 3, buf, 9), -EIO);
	(void)close(ends[1]);
	CHECK_EQ(spool_take(&p, ends[0], 100), 0);
	(void)close(ends[0]);
	spool_fini(&p);
	CHECK(scratch_holds(dir.fd, "stdout", "hello world"));
}

TEST(a_terminal_is_copied_and_its_end_is_an_end)
{
	SCRATCH(dir);
	struct spool p = make_spool(&dir);
	int master, slave;

	if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
		SKIP("no terminals here");
	CHECK_EQ(fd_set_nonblock(master, true), 0);
	CHECK_EQ(fd_write_full(slave, "hi", 2), 0);
	ssize_t n;
	for (int i = 0; (n = spool_take(&p, master, 100)) == -EAGAIN && i < 1000; i++)
		(void)usleep(1000);
	CHECK_EQ(n, 2);
	(void)close(slave);
	CHECK_EQ(spool_take(&p, master, 100), 0);
	(void)close(master);
	spool_fini(&p);
	CHECK(scratch_holds(dir.fd, "stdout", "hi"));
}

TEST(dropping_leaves_nothing)
{
	AUTO_FD null_fd = -1;
	int ends[2];

	CHECK_EQ(fd_pipe(&ends[0], &ends[1]), 0);
	CHECK_EQ(fd_set_nonblock(ends[0], true), 0);
	CHECK_EQ(fd_write_full(ends[1], "hello", 5), 0);
	CHECK_EQ(spool_drop(&null_fd, ends[0], 100), 5);
	CHECK_EQ(spool_drop(&null_fd, ends[0], 100), -EAGAIN);
	(void)close(ends[1]);
	CHECK_EQ(spool_drop(&null_fd, ends[0], 100), 0);
	(void)close(ends[0]);
}

TEST(what_is_cut_off_is_written_over)
{
	SCRATCH(dir);
	struct spool p = make_spool(&dir);

	CHECK_EQ(spool_append(&p, "hello", 5), 0);
	CHECK_EQ(spool_cut(&p, 9), 0);
	CHECK_EQ(p.size, 5);
	CHECK_EQ(spool_cut(&p, 2), 0);
	CHECK_EQ(spool_append(&p, "y", 1), 0);
	spool_fini(&p);
	CHECK(scratch_holds(dir.fd, "stdout", "hey"));
	p = make_spool(&dir);
	CHECK_EQ(p.size, 3);
	spool_fini(&p);
}

TEST(links_and_other_things_are_refused)
{
	SCRATCH(dir);
	struct spool p;

	CHECK_EQ(symlinkat("/etc/passwd", dir.fd, "stdout"), 0);
	CHECK_EQ(spool_init(&p, "stdout", dir.fd, true), -EBADMSG);
	CHECK_EQ(mkfifoat(dir.fd, "stderr", 0600), 0);
	CHECK_EQ(spool_init(&p, "stderr", dir.fd, true), -EBADMSG);
}

TESTS(UNIT(a_file_that_nobody_needs_is_not_made), UNIT(bytes_move_from_a_pipe_and_can_be_read),
	UNIT(a_terminal_is_copied_and_its_end_is_an_end), UNIT(dropping_leaves_nothing),
	UNIT(what_is_cut_off_is_written_over), UNIT(links_and_other_things_are_refused))
