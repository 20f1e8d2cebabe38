#include "base/discard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/test.h"

static int make_file(const struct scratch *d, const char *name, size_t size)
{
	char path[256];
	static const char chunk[4096] = { 1 };

	(void)snprintf(path, sizeof(path), "%s/%s", d->path, name);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	for (size_t n = 0; n < size; n += sizeof(chunk))
		CHECK_EQ(write(fd, chunk, sizeof(chunk)), sizeof(chunk));
	return fd;
}

static unsigned count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	CHECK(dir != NULL);
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

TEST(a_large_file_is_closed_by_a_thread)
{
	SCRATCH(d);
	int dir_fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int none = -1;

	CHECK(dir_fd >= 0);
	discard_fd(&none);
	size_t before = scratch_count_fds();
	int small = make_file(&d, "small", 4096);
	int named = make_file(&d, "named", 4 << 20);
	CHECK_EQ(unlinkat(dir_fd, "small", 0), 0);
	discard_fd(&small);
	discard_fd(&named);
	CHECK_EQ(small, -1);
	CHECK_EQ(scratch_count_fds(), before);
	CHECK_EQ(count_threads(), 1); /* both were quick */
	int large = make_file(&d, "large", 4 << 20);
	CHECK_EQ(unlinkat(dir_fd, "large", 0), 0);
	discard_fd(&large);
	CHECK_EQ(large, -1);
	CHECK_EQ(count_threads(), 2);
	for (int i = 0; i < 5000 && scratch_count_fds() > before; i++)
		(void)usleep(1000);
	CHECK_EQ(scratch_count_fds(), before);
	(void)close(dir_fd);
}

TEST(a_file_is_removed_at_once_and_freed_later)
{
	SCRATCH(d);
	int dir_fd = open(d.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	CHECK(dir_fd >= 0);
	(void)close(make_file(&d, "large", 4 << 20));
	size_t before = scratch_count_fds();
	CHECK_EQ(discard_file(dir_fd, "large"), 0);
	CHECK(fstatat(dir_fd, "large", &st, 0) < 0 && errno == ENOENT);
	CHECK_EQ(discard_file(dir_fd, "large"), -ENOENT);
	for (int i = 0; i < 5000 && scratch_count_fds() > before; i++)
		(void)usleep(1000);
	CHECK_EQ(scratch_count_fds(), before);
	CHECK_EQ(symlinkat("elsewhere", dir_fd, "link"), 0);
	CHECK_EQ(discard_file(dir_fd, "link"), 0); /* what can not be opened goes all the same */
	(void)close(dir_fd);
}

TESTS(UNIT(a_large_file_is_closed_by_a_thread), UNIT(a_file_is_removed_at_once_and_freed_later))
